package trace

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

func settings(dir string, change func(*Settings)) Settings {
	s := defaultSettings()
	s.OutputPath, s.Mode = filepath.Join(dir, "dynamo-fpm"), fpm.CaptureFull
	if change != nil {
		change(&s)
	}
	return s
}

func newWriter(t *testing.T, o WriterOptions) *Writer {
	t.Helper()
	if o.Logger == nil {
		o.Logger = new(logs).logger()
	}
	w, err := NewWriter(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close(context.Background()) })
	return w
}

// record gives a writer records of a rank, the first observed now and each of the others 10 ms later.
func record(w *Writer, worker string, rank uint64, counters ...uint64) {
	now := time.Now()
	for i, n := range counters {
		row := testRow(n, rank)
		row.Record.WorkerID = worker
		w.Record(&fpm.Delivery{
			Origin:   &fpm.Origin{Name: "tcp://10.0.0.5:20380", Labels: fpm.Labels{Namespace: "default", Component: "backend"}},
			Received: now.Add(time.Duration(i) * 10 * time.Millisecond), Record: row.Record,
		})
	}
}

func closeWriter(t *testing.T, w *Writer) {
	t.Helper()
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// readBack returns the rows of all segments below dir as the standard library inflates them, by file name.
func readBack(t *testing.T, dir string) map[string][]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]string)
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		_ = f.Close()
		var d rowDecoder
		for line := range strings.Lines(string(text)) {
			var row Row
			if why := d.decode([]byte(strings.TrimSuffix(line, "\n")), &row); why != nil {
				t.Fatalf("%s: %s: %v", path, line, why)
			}
			files[filepath.Base(path)] = append(files[filepath.Base(path)], fmt.Sprintf("%s/%d/%d", row.Record.WorkerID, row.Record.DPRank, row.Record.CounterID))
		}
	}
	return files
}

func demandDropped(t *testing.T, c *Captured, want map[DropReason]uint64) {
	t.Helper()
	for _, reason := range DropReasons() {
		if got := c.Dropped(reason); got != want[reason] {
			t.Errorf("%d records dropped as %s, want %d", got, reason, want[reason])
		}
	}
}

func counters(first, last uint64) (all []uint64) {
	for i := first; i <= last; i++ {
		all = append(all, i)
	}
	return all
}

// Every record is on the disk a second later, one series of segments for each producer.
func TestWriteFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, captured := t.TempDir(), NewCaptured()
		w := newWriter(t, WriterOptions{Settings: settings(dir, nil), Captured: captured})
		time.Sleep(100 * time.Millisecond) // of the bubble's clock
		record(w, "4192", 0, counters(1, 20)...)
		record(w, "4192", 1, 7)
		record(w, "", 0, 9)
		w.Record(&fpm.Delivery{Origin: &fpm.Origin{}, Rejected: &fpm.RejectError{}})
		time.Sleep(time.Second)
		synctest.Wait()
		want := map[string][]string{
			"dynamo-fpm.4192.000000.jsonl.gz":                 append(numbered(1, 20), "4192/1/7"),
			"dynamo-fpm.tcp___10_0_0_5_20380.000000.jsonl.gz": {"/0/9"},
		}
		if diff := cmp.Diff(want, readBack(t, dir)); diff != "" {
			t.Error(diff)
		}
		record(w, "4192", 0, 21)
		closeWriter(t, w)
		want["dynamo-fpm.4192.000000.jsonl.gz"] = append(want["dynamo-fpm.4192.000000.jsonl.gz"], "4192/0/21")
		if diff := cmp.Diff(want, readBack(t, dir)); diff != "" {
			t.Error(diff)
		}
		record(w, "4192", 0, 22, 23)
		demandDropped(t, captured, map[DropReason]uint64{DropClosed: 2})
		if captured.Rows() != 23 || captured.FileBytes() == 0 || captured.RowBytes() < captured.FileBytes() || captured.Removed() != 0 {
			t.Errorf("%d rows of %d bytes in %d bytes, %d removed", captured.Rows(), captured.RowBytes(), captured.FileBytes(), captured.Removed())
		}
	})
}

// The source, the time of observation and that since the start of the writer are what a row says.
func TestWriteRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newWriter(t, WriterOptions{Settings: settings(dir, nil)})
		time.Sleep(1250 * time.Millisecond) // of the bubble's clock
		synctest.Wait()
		row := testRow(42, 0)
		w.Record(&fpm.Delivery{Origin: &fpm.Origin{Labels: fpm.Labels{Namespace: "default", Component: "backend", Stage: "0"}}, Received: row.Observed, Record: row.Record})
		closeWriter(t, w)
		f, err := os.Open(segment(dir, "4192", 0))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil || string(text) != exampleRow+"\n" {
			t.Errorf("%s: %v", text, err)
		}
	})
}

// A member is ended at a MiB, long before the second is over.
func TestWriteLargeMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, captured := t.TempDir(), NewCaptured()
		w := newWriter(t, WriterOptions{Settings: settings(dir, nil), Captured: captured})
		record(w, "4192", 0, counters(1, 2000)...)
		synctest.Wait()
		if captured.RowBytes() < flushBytes || captured.RowBytes() > flushBytes+1000 {
			t.Errorf("%d bytes are written, want %d", captured.RowBytes(), flushBytes)
		}
	})
}

// Segments turn over before the row that would pass the limit, a row that is larger stands alone, the oldest go, and
// nothing else does.
func TestWriteSegments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, captured := t.TempDir(), NewCaptured()
		for _, name := range []string{
			"dynamo-fpm.4192.000006.jsonl.gz", "dynamo-fpm.4192.000007.jsonl.gz", "dynamo-fpm.41920.000001.jsonl.gz",
			"dynamo-fpm.4192.000001.jsonl.gz.bak", "dynamo-fpm.4192.1.jsonl.gz",
		} {
			appendFile(t, filepath.Join(dir, name), member(testLine(0, 0)))
		}
		if err := os.Symlink("elsewhere", segment(dir, "4192", 3)); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(segment(dir, "4192", 9), 0o755); err != nil {
			t.Fatal(err)
		}
		size := int64(len(testLine(100, 0)))
		w := newWriter(t, WriterOptions{Captured: captured, Settings: settings(dir, func(s *Settings) { s.RollBytes, s.MaxSegments = 3*size, 2 })})
		record(w, "4192", 0, counters(100, 106)...)
		long := strings.Repeat("9", int(3*size))
		w.Record(&fpm.Delivery{Origin: &fpm.Origin{Labels: fpm.Labels{Component: long}}, Record: testRow(107, 0).Record})
		record(w, "4192", 0, 108)
		closeWriter(t, w)
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		want := []string{
			"dynamo-fpm.4192.000001.jsonl.gz.bak", "dynamo-fpm.4192.000003.jsonl.gz", "dynamo-fpm.4192.000009.jsonl.gz",
			"dynamo-fpm.4192.000013.jsonl.gz", "dynamo-fpm.4192.000014.jsonl.gz", "dynamo-fpm.4192.1.jsonl.gz", "dynamo-fpm.41920.000001.jsonl.gz",
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Error(diff)
		}
		if captured.Removed() != 5 || captured.Rows() != 9 {
			t.Errorf("%d segments removed, %d rows", captured.Removed(), captured.Rows())
		}
	})
}

func TestWriteSegmentContents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		size := int64(len(testLine(100, 0)))
		w := newWriter(t, WriterOptions{Settings: settings(dir, func(s *Settings) { s.RollBytes, s.MaxSegments = 3*size, 3 })})
		record(w, "4192", 0, counters(100, 102)...)
		time.Sleep(2 * time.Second) // of the bubble's clock: a flush is no turn over
		record(w, "4192", 0, counters(103, 110)...)
		closeWriter(t, w)
		want := map[string][]string{
			"dynamo-fpm.4192.000001.jsonl.gz": numbered(103, 105), "dynamo-fpm.4192.000002.jsonl.gz": numbered(106, 108),
			"dynamo-fpm.4192.000003.jsonl.gz": numbered(109, 110),
		}
		if diff := cmp.Diff(want, readBack(t, dir)); diff != "" {
			t.Error(diff)
		}
	})
}

// A segment that somebody deletes is not made again, the next one takes its place.
func TestWriteDeletedSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newWriter(t, WriterOptions{Settings: settings(dir, nil)})
		record(w, "4192", 0, 1)
		time.Sleep(1100 * time.Millisecond) // of the bubble's clock
		synctest.Wait()
		if err := os.Remove(segment(dir, "4192", 0)); err != nil {
			t.Fatal(err)
		}
		appendFile(t, segment(dir, "4192", 1), member(testLine(50, 0))) // by another writer
		record(w, "4192", 0, 2)
		closeWriter(t, w)
		want := map[string][]string{"dynamo-fpm.4192.000001.jsonl.gz": {"4192/0/50"}, "dynamo-fpm.4192.000002.jsonl.gz": {"4192/0/2"}}
		if diff := cmp.Diff(want, readBack(t, dir)); diff != "" {
			t.Error(diff)
		}
	})
}

// One row for each rank that changed in an interval, none for one that did not, and what is pending at the end.
func TestWriteSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, captured := t.TempDir(), NewCaptured()
		w := newWriter(t, WriterOptions{Captured: captured, Settings: settings(dir, func(s *Settings) {
			s.Mode, s.SampleInterval = fpm.CaptureSampled, 5*time.Second
		})})
		interval := func(ranks map[uint64][]uint64) {
			for _, rank := range []uint64{0, 1, 2} {
				record(w, "4192", rank, ranks[rank]...)
			}
			time.Sleep(5 * time.Second) // of the bubble's clock
			synctest.Wait()
		}
		interval(map[uint64][]uint64{0: {1, 2, 3}, 1: {10}})
		interval(map[uint64][]uint64{0: {3}, 1: {11, 12}}) // rank 0 is unchanged
		interval(nil)                                      // both are
		interval(map[uint64][]uint64{0: {4, 5}, 2: {0}})   // counter 0 is a change for a rank without a row
		interval(map[uint64][]uint64{0: {6, 5}, 2: {0}})   // back at what was written
		record(w, "4192", 0, 6, 7)
		record(w, "4192", 1, 12)
		record(w, "4192", 2, 1)
		closeWriter(t, w)
		want := map[string][]string{"dynamo-fpm.4192.000000.jsonl.gz": {
			"4192/0/3", "4192/1/10", "4192/1/12", "4192/2/0", "4192/0/5", "4192/2/1", "4192/0/7",
		}}
		got := readBack(t, dir)
		// Within an interval ranks come in the order of their last records, which here is that of the clock.
		slices.Sort(want["dynamo-fpm.4192.000000.jsonl.gz"])
		slices.Sort(got["dynamo-fpm.4192.000000.jsonl.gz"])
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		demandDropped(t, captured, nil)
		if captured.Replaced() == 0 {
			t.Error("nothing was sampled out")
		}
	})
}

// Recording goes on without waiting when the writer does not keep up, and what is dropped is counted.
func TestWriteQueueFull(t *testing.T) {
	captured := NewCaptured()
	w := &Writer{settings: settings(t.TempDir(), nil), captured: captured, queue: make(chan entry, 10)} // nobody takes from it
	record(w, "4192", 0, counters(1, 25)...)
	demandDropped(t, captured, map[DropReason]uint64{DropQueue: 15})
	if w.Queued() != 10 {
		t.Errorf("%d queued", w.Queued())
	}
}

func TestWriteTooManyProducers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		captured, l := NewCaptured(), &logs{}
		w := newWriter(t, WriterOptions{Captured: captured, Logger: l.logger(), Settings: settings(t.TempDir(), func(s *Settings) {
			s.Mode, s.SampleInterval = fpm.CaptureSampled, time.Hour
		})})
		for i := range uint64(maxSampled + 3) {
			if record(w, "4192", i, 1); i%1000 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		demandDropped(t, captured, map[DropReason]uint64{DropLimit: 3})
		if l.warnings() != 1 {
			t.Errorf("%d warnings", l.warnings())
		}
	})
}

// A path that cannot be written to is told of at the start.
func TestWriteStartErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	appendFile(t, file, nil)
	for want, change := range map[OffReason]func(*Settings){
		OffPath:     func(s *Settings) { s.OutputPath = filepath.Join(file, "dynamo-fpm") },
		OffSettings: func(s *Settings) { s.MaxSegments = 0 },
	} {
		_, err := NewWriter(WriterOptions{Settings: settings(t.TempDir(), change)})
		var start *StartError
		if !errors.As(err, &start) || start.Reason != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	dir := t.TempDir()
	closeWriter(t, newWriter(t, WriterOptions{Settings: settings(dir, nil)}))
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A directory that goes away ends tracing with one warning; what is not written is counted.
func TestWriteError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, captured, l := filepath.Join(t.TempDir(), "traces"), NewCaptured(), &logs{}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		w := newWriter(t, WriterOptions{Captured: captured, Logger: l.logger(), Settings: settings(dir, nil)})
		record(w, "4192", 0, 1, 2)
		synctest.Wait()
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		record(w, "4192", 0, 3)
		record(w, "5000", 0, 1)
		time.Sleep(time.Minute) // of the bubble's clock
		synctest.Wait()
		record(w, "4192", 0, 4)
		closeWriter(t, w)
		if w.Off() != OffWriteFail || l.warnings() != 1 {
			t.Errorf("off: %q, %d warnings:\n%s", w.Off(), l.warnings(), l.text.String())
		}
		demandDropped(t, captured, map[DropReason]uint64{DropOff: 5})
	})
}

func TestWriteConcurrently(t *testing.T) {
	dir, captured := t.TempDir(), NewCaptured()
	w := newWriter(t, WriterOptions{Captured: captured, Settings: settings(dir, nil)})
	var wg sync.WaitGroup
	for rank := range uint64(8) {
		wg.Go(func() { record(w, "4192", rank, counters(1, 500)...) })
	}
	wg.Wait()
	closeWriter(t, w)
	demandDropped(t, captured, nil)
	rows := readBack(t, dir)["dynamo-fpm.4192.000000.jsonl.gz"]
	if len(rows) != 4000 || captured.Rows() != 4000 {
		t.Errorf("%d rows, %d counted", len(rows), captured.Rows())
	}
}

// What a writer makes, a follower reads, through segments and deletions.
func TestWriteAndFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, g, totals := t.TempDir(), &gathered{}, NewTotals()
		f := follow(dir, g, func(o *FollowerOptions) { o.Totals = totals })
		run(t, f)
		w := newWriter(t, WriterOptions{Settings: settings(dir, func(s *Settings) { s.RollBytes, s.MaxSegments = 20_000, 2 })})
		for i := range uint64(100) {
			record(w, "4192", 0, counters(10*i, 10*i+9)...)
			time.Sleep(time.Second) // of the bubble's clock
			synctest.Wait()
		}
		closeWriter(t, w)
		pass(poll)
		if diff := cmp.Diff(numbered(0, 999), g.take()); diff != "" {
			t.Error(diff)
		}
		demandTotals(t, totals, nil, nil)
	})
}

func TestSettingsFromEnv(t *testing.T) {
	lookup := func(env map[string]string) func(string) (string, bool) {
		return func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	}
	base := defaultSettings()
	got, err := base.FromEnv(lookup(nil))
	if err != nil || got != base {
		t.Errorf("%+v: %v", got, err)
	}
	got, err = base.FromEnv(lookup(map[string]string{
		EnvOutputPath: " /x/y ", EnvMode: " FULL", EnvSampleInterval: "250 ", EnvRollBytes: "60000", EnvMaxSegments: "3", EnvTrace: "no matter",
	}))
	if want := (Settings{"/x/y", fpm.CaptureFull, 250 * time.Millisecond, 60000, 3}); err != nil || got != want {
		t.Errorf("%+v: %v", got, err)
	}
	for name, values := range map[string][]string{
		EnvOutputPath: {"", "  "}, EnvMode: {"", "all"}, EnvSampleInterval: {"", "0", "-1", "1.5", "5s"}, EnvRollBytes: {"0", "256MiB"},
		EnvMaxSegments: {"0", "99999999999"},
	} {
		for _, value := range values {
			if _, err := base.FromEnv(lookup(map[string]string{name: value})); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s=%q: %v", name, value, err)
			}
		}
	}
	for value, want := range map[string]bool{"1": true, " True ": true, "on": true, "YES": true, "0": false, "false": false, "off": false, "No": false} {
		if got, err := EnabledByEnv(lookup(map[string]string{EnvTrace: value})); err != nil || got != want {
			t.Errorf("%q: %v %v", value, got, err)
		}
	}
	if got, err := EnabledByEnv(lookup(nil)); got || err != nil {
		t.Errorf("unset: %v %v", got, err)
	}
	for _, value := range []string{"", "2", "enable"} {
		if _, err := EnabledByEnv(lookup(map[string]string{EnvTrace: value})); err == nil {
			t.Errorf("%q was taken", value)
		}
	}
}

// defaultSettings are the defaults of Dynamo's FPM reference, "Configuration".
func defaultSettings() Settings {
	return Settings{
		OutputPath: "/tmp/dynamo-fpm", Mode: fpm.CaptureSampled, SampleInterval: 5 * time.Second, RollBytes: 256 << 20, MaxSegments: 4,
	}
}
