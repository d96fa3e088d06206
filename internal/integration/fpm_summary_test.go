//go:build integration

package integration

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/omni-exporter/omni_exporter/internal/fpm/trace/tracetest"
)

// writeLargeTrace writes a trace of 256 MiB of rows, the size of one of Dynamo's segments, in members of a second.
func writeLargeTrace(t *testing.T) string {
	t.Helper()
	const size, perMember = 256 << 20, 200
	rows, err := tracetest.Simulate(2 * time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "dynamo-fpm.4192.000000.jsonl.gz")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z := gzip.NewWriter(file)
	var member []byte
	var number [100]uint64
	for written, n := 0, 0; written < size; n++ {
		row := rows[n%len(rows)]
		row.Observed = tracetest.Start.Add(time.Duration(n) * 5 * time.Millisecond)
		row.Record.CounterID = number[row.Record.DPRank]
		number[row.Record.DPRank]++
		before := len(member)
		member = row.AppendJSON(member)
		written += len(member) - before
		if n%perMember != perMember-1 && written < size {
			continue
		}
		z.Reset(file)
		if _, err := z.Write(member); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		member = member[:0]
	}
	return path
}

// watchMemory reads the peak of a process's memory, in bytes, until it has ended. What
// the kernel tells of an ended child is of no use: that includes the memory of the
// process that it was forked from.
func watchMemory(pid int) <-chan int64 {
	peak := make(chan int64, 1)
	go func() {
		var kib int64
		for {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			_, rest, found := bytes.Cut(status, []byte("VmHWM:"))
			if err != nil || !found { // gone, or a zombie
				peak <- kib << 10
				return
			}
			if _, err := fmt.Sscan(string(rest), &kib); err != nil {
				kib = math.MaxInt64 >> 10 // not to pass unmeasured
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return peak
}

// A summary of 256 MiB takes no more than three times as long as inflating them to nothing, and less than 100 MiB of
// memory. Times are compared with each other, the best of three each.
func TestSummaryOfLargeTrace(t *testing.T) {
	path := writeLargeTrace(t)
	tool := programs.path(t, "omnitool")
	zcat, sum := time.Hour, time.Hour
	var memory int64
	for range 3 {
		began := time.Now()
		if err := exec.CommandContext(t.Context(), "zcat", path).Run(); err != nil {
			t.Fatal(err)
		}
		zcat = min(zcat, time.Since(began))
		cmd := exec.CommandContext(t.Context(), tool, "fpm", "summary", "--output=json", path)
		var out bytes.Buffer
		cmd.Stdout = &out
		began = time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		peak := watchMemory(cmd.Process.Pid)
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		sum = min(sum, time.Since(began))
		if !bytes.Contains(out.Bytes(), []byte(`"lost": 0`)) {
			t.Errorf("summary: %s", out.Bytes())
		}
		memory = max(memory, <-peak)
	}
	t.Logf("zcat %v, summary %v (%.2f times), %d MiB", zcat.Round(time.Millisecond), sum.Round(time.Millisecond), float64(sum)/float64(zcat), memory>>20)
	if sum > 3*zcat {
		t.Errorf("the summary took %v, more than three times zcat's %v", sum, zcat)
	}
	if memory >= 100<<20 {
		t.Errorf("the summary took %d MiB", memory>>20)
	}
}
