//go:build integration

package trace

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// python is the interpreter of the peers.
func python() string { return cmp.Or(os.Getenv("OMNI_PYTHON"), "/usr/bin/python3") }

// A trace that another hand writes while it is followed: each good row comes once, in order, the rest is counted.
func TestFollowPython(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "traces")
	g, totals := &gathered{more: make(chan struct{}, 1)}, NewTotals()
	f := NewFollower(FollowerOptions{
		Patterns: []string{filepath.Join(dir, "dynamo-fpm.*.jsonl.gz")}, Row: g.row, Totals: totals, Logger: new(logs).logger(),
		Timing: Timing{Poll: 200 * time.Millisecond}, // the directory does not exist yet, which only polling sees
	})
	stop := run(t, f)
	out, err := exec.CommandContext(t.Context(), python(), filepath.Join("testdata", "writer.py"), dir).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "200" {
		t.Fatalf("writer.py: %s: %v", out, err)
	}
	deadline := time.After(time.Minute)
	for totals.Rows(fpm.CaptureFull) < 200 || totals.Failures(FileNoGzip) < 1 {
		select {
		case <-g.more:
		case <-time.After(100 * time.Millisecond): // a file that is refused gives no row
		case <-deadline:
			t.Fatalf("%d rows", totals.Rows(fpm.CaptureFull))
		}
	}
	stop()
	rows := g.take()
	if len(rows) != 200 {
		t.Fatalf("%d rows", len(rows))
	}
	want := numbered(1, 202) // two more were spoilt: one is broken, one is in the file that is no gzip file
	next := 0
	for _, row := range rows {
		for next < len(want) && want[next] != row {
			next++
		}
		if next == len(want) {
			t.Fatalf("%s is out of order or comes twice", row)
		}
		next++
	}
	demandTotals(t, totals, map[fpm.Reason]uint64{fpm.ReasonMalformed: 1}, map[FileReason]uint64{FileNoGzip: 1})
	if totals.Members() != 20 {
		t.Errorf("%d members", totals.Members())
	}
}
