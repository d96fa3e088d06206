package collector

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// Defaults and bounds of FPMOptions.
const (
	// DefaultFPMStaleAfter is ten of the heartbeats that publishers send every second when idle.
	DefaultFPMStaleAfter = 10 * time.Second
	// DefaultFPMForgetAfter leaves a worker's last counts for a few scrapes of any usual interval.
	DefaultFPMForgetAfter = 5 * time.Minute
	// DefaultFPMMaxIdentities bounds the workers and ranks with series of their own: some 130 series and 33 kB each.
	DefaultFPMMaxIdentities = 4096
	// maxIdentitiesPerOrigin keeps one origin from using up the others' share. A trace file may hold all ranks of an
	// engine, an endpoint that restarts in a loop a new worker every few seconds.
	maxIdentitiesPerOrigin = 128
	// maxTimingScopes bounds the kinds of wall time that one publisher may send; publishers send one.
	maxTimingScopes = 4
	// idleHeartbeats is how many heartbeats without an active record between make a rank idle. One is not enough:
	// publishers also send it during a pass that takes longer than a second.
	idleHeartbeats = 2
)

// FPMOptions configure an FPM collector; zero values mean the defaults.
type FPMOptions struct {
	// StaleAfter is the silence after which a rank is down and its gauges go.
	StaleAfter time.Duration
	// ForgetAfter is the silence after which its counters go, too. Never less than StaleAfter.
	ForgetAfter time.Duration
	// MaxIdentities bounds the pairs of worker and rank with series of their own.
	MaxIdentities int
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// FPM turns forward-pass records into the dynamo_fpm_* families. Every record counts in counters and histograms,
// gauges show the last active one. Feeding it never waits for a scrape. It is an unchecked prometheus.Collector, since
// an identity has only those of the labels dynamo_namespace, dynamo_component, stage, replica and pipeline that are
// known.
type FPM struct {
	options                 FPMOptions
	staleAfter, forgetAfter atomic.Int64 // time.Duration

	// mu is held for writing only while identities come and go; deliveries and scrapes share it.
	mu         sync.RWMutex
	origins    map[fpm.Origin]*fpmOrigin
	identities map[fpmKey]*fpmIdentity
	order      []*fpmIdentity // in order of appearance, for stable pages
}

// fpmKey is what tells one rank's series from another's.
type fpmKey struct {
	labels   fpm.Labels
	workerID string
	rank     uint64
	sampled  bool // of a sampled trace, whose sums are not those of all passes
}

// fpmOrigin is what is known of one endpoint or trace file.
type fpmOrigin struct {
	mismatches, conflicts prometheus.Counter

	// Guarded by the collector's lock.
	current    *fpmIdentity // of the last record
	fallback   *fpmIdentity // for what was refused before the first record
	identities int          // made for this origin

	mu       sync.Mutex
	lastSeen time.Time
	warned   bool // of a conflict
}

// NewFPM returns an empty collector.
func NewFPM(o FPMOptions) *FPM {
	if o.MaxIdentities <= 0 {
		o.MaxIdentities = DefaultFPMMaxIdentities
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	f := &FPM{options: o, origins: make(map[fpm.Origin]*fpmOrigin), identities: make(map[fpmKey]*fpmIdentity)}
	f.SetTimes(o.StaleAfter, o.ForgetAfter)
	return f
}

// SetTimes changes after which silence ranks are stale and are forgotten; 0 or less
// is the default, and no rank is forgotten before it is stale.
func (f *FPM) SetTimes(staleAfter, forgetAfter time.Duration) {
	if staleAfter <= 0 {
		staleAfter = DefaultFPMStaleAfter
	}
	if forgetAfter <= 0 {
		forgetAfter = DefaultFPMForgetAfter
	}
	f.staleAfter.Store(int64(staleAfter))
	f.forgetAfter.Store(int64(max(forgetAfter, staleAfter)))
}

// Deliver counts one message. It is an fpm.Sink, and leaves d as it is.
func (f *FPM) Deliver(d *fpm.Delivery) {
	if conflict := f.deliver(d); conflict != nil {
		f.options.Logger.Warn("Two endpoints publish the same worker and rank, their records are added up; is one listed twice, or a worker id used twice?",
			"endpoint", d.Origin.Name, "worker_id", fmt.Sprintf("%q", conflict.workerID), "dp_rank", conflict.rank)
	}
}

// deliver counts d and returns the key of an identity that is to be warned of.
func (f *FPM) deliver(d *fpm.Delivery) (conflict *fpmKey) {
	f.mu.RLock()
	if o := f.origins[*d.Origin]; o != nil {
		if id := o.known(d); id != nil {
			defer f.mu.RUnlock()
			return f.count(o, id, d)
		}
	}
	f.mu.RUnlock()

	own := *d // may become a refusal
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.origin(&own)
	id := o.known(&own)
	if id == nil {
		id = f.introduce(o, &own)
	}
	return f.count(o, id, &own)
}

// known returns the identity that d counts for, nil if it is not the origin's current one. The collector's lock is held.
func (o *fpmOrigin) known(d *fpm.Delivery) *fpmIdentity {
	switch {
	case d.Rejected == nil && (o.current == nil || o.current.key != keyOf(d)):
		return nil
	case o.current != nil:
		return o.current
	default:
		return o.fallback
	}
}

// keyOf returns the identity of a record. Snapshots of a worker are restored with an empty worker id
// (ai-dynamo/dynamo#12591); the origin's name stands in for it.
func keyOf(d *fpm.Delivery) fpmKey {
	k := fpmKey{
		labels: d.Origin.Labels, workerID: d.Record.WorkerID, rank: d.Record.DPRank, sampled: d.Capture == fpm.CaptureSampled,
	}
	if k.workerID == "" {
		k.workerID = d.Origin.Name
	}
	return k
}

// origin returns what is known of d's origin, from now on if nothing was. f.mu is held for writing.
func (f *FPM) origin(d *fpm.Delivery) *fpmOrigin {
	o := f.origins[*d.Origin]
	if o == nil {
		o = newFPMOrigin(d.Origin.Name)
		o.lastSeen = time.Now()
		f.origins[*d.Origin] = o
	}
	return o
}

// introduce finds or makes the identity that d counts for. If d's own would be one too many, d becomes a refusal of
// whoever the origin was before. f.mu is held for writing.
func (f *FPM) introduce(o *fpmOrigin, d *fpm.Delivery) *fpmIdentity {
	if d.Rejected == nil {
		key := keyOf(d)
		id := f.identities[key]
		if id == nil && f.room(o) {
			id = newFPMIdentity(key)
			id.owner = o
			o.identities++
			f.add(id)
		}
		if id != nil {
			previous := o.current
			if previous != nil && d.Capture == fpm.CaptureStream && (d.Lost > 0 || d.Restarted) {
				// Endpoints number their messages, traces those of each worker. The sequence that broke was the former worker's: its counters are known to Prometheus.
				previous.countSequence(d)
				d.Lost, d.Restarted = 0, false
			}
			o.current = id
			return id
		}
		d.Rejected = &fpm.RejectError{Reason: fpm.ReasonIdentityLimit, Field: "worker_id", Detail: "too many workers and ranks"}
		if o.current != nil {
			return o.current
		}
	}
	if o.fallback == nil {
		key := fpmKey{labels: d.Origin.Labels, workerID: d.Origin.Name, rank: uint64(max(d.Origin.Rank, 0))}
		id := f.identities[key]
		if id == nil {
			id = newFPMIdentity(key)
			f.add(id)
		}
		o.fallback = id
	}
	return o.fallback
}

func (f *FPM) add(id *fpmIdentity) {
	f.identities[id.key] = id
	f.order = append(f.order, id)
}

// room reports whether the origin may have one more identity, if need be after forgetting silent ones.
func (f *FPM) room(o *fpmOrigin) bool {
	if len(f.identities) < f.options.MaxIdentities && o.identities < maxIdentitiesPerOrigin {
		return true
	}
	f.forget(time.Now())
	return len(f.identities) < f.options.MaxIdentities && o.identities < maxIdentitiesPerOrigin
}

// count adds d to an identity. It returns the identity's key when another origin was found to publish it, once per
// origin. f.mu is held for reading or writing.
func (f *FPM) count(o *fpmOrigin, id *fpmIdentity, d *fpm.Delivery) (conflict *fpmKey) {
	if d.Rejected == nil && !id.hasRoomFor(d.Record.Scope()) {
		refused := *d
		refused.Rejected = &fpm.RejectError{Reason: fpm.ReasonIdentityLimit, Field: "timing_scope", Detail: "too many timing scopes"}
		d = &refused
	}
	id.countSequence(d)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lastSeen = time.Now() // not d.Received, which in traces may be long ago
	if d.Rejected != nil {
		id.countRejected(d)
		return nil
	}
	if d.Origin.Rank != fpm.UnknownRank && uint64(d.Origin.Rank) != d.Record.DPRank {
		o.mismatches.Inc()
	}
	if id.countRecord(d, time.Duration(f.staleAfter.Load())) {
		o.conflicts.Inc()
		if !o.warned {
			o.warned = true
			return &id.key
		}
	}
	return nil
}

// Describe implements prometheus.Collector. It describes nothing, see FPM.
func (f *FPM) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (f *FPM) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	f.mu.Lock()
	f.forget(now)
	order := append([]*fpmIdentity(nil), f.order...)
	origins := make([]*fpmOrigin, 0, len(f.origins))
	for _, o := range f.origins {
		origins = append(origins, o)
	}
	f.mu.Unlock()
	staleAfter := time.Duration(f.staleAfter.Load())
	for _, id := range order {
		id.collect(ch, now, staleAfter)
	}
	for _, o := range origins {
		ch <- o.mismatches
		ch <- o.conflicts
	}
}

// forget drops identities and origins that were silent for too long. f.mu is held for writing.
func (f *FPM) forget(now time.Time) {
	limit := now.Add(-time.Duration(f.forgetAfter.Load()))
	kept := f.order[:0]
	for _, id := range f.order {
		if !id.lastActivity().Before(limit) {
			kept = append(kept, id)
			continue
		}
		id.gone = true
		delete(f.identities, id.key)
		if id.owner != nil {
			id.owner.identities--
		}
	}
	clear(f.order[len(kept):])
	f.order = kept
	for origin, o := range f.origins {
		if o.current != nil && o.current.gone {
			o.current = nil
		}
		if o.fallback != nil && o.fallback.gone {
			o.fallback = nil
		}
		if o.lastSeen.Before(limit) {
			delete(f.origins, origin)
		}
	}
}
