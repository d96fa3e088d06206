package replay

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/stream"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace/tracetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var discard = slog.New(slog.DiscardHandler)

// received gathers what a subscriber gets: the exporter's own.
type received struct {
	mu      sync.Mutex
	byRank  map[string][]fpm.Record
	lost    uint64
	arrived chan struct{}
}

func (r *received) deliver(d *fpm.Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.Rejected != nil {
		panic(d.Rejected)
	}
	key := fmt.Sprintf("%s/%d", d.Record.WorkerID, d.Record.DPRank)
	r.byRank[key] = append(r.byRank[key], d.Record)
	r.lost += d.Lost
	r.arrived <- struct{}{}
}

// rows are two ranks of one worker in one file, one of another worker in a second; a gap, and a heartbeat.
func write(t *testing.T, sampled bool) (paths []string, want map[string][]fpm.Record) {
	t.Helper()
	dir := t.TempDir()
	want = make(map[string][]fpm.Record)
	files := map[string][]trace.Row{}
	number := uint64(0)
	for i := range uint64(40) {
		for worker, rank := range map[string]uint64{"100": i % 2, "200": 0} {
			row := tracetest.Row(worker, i/2*2, tracetest.Start.Add(time.Duration(i)*5*time.Millisecond))
			if worker == "200" {
				row.Record.CounterID = i
				if i > 20 {
					row.Record.CounterID += 5
				}
				if sampled {
					row.Capture = fpm.CaptureSampled
				}
			}
			row.Record.DPRank = rank
			if i == 30 {
				row.Record = fpm.Record{Version: 1, WorkerID: worker, DPRank: rank, CounterID: row.Record.CounterID}
			}
			files[worker] = append(files[worker], row)
			if worker == "200" && sampled {
				row.Record.CounterID = number
				number++
			}
			key := fmt.Sprintf("%s/%d", worker, rank)
			want[key] = append(want[key], row.Record)
		}
	}
	for worker, rows := range files {
		path := trace.SegmentName{Prefix: filepath.Join(dir, "dynamo-fpm"), Producer: worker}.String()
		if err := tracetest.WriteFile(path, rows, 7); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths, want
}

// A replay gives a subscriber what the engines gave theirs, rank by rank: at its pace, with what was lost then missing
// now, while rows that were sampled are numbered anew.
func TestReplay(t *testing.T) {
	for _, sampled := range []bool{false, true} {
		t.Run(fmt.Sprint("sampled ", sampled), func(t *testing.T) {
			paths, want := write(t, sampled)
			plan, err := Look(t.Context(), paths, "127.0.0.1", 0, trace.Filter{}, trace.ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if plan.Rows != 80 || !plan.First.Equal(tracetest.Start) || plan.Last.Sub(plan.First) != 195*time.Millisecond || len(plan.Ranks) != 3 {
				t.Fatalf("%+v", plan)
			}
			r, err := plan.Start(t.Context(), discard)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var endpoints []stream.Endpoint
			for _, address := range r.Endpoints() {
				endpoints = append(endpoints, stream.Endpoint{Address: address})
			}
			got := &received{byRank: make(map[string][]fpm.Record), arrived: make(chan struct{}, 100)}
			subscriber := stream.NewSupervisor(stream.Options{Sink: got.deliver, Logger: discard})
			defer subscriber.Close()
			if err := subscriber.Apply(endpoints); err != nil {
				t.Fatal(err)
			}
			if without := r.AwaitSubscribers(t.Context(), 30*time.Second); without > 0 {
				t.Fatalf("%d ranks without a subscriber", without)
			}
			published := 0
			began := time.Now()
			if err := r.Run(t.Context(), paths, 2, trace.Filter{}, func() { published++ }); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took < 195*time.Millisecond/2 {
				t.Errorf("took %v", took)
			}
			deadline := time.After(30 * time.Second)
			for range 80 {
				select {
				case <-got.arrived:
				case <-deadline:
					t.Fatal("records are missing")
				}
			}
			got.mu.Lock()
			defer got.mu.Unlock()
			if diff := cmp.Diff(want, got.byRank); diff != "" {
				t.Error(diff)
			}
			wantLost := uint64(5 + 2*19) // every other number of worker 100 is the other rank's
			if sampled {
				wantLost -= 5
			}
			if got.lost != wantLost || published != 80 || r.Dropped() != 0 {
				t.Errorf("%d lost, want %d; %d published, %d dropped", got.lost, wantLost, published, r.Dropped())
			}
		})
	}
}

// Ranks of a worker are on ports that follow each other, workers one after the other.
func TestPorts(t *testing.T) {
	plan := &Plan{Ranks: []Rank{{WorkerID: "a", DPRank: 0}, {WorkerID: "a", DPRank: 3}, {WorkerID: "b", DPRank: 1}, {WorkerID: "c"}}}
	if err := plan.assign("::1", 20380); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range plan.Ranks {
		got = append(got, r.Address)
	}
	if diff := cmp.Diff([]string{"[::1]:20380", "[::1]:20383", "[::1]:20385", "[::1]:20386"}, got); diff != "" {
		t.Error(diff)
	}
	if err := plan.assign("127.0.0.1", 65530); err == nil {
		t.Error("ports above 65535 were taken")
	}
}

func TestReplayEnds(t *testing.T) {
	paths, _ := write(t, false)
	plan, err := Look(t.Context(), paths, "127.0.0.1", 0, trace.Filter{Workers: []string{"200"}}, trace.ReadOptions{})
	if err != nil || len(plan.Ranks) != 1 {
		t.Fatalf("%+v: %v", plan, err)
	}
	r, err := plan.Start(t.Context(), discard)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if without := r.AwaitSubscribers(t.Context(), 0); without != 1 {
		t.Errorf("%d ranks without a subscriber", without)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = r.Run(ctx, paths, 1e-6, trace.Filter{}, cancel)
	if err == nil {
		t.Error("a replay that was cancelled came to its end")
	}
	for _, speed := range []float64{0, -1} {
		if err := r.Run(t.Context(), paths, speed, trace.Filter{}, nil); err == nil {
			t.Errorf("speed %v was taken", speed)
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	plan.Ranks[0].Address = taken.Addr().String()
	if _, err := plan.Start(t.Context(), discard); err == nil {
		t.Error("a port that is taken was taken")
	}
}

// Peers that are no subscribers, or leave, do no harm.
func TestPublisherHostilePeers(t *testing.T) {
	p, err := Listen(t.Context(), "127.0.0.1:0", discard)
	if err != nil {
		t.Fatal(err)
	}
	address := p.Endpoint()[len("tcp://"):]
	for _, greeting := range []string{"", "GET / HTTP/1.1\r\n\r\n", "\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x00NULL"} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(greeting)); err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	row := tracetest.Row("4192", 1, tracetest.Start)
	if err := p.Send(&row.Record, 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	p.Close(ctx)
	if ctx.Err() != nil {
		t.Error("the publisher did not end")
	}
}
