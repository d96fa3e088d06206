package trace

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Timing paces a Follower. Zero values mean the defaults.
type Timing struct {
	// Poll is how often files are looked at, whether or not the system tells of changes: it does not for network file
	// systems. Default 2 s.
	Poll time.Duration
	// Settle is the least time between two looks that changes lead to. Default 100 ms.
	Settle time.Duration
	// Grace is how long the last member of a segment may stay unfinished after a later segment appeared, or after the
	// segment was deleted. Default 5 s: writers finish a member each second, and a segment before the next one.
	Grace time.Duration
	// Abandon is how long it may stay unfinished when no later segment appears. Default 10 min.
	Abandon time.Duration
	// Save is how often the state file is written if there is news. Default 5 s.
	Save time.Duration
}

func (t Timing) withDefaults() Timing {
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&t.Poll, 2 * time.Second},
		{&t.Settle, 100 * time.Millisecond},
		{&t.Grace, 5 * time.Second},
		{&t.Abandon, 10 * time.Minute},
		{&t.Save, 5 * time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
	return t
}

// FollowerOptions configure a Follower. Row is required.
type FollowerOptions struct {
	// Patterns are globs of the files to follow.
	Patterns []string
	// FromStart reads files that exist already from their beginning rather than from their end.
	FromStart bool
	// StateFile names a file that keeps how far each file was read, so that a new process goes on there. "" is none.
	StateFile string
	// Row takes each row, in order within a series of segments, from the goroutine of Run. The row is valid during
	// the call. It returns nil, or why the row is refused after all, which is counted.
	Row RowFunc
	// Totals counts what was read; nil for counts of the follower's own.
	Totals *Totals
	// PollOnly does without the system's notifications of changes.
	PollOnly bool
	Timing   Timing
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// FollowerState is what a follower is at.
type FollowerState struct {
	// Files is how many files are followed, Open how many of them are open.
	Files, Open int
	// Pending counts the compressed bytes that are there and were not read, unfinished members included.
	Pending int64
	// Notified tells whether the system's notifications of changes are in use.
	Notified bool
	// StateSaved is false when the state file could not be read or written the last time.
	StateSaved bool
}

const (
	// maxMember bounds what a member may hold, in bytes. Dynamo's writer ends one at 1 MiB.
	maxMember = 64 << 20
	// maxFiles bounds the files that are followed, newest first: those of dead producers stay until somebody deletes
	// them.
	maxFiles = 10_000
	// turn is how many bytes of one series are read before the next has its turn.
	turn = 32 << 20
	// lookFactor keeps looking for what changed among many files to a tenth of the time.
	lookFactor = 10
)

// Follower reads trace files as they grow: whole members only, through the turning over of segments, deletion and
// restarts of producers. Files that exist when it is made are read from their end, those that appear later from their
// beginning.
type Follower struct {
	options FollowerOptions
	totals  *Totals
	log     *slog.Logger
	reader  *memberReader
	decoder rowDecoder
	row     Row

	// Owned by the goroutine of Run, once it runs.
	patterns []string
	files    []*file // in order of appearance
	excess   int     // files above the limit
	state    stateFile

	changed chan struct{} // patterns wait in next
	mu      sync.Mutex
	next    *newPatterns

	shown atomic.Pointer[FollowerState]
}

// newPatterns are patterns to follow from now on, and the files that were there when they came.
type newPatterns struct {
	patterns []string
	there    []found
}

// NewFollower returns a follower that knows which files exist. They are read once Run is called.
func NewFollower(o FollowerOptions) *Follower {
	o.Timing = o.Timing.withDefaults()
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Totals == nil {
		o.Totals = NewTotals()
	}
	f := &Follower{
		options: o, totals: o.Totals, log: o.Logger, reader: newMemberReader(maxMember), patterns: o.Patterns,
		changed: make(chan struct{}, 1),
	}
	saved, resumed := f.state.load(o.StateFile, f.log)
	now := time.Now()
	for _, there := range f.list(o.Patterns) {
		added := f.add(there, now)
		switch offset, known := saved[there.path].resume(there); {
		case known:
			added.cursor = offset
		case !resumed && !o.FromStart:
			added.fromEnd()
		}
	}
	f.show(false)
	return f
}

// SetPatterns follows other files. Those that match before and after go on; those that match now and exist are read
// from their end, unless FromStart is set.
func (f *Follower) SetPatterns(patterns []string) {
	there := f.list(patterns)
	f.mu.Lock()
	f.next = &newPatterns{patterns: slices.Clone(patterns), there: there}
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// State tells what the follower is at.
func (f *Follower) State() FollowerState { return *f.shown.Load() }

// Run follows until ctx ends. It must be called once.
func (f *Follower) Run(ctx context.Context) {
	watch := newDirectories(f.options.PollOnly, f.log)
	defer watch.close()
	defer f.end()
	poll := time.NewTicker(f.options.Timing.Poll)
	defer poll.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		f.adopt(now)
		watch.add(f.patterns)
		f.look(now)
		looked := time.Since(now)
		more := f.read(ctx, now)
		f.show(watch.active())
		f.state.save(f, false)
		if more {
			continue
		}
		select {
		case <-ctx.Done():
		case <-poll.C:
		case <-f.changed:
		case <-watch.events():
			f.settle(ctx, watch, max(f.options.Timing.Settle, lookFactor*looked))
		}
	}
}

// settle waits a while after a change, in which others are heard of.
func (f *Follower) settle(ctx context.Context, watch *directories, d time.Duration) {
	after := time.NewTimer(d)
	defer after.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-after.C:
			return
		case <-watch.events():
		}
	}
}

// end closes all files and saves where they were read to.
func (f *Follower) end() {
	f.state.save(f, true)
	for _, one := range f.files {
		one.close()
	}
}

// adopt takes over patterns that were set meanwhile.
func (f *Follower) adopt(now time.Time) {
	f.mu.Lock()
	next := f.next
	f.next = nil
	f.mu.Unlock()
	if next == nil {
		return
	}
	f.patterns = next.patterns
	known := f.byID()
	for _, there := range next.there {
		if known[there.id] == nil {
			added := f.add(there, now)
			if !f.options.FromStart {
				added.fromEnd()
			}
		}
	}
}

func (f *Follower) show(notified bool) {
	s := &FollowerState{Files: len(f.files), Notified: notified, StateSaved: !f.state.failing}
	for _, one := range f.files {
		if one.file != nil {
			s.Open++
		}
		if !one.refused {
			s.Pending += max(one.size-one.cursor.offset, 0)
		}
	}
	f.shown.Store(s)
}

// directories hears of changes to the directories of patterns.
type directories struct {
	watcher *fsnotify.Watcher // nil when polling must do
	log     *slog.Logger
	refused map[string]bool // directories that cannot be watched
	out     chan struct{}
	done    chan struct{}
}

// maxDirectories bounds the directories that are watched; more are polled.
const maxDirectories = 256

func newDirectories(pollOnly bool, log *slog.Logger) *directories {
	d := &directories{log: log, refused: make(map[string]bool), out: make(chan struct{}, 1), done: make(chan struct{})}
	var err error
	if !pollOnly {
		if d.watcher, err = fsnotify.NewWatcher(); err != nil {
			log.Warn("The system tells of no changes to trace files, they are looked at from time to time", "err", err)
			d.watcher = nil
		}
	}
	if d.watcher == nil {
		close(d.done)
		return d
	}
	go d.forward(d.watcher)
	return d
}

// forward makes one event of many.
func (d *directories) forward(w *fsnotify.Watcher) {
	defer close(d.done)
	for {
		select {
		case event, ok := <-w.Events:
			if !ok {
				return
			}
			if event.Op == fsnotify.Chmod {
				continue
			}
		case err, ok := <-w.Errors: // of which an overflow is one: something changed
			if !ok {
				return
			}
			d.log.Debug("Watching trace files", "err", err)
		}
		select {
		case d.out <- struct{}{}:
		default:
		}
	}
}

func (d *directories) events() <-chan struct{} { return d.out }

func (d *directories) active() bool { return d.watcher != nil && len(d.watcher.WatchList()) > 0 }

// add watches the directories that patterns look into. Those that do not exist yet are added when they do.
func (d *directories) add(patterns []string) {
	if d.watcher == nil {
		return
	}
	watched := d.watcher.WatchList()
	for _, pattern := range patterns {
		for _, dir := range directoriesOf(pattern) {
			if slices.Contains(watched, dir) || len(watched) >= maxDirectories {
				continue
			}
			if err := d.watcher.Add(dir); err != nil {
				if !d.refused[dir] {
					d.refused[dir] = true
					d.log.Debug("Directory of trace files is not watched but looked at from time to time", "directory", dir, "err", err)
				}
				continue
			}
			watched = append(watched, dir)
		}
	}
}

func (d *directories) close() {
	if d.watcher != nil {
		_ = d.watcher.Close()
	}
	<-d.done
}
