// Package summary says what the rows of forward-pass traces come to, rank by rank.
package summary

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/DataDog/sketches-go/ddsketch"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
)

const (
	// Accuracy is how far quantiles may be from the value they stand for, as a share of it.
	Accuracy = 0.01
	// maxBins bounds the memory of the quantiles. Beyond it the smallest values lose accuracy: with 1 % that is below a
	// 10^17th of the largest.
	maxBins = 2048
	// maxRanks bounds the ranks that are told apart.
	maxRanks = 16_384
)

// Quantiles describe a distribution. Max is exact, the others are within Accuracy. All are 0 when nothing was measured.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Rank is what is known of one rank in one capture mode. Ratios that sampled rows cannot tell are nil.
type Rank struct {
	Namespace   string `json:"namespace"`
	Component   string `json:"component"`
	WorkerID    string `json:"worker_id"`
	DPRank      uint64 `json:"dp_rank"`
	CaptureMode string `json:"capture_mode"`
	TimingScope string `json:"timing_scope"`

	First time.Time `json:"first"` // observed
	Last  time.Time `json:"last"`
	// Seconds is the time from First to Last and the wall time of the first pass.
	Seconds float64 `json:"seconds"`

	Rows       uint64 `json:"rows"`
	Heartbeats uint64 `json:"heartbeats"`
	Prefill    uint64 `json:"prefill_passes"`
	Decode     uint64 `json:"decode_passes"`
	Mixed      uint64 `json:"mixed_passes"`
	// RowBytes is the mean length of a row with its end of line, uncompressed.
	RowBytes float64 `json:"mean_row_bytes"`

	PrefillTokens   uint64  `json:"prefill_tokens"`
	PrefillKVTokens uint64  `json:"prefill_kv_tokens"`
	DecodeRequests  uint64  `json:"decode_requests"` // summed over passes; the tokens generated, without speculation
	DecodeKVTokens  uint64  `json:"decode_kv_tokens"`
	WallSeconds     float64 `json:"wall_seconds"`

	PassesPerSecond  *float64 `json:"passes_per_second"`
	PrefillPerSecond *float64 `json:"prefill_tokens_per_second"`
	DecodePerSecond  *float64 `json:"decode_tokens_per_second"`
	// Busy is the share of time in forward passes. It may pass 1 slightly where passes overlap.
	Busy *float64 `json:"busy_share"`

	// Batch is of the requests of a pass, WallTime of its seconds, PassTokens of the tokens it computed.
	Batch      Quantiles `json:"batch"`
	WallTime   Quantiles `json:"wall_time"`
	PassTokens Quantiles `json:"pass_tokens"`

	// Gaps are jumps of the counter, Lost the numbers missing from them; always 0 in sampled traces, where jumps are
	// what sampling means. Restarts are steps back.
	Gaps     uint64 `json:"gaps"`
	Lost     uint64 `json:"lost"`
	Restarts uint64 `json:"restarts"`
	// LongestSilence is the longest time between two rows, in seconds.
	LongestSilence float64 `json:"longest_silence"`
}

// Passes returns the number of passes of any kind.
func (r *Rank) Passes() uint64 { return r.Prefill + r.Decode + r.Mixed }

type key struct {
	namespace, component, worker, scope string
	rank                                uint64
	capture                             fpm.Capture
}

// Summary gathers rows. It must not be used by two goroutines at once.
type Summary struct {
	ranks map[key]*rank
}

// rank is a Rank in the making.
type rank struct {
	Rank
	firstWall           float64
	lastCounter         uint64
	bytes               uint64
	batch, wall, tokens *distribution
}

// New returns an empty summary.
func New() *Summary { return &Summary{ranks: make(map[key]*rank)} }

// Add counts a row. Rows of a rank come in the order of their trace. The error tells of more ranks than can be told
// apart, which no deployment has.
func (s *Summary) Add(row *trace.Row) error {
	record := &row.Record
	k := key{row.Namespace, row.Component, record.WorkerID, record.Scope(), record.DPRank, row.Capture}
	r := s.ranks[k]
	if r == nil {
		if len(s.ranks) >= maxRanks {
			return fmt.Errorf("more than %d ranks: choose some by --worker or --rank", maxRanks)
		}
		r = newRank(k, row)
		s.ranks[k] = r
	} else {
		r.follow(row)
	}
	r.Rows++
	r.bytes += uint64(len(row.Line)) + 1
	if record.Heartbeat() {
		r.Heartbeats++
		return nil
	}
	r.pass(record)
	return nil
}

func newRank(k key, row *trace.Row) *rank {
	r := &rank{
		Rank: Rank{
			Namespace: k.namespace, Component: k.component, WorkerID: k.worker, DPRank: k.rank,
			CaptureMode: k.capture.String(), TimingScope: k.scope, First: row.Observed, Last: row.Observed,
		},
		firstWall: row.Record.WallTime, lastCounter: row.Record.CounterID,
		batch: newDistribution(), wall: newDistribution(), tokens: newDistribution(),
	}
	return r
}

// follow compares a row with the one before.
func (r *rank) follow(row *trace.Row) {
	counter := row.Record.CounterID
	switch {
	case counter < r.lastCounter:
		r.Restarts++
	case counter > r.lastCounter+1 && row.Capture == fpm.CaptureFull:
		r.Gaps++
		r.Lost += counter - r.lastCounter - 1
	}
	r.lastCounter = counter
	r.LongestSilence = max(r.LongestSilence, row.Observed.Sub(r.Last).Seconds())
	if row.Observed.After(r.Last) {
		r.Last = row.Observed
	}
}

func (r *rank) pass(record *fpm.Record) {
	switch record.Kind() {
	case fpm.KindPrefill:
		r.Prefill++
	case fpm.KindDecode:
		r.Decode++
	case fpm.KindMixed:
		r.Mixed++
	default:
		return // nothing ran
	}
	s := &record.Scheduled
	r.PrefillTokens += s.SumPrefillTokens
	r.PrefillKVTokens += s.SumPrefillKVTokens
	r.DecodeRequests += s.NumDecodeRequests
	r.DecodeKVTokens += s.SumDecodeKVTokens
	r.batch.add(float64(s.NumPrefillRequests + s.NumDecodeRequests))
	r.tokens.add(float64(s.SumPrefillTokens + s.NumDecodeRequests))
	if record.WallTime > 0 { // old publishers do not time the first pass after idling (ai-dynamo/dynamo#7779)
		r.WallSeconds += record.WallTime
		r.wall.add(record.WallTime)
	}
}

// Ranks returns what was gathered, by namespace, component, worker and rank.
func (s *Summary) Ranks() []Rank {
	out := make([]Rank, 0, len(s.ranks))
	for _, r := range s.ranks {
		r.finish()
		out = append(out, r.Rank)
	}
	slices.SortFunc(out, func(a, b Rank) int {
		return cmp.Or(
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Component, b.Component), cmp.Compare(a.WorkerID, b.WorkerID),
			cmp.Compare(a.DPRank, b.DPRank), cmp.Compare(a.CaptureMode, b.CaptureMode), cmp.Compare(a.TimingScope, b.TimingScope))
	})
	return out
}

// finish works out what follows from the sums.
func (r *rank) finish() {
	r.Batch, r.WallTime, r.PassTokens = r.batch.quantiles(), r.wall.quantiles(), r.tokens.quantiles()
	r.RowBytes = float64(r.bytes) / float64(r.Rows)
	r.Seconds = r.Last.Sub(r.First).Seconds() + r.firstWall
	if r.CaptureMode != fpm.CaptureFull.String() || r.Seconds <= 0 {
		return
	}
	per := func(n float64) *float64 { return new(n / r.Seconds) }
	r.PassesPerSecond = per(float64(r.Passes()))
	r.PrefillPerSecond, r.DecodePerSecond = per(float64(r.PrefillTokens)), per(float64(r.DecodeRequests))
	r.Busy = per(r.WallSeconds)
}

// distribution keeps quantiles of values from 0 in a bounded number of bins.
type distribution struct {
	sketch *ddsketch.DDSketch
	max    float64
}

func newDistribution() *distribution {
	sketch, err := ddsketch.LogCollapsingLowestDenseDDSketch(Accuracy, maxBins)
	if err != nil {
		panic(fmt.Sprintf("summary: %v", err)) // of constants
	}
	return &distribution{sketch: sketch}
}

func (d *distribution) add(v float64) {
	if d.sketch.Add(v) == nil { // the values of records are finite and not negative
		d.max = max(d.max, v)
	}
}

func (d *distribution) quantiles() Quantiles {
	if d.sketch.IsEmpty() {
		return Quantiles{}
	}
	at := func(q float64) float64 {
		v, err := d.sketch.GetValueAtQuantile(q)
		if err != nil {
			return math.NaN() // only for quantiles beyond 0 and 1
		}
		return min(v, d.max)
	}
	return Quantiles{P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: d.max}
}
