package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// observed is when the first row of tests was observed.
var observed = time.UnixMilli(1782777601250)

// testRow is the row of Dynamo's FPM reference with another counter, rank and time.
func testRow(counter uint64, rank uint64) Row {
	return Row{
		Elapsed: 1250 * time.Millisecond, Namespace: "default", Component: "backend", Producer: "4192", Capture: fpm.CaptureFull,
		Observed: observed.Add(time.Duration(counter) * 10 * time.Millisecond),
		Record: fpm.Record{
			Version: 1, WorkerID: "4192", DPRank: rank, CounterID: counter, WallTime: 0.025,
			Scheduled: fpm.Scheduled{
				NumPrefillRequests: 2, SumPrefillTokens: 256, VarPrefillLength: 100, SumPrefillKVTokens: 64,
				NumDecodeRequests: 3, SumDecodeKVTokens: 1024, VarDecodeKVTokens: 22.5,
			},
			Queued: fpm.Queued{NumPrefillRequests: 1, SumPrefillTokens: 128},
		},
	}
}

func testLine(counter, rank uint64) string {
	row := testRow(counter, rank)
	return string(row.AppendJSON(nil))
}

// lines returns the rows of rank 0 with counters from first to last.
func lines(first, last uint64) string {
	var b bytes.Buffer
	for i := first; i <= last; i++ {
		b.WriteString(testLine(i, 0))
	}
	return b.String()
}

// member returns text as one gzip member, by the standard library.
func member(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func appendFile(t *testing.T, path string, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
}

func segment(dir, producer string, index uint64) string {
	return SegmentName{Prefix: filepath.Join(dir, "dynamo-fpm"), Producer: producer, Index: index}.String()
}

// gathered keeps what a follower hands on.
type gathered struct {
	mu   sync.Mutex
	rows []string // "producer/rank/counter"
	more chan struct{}
}

func (g *gathered) row(r *Row) *fpm.RejectError {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rows = append(g.rows, fmt.Sprintf("%s/%d/%d", r.Producer, r.Record.DPRank, r.Record.CounterID))
	if g.more != nil {
		select {
		case g.more <- struct{}{}:
		default:
		}
	}
	return nil
}

// take returns what was gathered since the last call.
func (g *gathered) take() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	rows := g.rows
	g.rows = nil
	return rows
}

// numbered returns what gathered has for rows of rank 0.
func numbered(first, last uint64) []string {
	var out []string
	for i := first; i <= last; i++ {
		out = append(out, fmt.Sprintf("4192/0/%d", i))
	}
	return out
}

// logs counts warnings.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) warnings() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.text.Bytes(), []byte("level=WARN"))
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// run runs a follower until the test or bubble ends, or the returned function is called.
func run(t *testing.T, f *Follower) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// demandTotals compares all counts that are not zero.
func demandTotals(t *testing.T, totals *Totals, rejected map[fpm.Reason]uint64, failures map[FileReason]uint64) {
	t.Helper()
	for _, reason := range RowReasons() {
		if got := totals.Rejected(reason); got != rejected[reason] {
			t.Errorf("%d rows refused as %s, want %d", got, reason, rejected[reason])
		}
	}
	for _, reason := range FileReasons() {
		if got := totals.Failures(reason); got != failures[reason] {
			t.Errorf("%d failures %s, want %d", got, reason, failures[reason])
		}
	}
}
