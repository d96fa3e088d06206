//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/replay"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
)

// passPublishers are the two ranks of a worker, at 100 records a second each.
type passPublishers struct {
	ranks []*replay.Publisher

	mu   sync.Mutex
	sent []time.Time // when both ranks sent the record of that number
}

const (
	passWorker   = "4192"
	passInterval = 10 * time.Millisecond
)

func startPassPublishers(t *testing.T) *passPublishers {
	t.Helper()
	p := &passPublishers{}
	for range 2 {
		publisher, err := replay.Listen(t.Context(), "127.0.0.1:0", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		p.ranks = append(p.ranks, publisher)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		p.publish(t, stop)
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		for _, rank := range p.ranks {
			rank.Close(ctx)
		}
	})
	return p
}

// publish begins once each rank has a subscriber.
func (p *passPublishers) publish(t *testing.T, stop <-chan struct{}) {
	for _, rank := range p.ranks {
		select {
		case <-rank.Subscribed():
		case <-stop:
			return
		}
	}
	ticker := time.NewTicker(passInterval)
	defer ticker.Stop()
	for number := uint64(0); ; number++ {
		select {
		case <-ticker.C:
		case <-stop:
			return
		}
		for rank, publisher := range p.ranks {
			record := fpm.Record{
				Version: 1, WorkerID: passWorker, DPRank: uint64(rank), CounterID: number, WallTime: 0.008,
				Scheduled: fpm.Scheduled{NumDecodeRequests: 20, SumDecodeKVTokens: 20_000 + number, VarDecodeKVTokens: float64(number) / 3},
			}
			if err := publisher.Send(&record, number); err != nil {
				t.Error(err)
			}
		}
		p.mu.Lock()
		p.sent = append(p.sent, time.Now())
		p.mu.Unlock()
	}
}

// before returns how many records each rank had sent by then.
func (p *passPublishers) before(then time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, _ := slices.BinarySearchFunc(p.sent, then, time.Time.Compare)
	return n
}

// flags are those that subscribe to the ranks.
func (p *passPublishers) flags() []string {
	var flags []string
	for _, rank := range p.ranks {
		flags = append(flags, "--fpm="+rank.Endpoint())
	}
	return flags
}

// captureTo sets the environment of Dynamo for a full capture.
func captureTo(t *testing.T, dir string, rollBytes, segments int) {
	t.Helper()
	for name, value := range map[string]string{
		trace.EnvOutputPath: filepath.Join(dir, "dynamo-fpm"), trace.EnvMode: "full",
		trace.EnvRollBytes: fmt.Sprint(rollBytes), trace.EnvMaxSegments: fmt.Sprint(segments),
	} {
		t.Setenv(name, value)
	}
}

// segmentsIn returns the paths of the worker's segments, in order.
func segmentsIn(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "dynamo-fpm."+passWorker+".*.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(paths)
	return paths
}

// readByPython returns the counters of each rank as Python's gzip and json read them, in the order of the files.
func readByPython(t *testing.T, paths []string) map[int][]int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python(), append([]string{filepath.Join("peers", "read_trace.py")}, paths...)...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("read_trace.py: %v", err)
	}
	var files map[string][][3]any
	if err := json.Unmarshal(out, &files); err != nil {
		t.Fatal(err)
	}
	counters := make(map[int][]int)
	for _, path := range paths {
		for _, row := range files[path] {
			rank := int(row[1].(float64))
			counters[rank] = append(counters[rank], int(row[2].(float64)))
		}
	}
	return counters
}

// awaitMetric awaits that a sample of the exporter's page is at least so much.
func awaitMetric(t *testing.T, p *process, url, sample string, least float64) {
	t.Helper()
	await(t, sample, readyTimeout, p, func(ctx context.Context) error {
		got, err := sampleOf(ctx, url, sample)
		if err == nil && got < least {
			err = fmt.Errorf("%s is %v, want %v", sample, got, least)
		}
		return err
	})
}

// sampleOf returns the value of the first sample that begins with a text.
func sampleOf(ctx context.Context, url, sample string) (float64, error) {
	page, err := fetch(ctx, url+"/metrics", acceptText)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(page) {
		if rest, ok := strings.CutPrefix(line, sample); ok {
			var v float64
			_, err := fmt.Sscan(rest[strings.LastIndexByte(rest, ' ')+1:], &v)
			return v, err
		}
	}
	return 0, fmt.Errorf("no %s", sample)
}

// An exporter that is killed leaves whole files: in order, without a gap, up to the last second.
func TestCaptureKilled(t *testing.T) {
	dir := t.TempDir()
	captureTo(t, dir, 60_000, 3)
	publishers := startPassPublishers(t)
	exporter, _ := startExporter(t, append(publishers.flags(), "--fpm-trace")...)
	await(t, "the twelfth segment", readyTimeout, exporter, func(context.Context) error {
		paths := segmentsIn(t, dir)
		if len(paths) == 0 {
			return os.ErrNotExist
		}
		if name, _ := trace.ParseSegmentName(paths[len(paths)-1]); name.Index < 11 {
			return fmt.Errorf("at %d", name.Index)
		}
		return nil
	})
	killed := time.Now()
	exporter.end(t, syscall.SIGKILL)

	paths := segmentsIn(t, dir)
	if len(paths) != 3 {
		t.Errorf("%d segments, want 3: %v", len(paths), paths)
	}
	for _, path := range paths {
		out, err := exec.CommandContext(t.Context(), "zcat", path).Output()
		if err != nil {
			t.Errorf("zcat %s: %v", path, err)
		}
		if len(out) > 60_000 {
			t.Errorf("%s holds %d bytes", path, len(out))
		}
	}
	sent := publishers.before(killed.Add(-2 * time.Second)) // a second of flushing, and one for a busy machine
	for rank, counters := range readByPython(t, paths) {
		for i := 1; i < len(counters); i++ {
			if counters[i] != counters[i-1]+1 {
				t.Errorf("rank %d: %d follows %d", rank, counters[i], counters[i-1])
			}
		}
		last := counters[len(counters)-1]
		if last+1 < sent {
			t.Errorf("rank %d: the last row is %d, of %d sent two seconds before the end", rank, last, sent)
		}
		t.Logf("rank %d: %d rows in %d segments, the last is number %d; %d were sent by the end", rank, len(counters), len(paths), last, publishers.before(killed))
	}
}

// mountTmpfs mounts a file system of so many KiB until the test ends.
func mountTmpfs(t *testing.T, kib int) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system takes root")
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dk", kib), "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("mounting a small file system is not allowed here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.Background(), "umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// A disk that is full, or becomes read-only, ends tracing with one warning and nothing else; it is on again after a
// restart, and not before.
func TestCaptureDiskFull(t *testing.T) {
	for _, reason := range []trace.OffReason{trace.OffFull, trace.OffReadOnly} {
		t.Run(string(reason), func(t *testing.T) {
			dir := mountTmpfs(t, 32)
			captureTo(t, dir, 1<<20, 1000)
			publishers := startPassPublishers(t)
			run := func() (*process, string) { return startExporter(t, append(publishers.flags(), "--fpm-trace")...) }
			exporter, url := run()
			awaitMetric(t, exporter, url, "omni_exporter_fpm_capture_rows_total", 1)
			if reason == trace.OffReadOnly {
				if out, err := exec.CommandContext(t.Context(), "mount", "-o", "remount,ro", dir).CombinedOutput(); err != nil {
					t.Fatalf("remount: %v: %s", err, out)
				}
			}
			awaitMetric(t, exporter, url, fmt.Sprintf("omni_exporter_fpm_capture_off{reason=%q}", reason), 1)
			for _, counters := range readByPython(t, segmentsIn(t, dir)) {
				if len(counters) == 0 {
					t.Error("nothing was written before")
				}
			}
			if reason == trace.OffReadOnly {
				if out, err := exec.CommandContext(t.Context(), "mount", "-o", "remount,rw", dir).CombinedOutput(); err != nil {
					t.Fatalf("remount: %v: %s", err, out)
				}
			}
			for _, path := range segmentsIn(t, dir) {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			records := `dynamo_fpm_records_total{dp_rank="0"`
			before, err := sampleOf(t.Context(), url, records)
			if err != nil {
				t.Fatal(err)
			}
			awaitMetric(t, exporter, url, records, before+200) // scrapes and streams go on
			awaitMetric(t, exporter, url, `omni_exporter_fpm_capture_records_dropped_total{reason="off"}`, 400)
			if enabled, err := sampleOf(t.Context(), url, "omni_exporter_fpm_capture_enabled"); err != nil || enabled != 0 {
				t.Errorf("enabled is %v: %v", enabled, err)
			}
			exporter.endsCleanly(t, syscall.SIGTERM)
			if n := strings.Count(exporter.out.String(), "Forward-pass tracing"); n != 1 {
				t.Errorf("%d messages of tracing, want 1:\n%s", n, exporter.out.String())
			}
			if left := segmentsIn(t, dir); len(left) > 0 {
				t.Errorf("tracing went on: %v", left)
			}
			exporter, url = run()
			awaitMetric(t, exporter, url, "omni_exporter_fpm_capture_rows_total", 1)
		})
	}
}

// A rank that is streamed and traced counts once, and one that is traced only counts, too.
func TestTraceFilesFollowed(t *testing.T) {
	dir := t.TempDir()
	captureTo(t, dir, 60_000, 8)
	publishers := startPassPublishers(t)
	files := filepath.Join(dir, "dynamo-fpm.*.jsonl.gz")
	reader, readerURL := startExporter(t, "--config.file="+writeConfig(t, fmt.Sprintf("forward_pass_metrics: {trace_files: [%q]}\n", files)))
	both, bothURL := startExporter(t, "--fpm-trace", "--config.file="+writeConfig(t, fmt.Sprintf(
		"forward_pass_metrics: {streams: [{static_configs: [{targets: [%q, %q]}]}], trace_files: [%q]}\n",
		publishers.ranks[0].Endpoint(), publishers.ranks[1].Endpoint(), files)))
	awaitMetric(t, both, bothURL, `omni_exporter_fpm_trace_duplicates_total{left_out="row"}`, 1000)
	awaitMetric(t, reader, readerURL, `dynamo_fpm_records_total{dp_rank="1"`, 500)
	for url, what := range map[string]string{bothURL: "streamed and traced", readerURL: "traced"} {
		for rank := range 2 {
			before := publishers.before(time.Now())
			records, err := sampleOf(t.Context(), url, fmt.Sprintf("dynamo_fpm_records_total{dp_rank=\"%d\"", rank))
			after := publishers.before(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			// What was sent meanwhile may have been seen.
			if int(records) > after+1 || url == bothURL && int(records) < before-100 {
				t.Errorf("rank %d, %s: %v records, %d to %d were sent", rank, what, records, before, after)
			}
			lost, err := sampleOf(t.Context(), url, fmt.Sprintf("dynamo_fpm_records_lost_total{dp_rank=\"%d\"", rank))
			if err != nil || lost != 0 {
				t.Errorf("rank %d, %s: %v lost: %v", rank, what, lost, err)
			}
		}
	}
	for _, reason := range trace.FileReasons() {
		if n, err := sampleOf(t.Context(), readerURL, fmt.Sprintf("omni_exporter_fpm_trace_file_failures_total{reason=%q}", reason)); err != nil || n != 0 {
			t.Errorf("%s: %v, %v", reason, n, err)
		}
	}
}
