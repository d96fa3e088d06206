package scrape

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/common/version"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
	"github.com/omni-exporter/omni_exporter/relabel"
)

// TargetOptions describe one target.
type TargetOptions struct {
	Address  string // host:port, as discovered
	Pipeline string // "" for the unnamed pipeline
	URL      *url.URL
	Client   *http.Client
	Rules    *relabel.Rules
	Stage    string // of a target that is one replica of a stage; else ""
	Replica  string // which one
	Engines  int    // that such a target runs

	Timeout       time.Duration // longest time of a scrape
	MinInterval   time.Duration // a page younger than this is served again
	BodySizeLimit int64         // decompressed bytes; 0: no limit
	Compression   bool          // ask for gzip instead of identity

	Logger *slog.Logger
}

// Outcome is the end of one scrape of one target. It is immutable.
type Outcome struct {
	Started  time.Time
	Duration time.Duration
	BodySize int              // decompressed bytes
	Page     *exposition.Page // nil if the scrape failed
	Summary  *relabel.Summary // nil if the scrape failed
	Failure  *Failure         // nil if it did not
}

// flight is a scrape under way or done.
type flight struct {
	done    chan struct{}
	outcome *Outcome // set before done is closed
	started time.Time
	latest  time.Time // when the target's own timeout ends it, whoever waits

	mu       sync.Mutex
	deadline time.Time
	timer    *time.Timer // ends the flight at the deadline
}

// launch returns a flight that ends at the deadline, and its context.
func launch(ctx context.Context, now, deadline, latest time.Time) (context.Context, context.CancelCauseFunc, *flight) {
	ctx, cancel := context.WithCancelCause(ctx)
	f := &flight{done: make(chan struct{}), started: now, latest: latest, deadline: earlier(deadline, latest)}
	f.timer = time.AfterFunc(f.deadline.Sub(now), func() { cancel(context.DeadlineExceeded) })
	return ctx, cancel, f
}

// extend lets a flight under way go on for a caller that waits longer than the one
// for whom it was started: a caller in a hurry must not cost others the target.
func (f *flight) extend(deadline time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if deadline = earlier(deadline, f.latest); deadline.After(f.deadline) && f.timer.Stop() {
		f.deadline = deadline
		f.timer.Reset(time.Until(deadline))
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Target is one upstream endpoint.
type Target struct {
	options TargetOptions
	key     targetKey
	request *http.Request
	buffers *exposition.Buffers
	tally   *tally
	totals  *Totals

	mu      sync.Mutex
	flight  *flight          // the last one, nil before the first
	last    *Outcome         // of the last scrape that ended, or nil
	page    *exposition.Page // the last good one, with a reference; nil before the first
	retired bool             // out of every lineup: its connections end with its last scrape

	soloOnce sync.Once
	solo     *solo // its own page, for those who ask for it alone

	// Used by the flight under way alone.
	rewriter *relabel.Target
	lastSize int // bytes of the last page
}

// Counts are what a target has added up since it was first known.
type Counts struct {
	Scrapes     int64
	Failures    map[Reason]int64
	LastSuccess time.Time // zero before the first
	LineHits    int64
	LineMisses  int64
}

// tally holds the counts of an address. It outlives a target that a new
// configuration has scraped in another way, so that no count is lost.
type tally struct {
	mu     sync.Mutex
	counts Counts
}

func newTally() *tally { return &tally{counts: Counts{Failures: map[Reason]int64{}}} }

func (t *tally) add(o *Outcome, r relabel.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Scrapes++
	t.counts.LineHits += int64(r.Hits)
	t.counts.LineMisses += int64(r.Misses)
	if o.Failure != nil {
		t.counts.Failures[o.Failure.Reason]++
	} else {
		t.counts.LastSuccess = o.Started.Add(o.Duration)
	}
}

// newTarget returns a target that was never scraped, whose pages go into b.
func newTarget(o TargetOptions, b *exposition.Buffers) *Target {
	req := &http.Request{
		Method: http.MethodGet, URL: o.URL, Host: o.URL.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Accept": {accept}, "Accept-Encoding": {"identity"}, "User-Agent": {"omni_exporter/" + version.Version},
		},
	}
	if o.Compression {
		req.Header.Set("Accept-Encoding", "gzip")
	}
	return &Target{
		options: o, request: req, buffers: b, tally: newTally(), totals: &Totals{},
		rewriter: relabel.NewTarget(o.Rules, b),
	}
}

// Address returns the target's host:port, as discovered.
func (t *Target) Address() string { return t.options.Address }

// Pipeline returns the name of the target's pipeline.
func (t *Target) Pipeline() string { return t.options.Pipeline }

// Stage returns the stage that the target is a replica of, or "" for one whose
// engines are mapped by the pipeline's flat map.
func (t *Target) Stage() string { return t.options.Stage }

// Replica returns which replica of its Stage the target is.
func (t *Target) Replica() string { return t.options.Replica }

// Engines returns how many engines a target with a Stage runs.
func (t *Target) Engines() int { return t.options.Engines }

// Rules returns what the target's pages are rewritten by.
func (t *Target) Rules() *relabel.Rules { return t.options.Rules }

// Last returns the outcome of the last scrape that ended, or nil.
func (t *Target) Last() *Outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// Counts returns a copy of the target's counts.
func (t *Target) Counts() Counts {
	t.tally.mu.Lock()
	defer t.tally.mu.Unlock()
	c := t.tally.counts
	c.Failures = maps.Clone(c.Failures)
	return c
}

// start returns the scrape that a caller is to wait for: the one under way, the
// last one if it is younger than the interval, or a new one that ends at the
// deadline. A scrape belongs to no caller: whoever leaves does not end it.
func (t *Target) start(ctx context.Context, deadline time.Time, hops string) *flight {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if f := t.flight; f != nil {
		select {
		case <-f.done:
			if now.Sub(f.started) < t.options.MinInterval {
				return f
			}
		default:
			f.extend(deadline)
			return f
		}
	}
	ctx, cancel, f := launch(ctx, now, deadline, now.Add(t.options.Timeout))
	t.flight = f
	go t.fly(ctx, cancel, f.deadline, hops, f)
	return f
}

func (t *Target) fly(ctx context.Context, cancel context.CancelCauseFunc, deadline time.Time, hops string, f *flight) {
	defer cancel(nil)
	defer f.timer.Stop()
	outcome, result := t.scrape(ctx, deadline, hops)
	outcome.Started, outcome.Duration = f.started, time.Since(f.started)
	f.outcome = outcome
	t.publish(outcome, result)
	if failure := outcome.Failure; failure != nil && t.options.Logger != nil {
		t.options.Logger.Debug("scrape failed", "target", t.options.Address, "pipeline", t.options.Pipeline,
			"reason", string(failure.Reason), "err", failure.Err)
	}
	close(f.done)
	t.mu.Lock()
	retired := t.retired
	t.mu.Unlock()
	if retired {
		t.disconnect()
	}
}

// retire ends the target's connections, now or when the scrape under way has ended.
func (t *Target) retire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retired = true
	if t.flight != nil {
		select {
		case <-t.flight.done:
		default:
			return
		}
	}
	t.disconnect()
}

func (t *Target) disconnect() {
	if r := t.key.recipe; r != nil {
		r.connections.close(t.options.Address)
	}
}

// publish makes the outcome the last one. The last good page is kept for the next
// to be compared with; the one before it is given back.
func (t *Target) publish(o *Outcome, r relabel.Result) {
	t.mu.Lock()
	t.last = o
	t.tally.add(o, r)
	t.totals.read(r)
	var superseded *exposition.Page
	if r.Page != nil {
		superseded, t.page = t.page, r.Page
	}
	t.mu.Unlock()
	if superseded != nil {
		superseded.Release()
	}
}

// retain returns the outcome, with a reference to its page if it has one. If that
// page is gone, a later scrape has superseded it, and its outcome is returned.
func (t *Target) retain(o *Outcome) *Outcome {
	if o.Page == nil || o.Page.Retain() {
		return o
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last.Page != nil {
		t.last.Page.Retain()
	}
	return t.last
}

func (t *Target) scrape(ctx context.Context, deadline time.Time, hops string) (*Outcome, relabel.Result) {
	page, failure := t.fetch(ctx, deadline, hops)
	if failure != nil {
		return &Outcome{Failure: failure}, relabel.Result{}
	}
	size := len(page.body)
	if size == 0 { // in either format: it is not cut off, nothing was sent (vllm#8612)
		t.buffers.Put(page.body)
		return &Outcome{Failure: failed(ReasonEmpty, errors.New("page has no byte: the server is up but exposes nothing"))}, relabel.Result{}
	}
	result, spare, err := t.rewriter.Rewrite(page.body, page.format)
	t.buffers.Put(spare)
	if err != nil {
		return &Outcome{BodySize: size, Failure: pageFailure(err)}, relabel.Result{}
	}
	t.lastSize = size
	if result.Summary.Samples == 0 && len(result.Page.Layout().Families) == 0 {
		failure := failed(ReasonEmpty, errors.New("page holds no metric: the server is up but exposes nothing"))
		return &Outcome{BodySize: size, Failure: failure}, result
	}
	return &Outcome{BodySize: size, Page: result.Page, Summary: result.Summary}, result
}
