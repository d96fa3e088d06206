package collector

import (
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// fpmKinds are the kinds of passes in the order of the arrays below.
var fpmKinds = [...]fpm.Kind{fpm.KindPrefill, fpm.KindDecode, fpm.KindMixed}

// fpmIdentity holds the series of one worker's rank. Counters and histograms are safe by themselves, mu guards the
// rest for a few assignments at a time.
type fpmIdentity struct {
	key    fpmKey
	labels prometheus.Labels
	owner  *fpmOrigin // whose share of identities it uses; nil for fallbacks
	gone   bool       // forgotten; guarded by the collector's lock

	rejected  map[fpm.Reason]prometheus.Counter
	always    []prometheus.Metric // the same counters
	records   prometheus.Counter
	beats     prometheus.Counter
	lost      prometheus.Counter
	gaps      prometheus.Counter
	restarts  prometheus.Counter
	tokens    [4]prometheus.Counter // prefill tokens, prefill KV tokens, decode requests, decode KV tokens
	passes    [len(fpmKinds)]prometheus.Counter
	batch     prometheus.Histogram
	prefill   prometheus.Histogram
	published []prometheus.Metric // all counters and histograms that a rank with records has
	gauges    []*prometheus.Desc  // by position in fpmGauges
	up, last  *prometheus.Desc
	info      prometheus.Metric // nil when the worker id is no number

	mu       sync.Mutex
	scopes   map[string]*fpmScope
	active   fpm.Record // the last active record
	inARow   int        // heartbeats since
	lastWall float64    // of the last timed pass, 0 before the first
	lastIn   *fpmScope
	seen     time.Time // last record
	touched  time.Time // when this process last counted something here
	from     string    // endpoint of the last record
}

// fpmScope holds the series of one timing scope.
type fpmScope struct {
	seconds  [len(fpmKinds)]prometheus.Counter
	duration [len(fpmKinds)]prometheus.Histogram
	last     *prometheus.Desc
}

func newFPMIdentity(key fpmKey) *fpmIdentity {
	id := &fpmIdentity{
		key: key, labels: fpmLabels(key), inARow: idleHeartbeats,
		rejected: make(map[fpm.Reason]prometheus.Counter), scopes: make(map[string]*fpmScope),
	}
	for _, reason := range fpm.Reasons() {
		c := id.counter(fpmRejected, "reason", string(reason))
		id.rejected[reason] = c
		id.always = append(id.always, c)
	}
	counters := map[fpmFamily]*prometheus.Counter{
		fpmRecords: &id.records, fpmHeartbeats: &id.beats, fpmLost: &id.lost, fpmGaps: &id.gaps, fpmRestarts: &id.restarts,
		fpmPrefillTokens: &id.tokens[0], fpmPrefillKVTokens: &id.tokens[1], fpmDecodeRequests: &id.tokens[2], fpmDecodeKVTokens: &id.tokens[3],
	}
	for family, c := range counters {
		*c = id.counter(family)
		id.published = append(id.published, *c)
	}
	for i, kind := range fpmKinds {
		id.passes[i] = id.counter(fpmPasses, "kind", kind.String())
		id.published = append(id.published, id.passes[i])
	}
	id.batch = id.histogram(fpmBatchSize, fpmBatchBuckets())
	id.prefill = id.histogram(fpmPrefillBatch, fpmPrefillBuckets())
	id.published = append(id.published, id.batch, id.prefill)
	for _, g := range fpmGauges {
		id.gauges = append(id.gauges, id.desc(g.family))
	}
	id.up, id.last = id.desc(fpmUp), id.desc(fpmLastRecord)
	if n, err := strconv.ParseUint(key.workerID, 10, 64); err == nil {
		id.info = prometheus.MustNewConstMetric(id.desc(fpmWorkerInfo, "worker_id_hex", strconv.FormatUint(n, 16)), prometheus.GaugeValue, 1)
	}
	return id
}

// fpmLabels returns the labels of a key, those that are known.
func fpmLabels(key fpmKey) prometheus.Labels {
	labels := prometheus.Labels{"worker_id": valid(key.workerID), "dp_rank": strconv.FormatUint(key.rank, 10)}
	for name, value := range map[string]string{
		"dynamo_namespace": key.labels.Namespace, "dynamo_component": key.labels.Component,
		"stage": key.labels.Stage, "replica": key.labels.Replica, "pipeline": key.labels.Pipeline,
	} {
		if value != "" {
			labels[name] = valid(value)
		}
	}
	if key.sampled {
		labels["capture_mode"] = fpm.CaptureSampled.String()
	}
	return labels
}

// valid makes text fit for a label: one that is not would cost the whole page.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// with returns the identity's labels and those given as names and values.
func (id *fpmIdentity) with(extra []string) prometheus.Labels {
	labels := maps.Clone(id.labels)
	for i := 0; i < len(extra); i += 2 {
		labels[extra[i]] = valid(extra[i+1])
	}
	return labels
}

func (id *fpmIdentity) desc(f fpmFamily, extra ...string) *prometheus.Desc {
	return prometheus.NewDesc(f.name, f.help, nil, id.with(extra))
}

// sums returns the family that counts f for the identity. Counts of sampled traces are in families of their own, lest
// they be taken for those of all passes.
func (id *fpmIdentity) sums(f fpmFamily) fpmFamily {
	if !id.key.sampled {
		return f
	}
	return fpmFamily{"dynamo_fpm_sampled_" + strings.TrimPrefix(f.name, "dynamo_fpm_"), "In the rows of sampled traces: " + f.help}
}

func (id *fpmIdentity) counter(f fpmFamily, extra ...string) prometheus.Counter {
	f = id.sums(f)
	return prometheus.NewCounter(prometheus.CounterOpts{Name: f.name, Help: f.help, ConstLabels: id.with(extra)})
}

func (id *fpmIdentity) histogram(f fpmFamily, buckets []float64, extra ...string) prometheus.Histogram {
	f = id.sums(f)
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: f.name, Help: f.help, Buckets: buckets, ConstLabels: id.with(extra)})
}

// hasRoomFor reports whether a timing scope is known or may be added, and adds it.
func (id *fpmIdentity) hasRoomFor(scope string) bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.scopes[scope] != nil {
		return true
	}
	if len(id.scopes) >= maxTimingScopes {
		return false
	}
	s := &fpmScope{last: id.desc(fpmLastPass, "timing_scope", scope)}
	for i, kind := range fpmKinds {
		s.seconds[i] = id.counter(fpmSeconds, "kind", kind.String(), "timing_scope", scope)
		s.duration[i] = id.histogram(fpmDuration, fpmDurationBuckets(), "kind", kind.String(), "timing_scope", scope)
	}
	id.scopes[scope] = s
	return true
}

// countSequence adds what a message's sequence number said.
func (id *fpmIdentity) countSequence(d *fpm.Delivery) {
	if d.Lost > 0 {
		id.lost.Add(float64(d.Lost))
		id.gaps.Inc()
	}
	if d.Restarted {
		id.restarts.Inc()
	}
}

func (id *fpmIdentity) countRejected(d *fpm.Delivery) {
	id.rejected[d.Rejected.Reason].Inc()
	id.mu.Lock()
	defer id.mu.Unlock()
	id.touched = time.Now()
}

// countRecord adds a record and reports whether another origin delivered the same identity a moment ago.
func (id *fpmIdentity) countRecord(d *fpm.Delivery, staleAfter time.Duration) (conflict bool) {
	r := &d.Record
	heartbeat, kind := r.Heartbeat(), r.Kind()
	id.mu.Lock()
	if d.Capture == fpm.CaptureStream { // a trace may take over from a stream, and a stream from a trace
		conflict = id.from != "" && id.from != d.Origin.Name && d.Received.Sub(id.seen) < staleAfter
		id.from = d.Origin.Name
	}
	id.seen, id.touched = d.Received, time.Now()
	scope := id.scopes[r.Scope()]
	if heartbeat {
		id.inARow++
	} else {
		id.active, id.inARow = *r, 0
		if r.WallTime > 0 && kind != fpm.KindNone {
			id.lastWall, id.lastIn = r.WallTime, scope
		}
	}
	id.mu.Unlock()

	id.records.Inc()
	if heartbeat {
		id.beats.Inc()
		return conflict
	}
	if kind == fpm.KindNone {
		return conflict // nothing ran, only the queue is told
	}
	k := int(kind - fpm.KindPrefill)
	id.passes[k].Inc()
	s := &r.Scheduled
	for i, n := range [...]uint64{s.SumPrefillTokens, s.SumPrefillKVTokens, s.NumDecodeRequests, s.SumDecodeKVTokens} {
		id.tokens[i].Add(float64(n))
	}
	if s.NumDecodeRequests > 0 {
		id.batch.Observe(float64(s.NumDecodeRequests))
	}
	if s.SumPrefillTokens > 0 {
		id.prefill.Observe(float64(s.SumPrefillTokens))
	}
	if r.WallTime > 0 { // old publishers do not know the time of the first pass after idling (ai-dynamo/dynamo#7779)
		scope.seconds[k].Add(r.WallTime)
		scope.duration[k].Observe(r.WallTime)
	}
	return conflict
}

func (id *fpmIdentity) lastActivity() time.Time {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.touched
}

// collect sends the identity's series as of now.
func (id *fpmIdentity) collect(ch chan<- prometheus.Metric, now time.Time, staleAfter time.Duration) {
	id.mu.Lock()
	seen, active, lastWall, lastIn := id.seen, id.active, id.lastWall, id.lastIn
	if id.inARow >= idleHeartbeats {
		active = fpm.Record{}
	}
	scopes := make([]*fpmScope, 0, maxTimingScopes)
	for _, s := range id.scopes {
		scopes = append(scopes, s)
	}
	id.mu.Unlock()

	for _, m := range id.always {
		ch <- m
	}
	if seen.IsZero() {
		return // a peer that never sent a record is no rank that could be down
	}
	for _, m := range id.published {
		ch <- m
	}
	for _, s := range scopes {
		for i := range fpmKinds {
			ch <- s.seconds[i]
			ch <- s.duration[i]
		}
	}
	gauge := func(desc *prometheus.Desc, value float64) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	if id.info != nil {
		ch <- id.info
	}
	gauge(id.last, float64(seen.UnixMilli())/1e3)
	if now.Sub(seen) > staleAfter {
		gauge(id.up, 0)
		return
	}
	gauge(id.up, 1)
	for i, g := range fpmGauges {
		gauge(id.gauges[i], g.value(&active))
	}
	if lastIn != nil {
		gauge(lastIn.last, lastWall)
	}
}
