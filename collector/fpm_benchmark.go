package collector

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// Defaults and bounds of BenchmarkOptions.
const (
	// DefaultBenchmarkPoints bounds the wall-time series of all artifacts together.
	DefaultBenchmarkPoints = 2000
	// DefaultBenchmarkInterval is how often Run looks whether files changed.
	DefaultBenchmarkInterval = 30 * time.Second
	// maxBenchmarkFiles bounds the files that the patterns may match.
	maxBenchmarkFiles = 256
	// maxBenchmarkLabel is the length in bytes that text from an artifact is cut to.
	maxBenchmarkLabel = 200
)

// BenchmarkOptions configure a Benchmark collector; zero values mean the defaults.
type BenchmarkOptions struct {
	// Patterns are globs of rank or merged artifacts, as filepath.Match has them. Sidecars that they match are skipped: the
	// one next to a merged artifact is read with it.
	Patterns []string
	// MaxPoints bounds the wall-time series of all artifacts together.
	MaxPoints int
	// Limits bound what is read of one file.
	Limits doc.Limits
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// Benchmark shows self-benchmark artifacts as the dynamo_fpm_benchmark_* families: whose engine was measured, whether the
// measurement can be trusted, and how long each shape took. It keeps the figures only, not the documents.
type Benchmark struct {
	options  BenchmarkOptions
	families benchmarkFamilies

	reading       sync.Mutex // one Refresh at a time; guards patterns
	patterns      []string
	wake          chan struct{} // tells Run of new patterns
	reads, failed prometheus.Counter

	mu       sync.RWMutex // guards what follows
	files    map[string]*benchmarkFile
	runs     []*benchmarkRun // one per run id, in order of id
	crowdLog bool            // that too many files match was said
}

// benchmarkFile is one artifact as it was read last.
type benchmarkFile struct {
	artifact, sidecar os.FileInfo
	run               *benchmarkRun // nil when the file is of no use
}

// benchmarkRun is what is shown of one artifact.
type benchmarkRun struct {
	path           string
	merged         bool
	info           []string // values of the info metric's labels
	id             string
	status         string
	valid          bool
	errors, notes  int
	expected       int
	completed      int
	skipped        int
	completedAt    time.Time
	probeKnown     bool
	probeComplete  bool
	wallTimes      []benchmarkPoint
	pointsRepeated int
}

// benchmarkPoint is the wall time of one shape, in seconds.
type benchmarkPoint struct {
	phase                string
	prefill, read, batch int64
	seconds              float64
}

// NewBenchmark returns a collector that has read nothing yet; see Refresh and Run.
func NewBenchmark(o BenchmarkOptions) *Benchmark {
	if o.MaxPoints == 0 {
		o.MaxPoints = DefaultBenchmarkPoints
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Benchmark{
		options:  o,
		patterns: slices.Clone(o.Patterns),
		wake:     make(chan struct{}, 1),
		families: newBenchmarkFamilies(),
		files:    map[string]*benchmarkFile{},
		reads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "omni_exporter_fpm_benchmark_reads_total",
			Help: "Benchmark artifacts read, those that could not be used included.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "omni_exporter_fpm_benchmark_read_failures_total",
			Help: "Benchmark artifacts that could not be used.",
		}),
	}
}

// Run reads the artifacts and goes on reading those that change until ctx ends. An interval of 0 is the default.
func (b *Benchmark) Run(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(cmp.Or(interval, DefaultBenchmarkInterval))
	defer tick.Stop()
	for {
		b.Refresh()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-b.wake:
		}
	}
}

// SetPatterns replaces the patterns, as a reload of the configuration does; Run reads what they match at once. Files that
// matched before and still do are not read again.
func (b *Benchmark) SetPatterns(patterns []string) {
	b.reading.Lock()
	b.patterns = slices.Clone(patterns)
	b.reading.Unlock()
	select {
	case b.wake <- struct{}{}:
	default: // it is told already
	}
}

// Refresh reads what is new or changed, by size, time and inode of the artifact and of its sidecar, and forgets what is gone.
// Scrapes go on meanwhile with what was there before.
func (b *Benchmark) Refresh() {
	b.reading.Lock()
	defer b.reading.Unlock()
	b.mu.RLock()
	old := b.files
	b.mu.RUnlock()
	files := map[string]*benchmarkFile{}
	for _, path := range b.match() {
		f := &benchmarkFile{artifact: stat(path), sidecar: stat(benchmark.SidecarPath(path))}
		if before, ok := old[path]; ok && sameFile(f.artifact, before.artifact) && sameFile(f.sidecar, before.sidecar) {
			f.run = before.run
		} else {
			f.run = b.read(path)
		}
		files[path] = f
	}
	runs := b.choose(files)
	b.mu.Lock()
	b.files, b.runs = files, runs
	b.mu.Unlock()
}

func (b *Benchmark) match() []string {
	var paths []string
	for _, pattern := range b.patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			b.options.Logger.Warn("pattern of benchmark artifacts is not valid", "pattern", pattern, "err", err)
		}
		paths = append(paths, found...)
	}
	paths = slices.DeleteFunc(paths, func(p string) bool {
		return strings.HasSuffix(strings.TrimSuffix(p, filepath.Ext(p)), "_merged_worker_probe")
	})
	slices.Sort(paths)
	paths = slices.Compact(paths)
	if len(paths) <= maxBenchmarkFiles {
		b.crowdLog = false
		return paths
	}
	if !b.crowdLog {
		b.options.Logger.Warn("too many benchmark artifacts match, the last ones by name are left out", "match", len(paths), "limit", maxBenchmarkFiles)
		b.crowdLog = true
	}
	return paths[:maxBenchmarkFiles]
}

func stat(path string) os.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// read reads one artifact with its sidecar; nil when it is of no use, which is logged and counted.
func (b *Benchmark) read(path string) *benchmarkRun {
	b.reads.Inc()
	f := benchmark.Load(path, b.options.Limits)
	err := f.Err()
	if err == nil && f.Kind == benchmark.KindSidecar {
		err = fmt.Errorf("%s: a worker-probe sidecar, which is read with its merged artifact", path)
	}
	if err != nil {
		b.failed.Inc()
		b.options.Logger.Warn("benchmark artifact cannot be used", "file", path, "err", err)
		return nil
	}
	files := []*benchmark.File{f}
	side := benchmark.LoadSidecar(f, b.options.Limits)
	if side != nil {
		files = append(files, side)
	}
	report := benchmark.Verify(files)
	if !report.Valid {
		b.options.Logger.Warn("benchmark artifact is not valid; omnitool benchmark verify lists why", "file", path, "err", report.Summary())
	}
	return newBenchmarkRun(benchmark.ReadRun(f, side), report)
}

func newBenchmarkRun(run benchmark.Run, report benchmark.Report) *benchmarkRun {
	e := run.Engine
	r := &benchmarkRun{
		path: run.Path, merged: run.Kind == benchmark.KindMerged, id: benchmarkLabel(cmp.Or(run.RunID, filepath.Base(run.Path))), status: run.Status,
		valid: report.Valid, errors: len(report.Errors()) + report.Omitted,
		expected: run.ExpectedPoints, completed: run.CompletedPoints, skipped: len(run.Skipped), completedAt: run.Completed,
		probeKnown: e.ProbeKnown, probeComplete: e.ProbeComplete,
	}
	r.notes = len(report.Findings) - len(report.Errors())
	for _, v := range []string{
		r.id, run.Mode, e.Model, e.VLLM, e.Dynamo, e.AttentionRequested, e.AttentionResolved, e.Resolution, run.GridDigest,
	} {
		r.info = append(r.info, benchmarkLabel(v))
	}
	// A grid may have a shape twice, with and without warm-up for instance; the one measured last is the warmer.
	at := map[benchmarkPoint]int{}
	for _, p := range run.Points {
		if p.Phase != benchmark.PhasePrefill && p.Phase != benchmark.PhaseDecode {
			continue
		}
		shape := benchmarkPoint{phase: p.Phase, prefill: p.PrefillTokens, read: p.KVReadTokens, batch: p.BatchSize}
		if i, ok := at[shape]; ok {
			r.wallTimes[i].seconds = p.WallTime
			r.pointsRepeated++
			continue
		}
		at[shape] = len(r.wallTimes)
		shape.seconds = p.WallTime
		r.wallTimes = append(r.wallTimes, shape)
	}
	return r
}

// benchmarkLabel cuts text from an artifact to a sane length. The reader of artifacts has made it valid UTF-8.
func benchmarkLabel(s string) string {
	if len(s) <= maxBenchmarkLabel {
		return s
	}
	return strings.ToValidUTF8(s[:maxBenchmarkLabel], "")
}

// choose takes one artifact per run: a merged one rather than a rank's, else the first by name.
func (b *Benchmark) choose(files map[string]*benchmarkFile) []*benchmarkRun {
	byID := map[string]*benchmarkRun{}
	for _, f := range files {
		r := f.run
		if r == nil {
			continue
		}
		other := byID[r.id]
		if other == nil || r.merged && !other.merged || r.merged == other.merged && r.path < other.path {
			byID[r.id] = r
		}
	}
	runs := make([]*benchmarkRun, 0, len(byID))
	for _, r := range byID {
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(x, y *benchmarkRun) int { return cmp.Compare(x.id, y.id) })
	return runs
}
