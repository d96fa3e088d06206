package trace

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// told keeps deliveries as text: where from, counter, and what was lost before.
type told struct{ all []string }

func (s *told) sink(d *fpm.Delivery) {
	text := fmt.Sprintf("%s %d", d.Capture, d.Record.CounterID)
	if d.Lost > 0 {
		text += fmt.Sprintf(" lost %d", d.Lost)
	}
	if d.Restarted {
		text += " restarted"
	}
	s.all = append(s.all, text)
}

func (s *told) take() []string {
	all := s.all
	s.all = nil
	return all
}

func TestDeliverer(t *testing.T) {
	s := &told{}
	d := NewDeliverer(s.sink)
	var refused []uint64
	give := func(change func(*Row), counters ...uint64) {
		for _, n := range counters {
			row := testRow(n, 0)
			row.Series = "/tmp/dynamo-fpm.4192"
			if change != nil {
				change(&row)
			}
			if why := d.Row(&row); why != nil {
				if why.Reason != fpm.ReasonDuplicate {
					t.Error(why)
				}
				refused = append(refused, n)
			}
		}
	}
	sampled := func(r *Row) { r.Capture = fpm.CaptureSampled }
	give(nil, 7, 8, 11, 11)
	give(func(r *Row) { r.Record.DPRank = 1 }, 3)          // interleaved
	give(func(r *Row) { r.Record.WallTime = 1 }, 12, 12)   // the same twice
	give(nil, 2)                                           // the publisher counts anew
	give(func(r *Row) { r.Record.WorkerID = "5000" }, 100) // another worker in the same file
	give(sampled, 20, 40, 60, 5)                           // nothing is lost by sampling
	want := []string{
		"full 7", "full 8", "full 11 lost 2", "full 3", "full 12", "full 2 restarted", "full 100",
		"sampled 20", "sampled 40", "sampled 60", "sampled 5 restarted",
	}
	if diff := cmp.Diff(want, s.take()); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(refused, []uint64{11, 12}) {
		t.Errorf("refused %v", refused)
	}
}

func TestDelivererOrigin(t *testing.T) {
	var got []fpm.Delivery
	d := NewDeliverer(func(d *fpm.Delivery) {
		own := *d
		origin := *d.Origin
		own.Origin = &origin
		got = append(got, own)
	})
	d.now = func() time.Time { return observed.Add(time.Second) }
	early, late := testRow(1, 1), testRow(500, 0)
	early.Series, late.Series = "/a/x.4192", "/a/x.4192"
	for _, row := range []Row{early, late} {
		if why := d.Row(&row); why != nil {
			t.Fatal(why)
		}
	}
	labels := fpm.Labels{Namespace: "default", Component: "backend"}
	want := []fpm.Delivery{
		{Origin: &fpm.Origin{Name: "/a/x.4192", Rank: 1, Labels: labels}, Capture: fpm.CaptureFull, Received: early.Observed, Record: early.Record},
		// A clock that is ahead does not keep a rank up for longer.
		{Origin: &fpm.Origin{Name: "/a/x.4192", Rank: 0, Labels: labels}, Capture: fpm.CaptureFull, Received: observed.Add(time.Second), Record: late.Record},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDelivererIsBounded(t *testing.T) {
	d := NewDeliverer(func(*fpm.Delivery) {})
	now := observed
	d.now = func() time.Time { now = now.Add(time.Millisecond); return now }
	for i := range uint64(3 * maxSequences) {
		row := testRow(1, i%1000)
		row.Record.WorkerID = fmt.Sprint(i)
		if why := d.Row(&row); why != nil {
			t.Fatal(why)
		}
	}
	if n := len(d.sequences); n > maxSequences {
		t.Errorf("%d ranks are kept", n)
	}
}

func TestGate(t *testing.T) {
	const stale = 10 * time.Second
	type step struct {
		wait          time.Duration
		stream, trace []uint64
		lost          uint64 // of the first record of stream
		restarted     bool
		worker        string
		sampled       bool
	}
	cases := map[string]struct {
		steps         []step
		want          []string
		rows, records uint64
	}{
		"stream alone": {steps: []step{{stream: []uint64{5, 6, 9}}}, want: []string{"stream 5", "stream 6", "stream 9"}},
		"trace alone":  {steps: []step{{trace: []uint64{5, 6, 9}}}, want: []string{"full 5", "full 6", "full 9"}},
		"traced after a second": {
			steps: []step{{stream: []uint64{5, 6}}, {wait: time.Second, trace: []uint64{5, 6}}, {stream: []uint64{7}}},
			want:  []string{"stream 5", "stream 6", "stream 7"}, rows: 2,
		},
		"what was before the stream": {
			steps: []step{{stream: []uint64{5}}, {trace: []uint64{3, 4, 5}}},
			want:  []string{"stream 5", "full 3", "full 4"}, rows: 1,
		},
		"rows ahead of a stream that goes on are waited for": {
			steps: []step{{stream: []uint64{5}}, {wait: 9 * time.Second, trace: []uint64{6, 7}}, {stream: []uint64{6, 7}}},
			want:  []string{"stream 5", "stream 6", "stream 7"}, rows: 2,
		},
		"traces fill in for a silent stream": {
			steps: []step{
				{stream: []uint64{5}},
				{wait: stale, trace: []uint64{5, 6, 7}},
				{wait: time.Second, trace: []uint64{8}},
				{wait: time.Second, stream: []uint64{11}, lost: 5},
				{trace: []uint64{9, 10, 11, 12}},
			},
			want: []string{"stream 5", "full 6", "full 7", "full 8", "stream 11 lost 2"}, rows: 5,
		},
		"a stream that is late": {
			steps: []step{{trace: []uint64{1, 2, 3}}, {wait: time.Second, stream: []uint64{3, 4}}},
			want:  []string{"full 1", "full 2", "full 3", "stream 4"}, records: 1,
		},
		"a publisher that counts anew": {
			steps: []step{{stream: []uint64{100}}, {stream: []uint64{0, 1}, restarted: true}, {trace: []uint64{0, 1}}},
			want:  []string{"stream 100", "stream 0 restarted", "stream 1"}, rows: 2,
		},
		"a publisher that counts anew after traces": {
			steps: []step{{trace: []uint64{100}}, {stream: []uint64{0}, restarted: true}},
			want:  []string{"full 100", "stream 0 restarted"},
		},
		"another worker": {
			steps: []step{{stream: []uint64{5}}, {trace: []uint64{5}, worker: "5000"}},
			want:  []string{"stream 5", "full 5"},
		},
		"no worker id": {
			steps: []step{{stream: []uint64{5}, worker: "-"}, {trace: []uint64{5}, worker: "-"}},
			want:  []string{"stream 5", "full 5"},
		},
		"sampled": {
			steps: []step{{trace: []uint64{1, 400}, sampled: true}, {stream: []uint64{401}}, {trace: []uint64{800}, sampled: true}},
			want:  []string{"sampled 1", "sampled 400", "stream 401"}, rows: 1,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &told{}
				g := NewGate(s.sink, stale)
				for _, step := range c.steps {
					time.Sleep(step.wait) // of the bubble's clock
					row := testRow(0, 0)
					switch step.worker {
					case "":
					case "-":
						row.Record.WorkerID = ""
					default:
						row.Record.WorkerID = step.worker
					}
					d := fpm.Delivery{Origin: &fpm.Origin{}, Record: row.Record, Lost: step.lost, Restarted: step.restarted}
					for _, n := range step.stream {
						d.Record.CounterID = n
						before := d
						g.Stream(&d)
						if d != before {
							t.Errorf("the delivery was changed to %+v", d)
						}
						d.Lost, d.Restarted = 0, false
					}
					d.Capture = fpm.CaptureFull
					if step.sampled {
						d.Capture = fpm.CaptureSampled
					}
					for _, n := range step.trace {
						d.Record.CounterID = n
						g.Trace(&d)
					}
				}
				if diff := cmp.Diff(c.want, s.take()); diff != "" {
					t.Error(diff)
				}
				if g.SkippedRows() != c.rows || g.SkippedRecords() != c.records {
					t.Errorf("%d rows and %d records skipped, want %d and %d", g.SkippedRows(), g.SkippedRecords(), c.rows, c.records)
				}
			})
		})
	}
}

func TestGateIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passed := 0
		g := NewGate(func(*fpm.Delivery) { passed++ }, time.Second)
		d := fpm.Delivery{Origin: &fpm.Origin{}}
		flood := func() {
			for i := range 2 * maxGateRanks {
				d.Record.WorkerID = fmt.Sprint(time.Now().Unix(), i)
				g.Stream(&d)
			}
		}
		flood()
		time.Sleep(2 * time.Hour) // of the bubble's clock
		flood()
		if len(g.ranks) != maxGateRanks || passed != 4*maxGateRanks {
			t.Errorf("%d ranks, %d passed", len(g.ranks), passed)
		}
	})
}
