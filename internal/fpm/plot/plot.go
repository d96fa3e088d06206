// Package plot draws forward-pass traces: throughput, batches, queues and wall time over time, and wall time against
// the tokens of a pass.
package plot

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
)

const (
	// maxBuckets is how finely time is divided. When a trace gets longer than that, two buckets become one.
	maxBuckets = 600
	// firstWidth is the width of a bucket at first.
	firstWidth = time.Second
	// maxRanks is how many ranks have lines of their own; eyes tell no more colours apart.
	maxRanks = 8
	// maxPoints is how many passes of a rank are shown as points, chosen evenly.
	maxPoints = 1500
)

// Data gathers what is drawn, in bounded memory.
type Data struct {
	origin, last time.Time
	width        time.Duration
	ranks        []*rank
	byKey        map[key]*rank
	others       *rank // all ranks beyond maxRanks
	random       *rand.Rand
	rows         uint64
}

type key struct {
	worker  string
	rank    uint64
	capture fpm.Capture
}

type rank struct {
	name    string
	sampled bool
	buckets []bucket
	passes  int
	points  []point
}

// bucket sums the rows of a stretch of time.
type bucket struct {
	rows, passes, timed float64
	prefill, decode     float64 // tokens
	batch, queue        float64 // requests
	wall, longest       float64 // seconds
}

// point is one pass.
type point struct{ tokens, wall float64 }

// New returns empty data.
func New() *Data {
	// The same trace gives the same picture.
	return &Data{width: firstWidth, byKey: make(map[key]*rank), random: rand.New(rand.NewPCG(1, 2))}
}

// Rows returns how many rows were added.
func (d *Data) Rows() uint64 { return d.rows }

// Add adds a row. Rows come in order of time.
func (d *Data) Add(row *trace.Row) {
	if d.rows == 0 {
		d.origin, d.last = row.Observed, row.Observed
	}
	d.rows++
	if row.Observed.After(d.last) {
		d.last = row.Observed
	}
	i := max(int(row.Observed.Sub(d.origin)/d.width), 0)
	for ; i >= maxBuckets; i /= 2 {
		d.halve()
	}
	r := d.rank(row)
	for len(r.buckets) <= i {
		r.buckets = append(r.buckets, bucket{})
	}
	r.add(&r.buckets[i], &row.Record, d.random)
}

// halve makes two buckets one.
func (d *Data) halve() {
	d.width *= 2
	all := d.ranks
	if d.others != nil {
		all = append(slices.Clip(all), d.others)
	}
	for _, r := range all {
		for i := range r.buckets {
			if i%2 == 0 {
				r.buckets[i/2] = r.buckets[i]
			} else {
				r.buckets[i/2].merge(&r.buckets[i])
			}
		}
		r.buckets = r.buckets[:(len(r.buckets)+1)/2]
	}
}

func (b *bucket) merge(c *bucket) {
	b.rows += c.rows
	b.passes += c.passes
	b.timed += c.timed
	b.prefill += c.prefill
	b.decode += c.decode
	b.batch += c.batch
	b.queue += c.queue
	b.wall += c.wall
	b.longest = max(b.longest, c.longest)
}

// rank returns the rank that a row belongs to.
func (d *Data) rank(row *trace.Row) *rank {
	k := key{row.Record.WorkerID, row.Record.DPRank, row.Capture}
	if r := d.byKey[k]; r != nil {
		return r
	}
	if len(d.ranks) == maxRanks {
		if d.others == nil {
			d.others = &rank{name: "other ranks"}
		}
		d.others.sampled = d.others.sampled || row.Capture == fpm.CaptureSampled
		return d.others
	}
	r := &rank{name: name(k), sampled: row.Capture == fpm.CaptureSampled}
	d.ranks = append(d.ranks, r)
	d.byKey[k] = r
	return r
}

// maxName bounds a worker's name in a legend.
const maxName = 24

func name(k key) string {
	worker := strconv.Quote(k.worker)
	worker = worker[1 : len(worker)-1]
	if len(worker) > maxName {
		worker = "..." + worker[len(worker)-maxName:]
	}
	text := worker + " rank " + strconv.FormatUint(k.rank, 10)
	if k.capture == fpm.CaptureSampled {
		text += " (sampled)"
	}
	return text
}

func (r *rank) add(b *bucket, record *fpm.Record, random *rand.Rand) {
	if record.Heartbeat() {
		return // its queue is zero even when requests wait
	}
	b.rows++
	q := &record.Queued
	b.queue += float64(q.NumPrefillRequests + q.NumDecodeRequests)
	if record.Kind() == fpm.KindNone {
		return
	}
	s := &record.Scheduled
	b.passes++
	b.prefill += float64(s.SumPrefillTokens)
	b.decode += float64(s.NumDecodeRequests)
	b.batch += float64(s.NumPrefillRequests + s.NumDecodeRequests)
	if record.WallTime <= 0 {
		return
	}
	b.timed++
	b.wall += record.WallTime
	b.longest = max(b.longest, record.WallTime)
	r.passes++
	p := point{float64(s.SumPrefillTokens + s.NumDecodeRequests), record.WallTime}
	if len(r.points) < maxPoints {
		r.points = append(r.points, p)
	} else if i := random.IntN(r.passes); i < maxPoints {
		r.points[i] = p
	}
}

// all returns the ranks to draw.
func (d *Data) all() []*rank {
	if d.others == nil {
		return d.ranks
	}
	return append(slices.Clip(d.ranks), d.others)
}

// sample is a value over time. Values that are not there are NaN.
type sample struct {
	at    float64 // Unix time
	value float64
}

// samples returns a value of each bucket, which is told how many seconds of the trace are in it.
func (d *Data) samples(r *rank, value func(b *bucket, seconds float64) float64) []sample {
	out := make([]sample, 0, len(r.buckets))
	for i := range r.buckets {
		begin := d.origin.Add(time.Duration(i) * d.width)
		covered := min(d.last.Sub(begin), d.width)
		if i > 0 && covered < d.width*19/20 {
			break // the last bucket, whose rates would be off
		}
		at := begin.Add(covered / 2)
		out = append(out, sample{float64(at.UnixMilli()) / 1e3, value(&r.buckets[i], max(covered.Seconds(), 1e-3))})
	}
	return out
}

func mean(sum, n float64) float64 {
	if n == 0 {
		return math.NaN()
	}
	return sum / n
}
