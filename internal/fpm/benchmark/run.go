package benchmark

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// Run is what an artifact says, for showing it. It is read leniently: what is missing or of another type is zero, what is
// wrong is a matter of Verify.
type Run struct {
	Path       string
	Kind       Kind
	RunID      string
	GridDigest string
	Mode       string // prefill, decode or agg
	Status     string // complete, partial or failed
	StopReason string
	Error      string
	Ranks      int // data-parallel ranks of the run
	Started    time.Time
	Completed  time.Time
	Elapsed    float64 // seconds, of the slowest rank
	Measured   float64 // seconds, all points together

	ExpectedPoints, CompletedPoints int // per rank
	Points                          []PointResult
	Skipped                         []SkippedPoint

	Protocol doc.Node // measurement_protocol; absent in a legacy run
	Engine   Engine
}

// Point is one shape of the benchmark's grid.
type Point struct {
	ID            int64
	Phase         string // prefill or decode
	PrefillTokens int64  // newly computed tokens of the batch
	KVReadTokens  int64  // context tokens that the batch reads
	BatchSize     int64  // requests
	GraphMode     string // expected CUDA graph mode
	Reasons       []string
	Key           string // PointKey
}

// PointResult is a measured point.
type PointResult struct {
	Point
	WallTime float64 // seconds, the slowest rank's
	Ranks    []RankResult
}

// Spread is the fastest and the slowest rank's wall time, in seconds.
func (p PointResult) Spread() (fastest, slowest float64) {
	if len(p.Ranks) == 0 {
		return p.WallTime, p.WallTime
	}
	by := func(a, b RankResult) int { return cmp.Compare(a.WallTime, b.WallTime) }
	return slices.MinFunc(p.Ranks, by).WallTime, slices.MaxFunc(p.Ranks, by).WallTime
}

// RankResult is one rank's retained measurement of a point.
type RankResult struct {
	Rank     int64
	WallTime float64    // seconds
	Prompts  string     // combined prompt digest, "" when not recorded
	Regime   string     // how the KV cache was seeded
	Dispatch []Dispatch // of the samples the estimate is made of; empty without execution evidence
}

// Dispatch is the CUDA graph dispatch of one sample. Observed false means that it is not known, not that there was none.
type Dispatch struct {
	Observed     bool
	Mode         string
	PaddedTokens int64
}

// SkippedPoint is a point without a result.
type SkippedPoint struct {
	Point
	Reason string
}

// Engine is the identity of the engine that was measured; a field is "" when the artifact does not tell.
type Engine struct {
	Node                doc.Node // the block, with a probe result applied if there is one
	Model               string
	VLLM, Build, Dynamo string
	AttentionRequested  string
	AttentionResolved   string
	Resolution          string
	Quantization        string
	Parallel            string // "tp=1 pp=1 pcp=1 dp=4"
	ProbeKnown          bool   // the probe's coverage is known
	ProbeComplete       bool
}

// ReadRun reads a rank or merged artifact, and the sidecar of a merged one if side is not nil and of the same run.
func ReadRun(f, side *File) Run {
	root := f.Root
	r := Run{
		Path: f.Path, Kind: f.Kind,
		RunID: text(root.Key("run_id")), GridDigest: text(root.Key("grid_digest")),
		Mode: text(root.Key("config").Key("mode")), Status: text(root.Key("status")),
		StopReason: text(root.Key("stop_reason")), Error: text(root.Key("error")),
		Protocol: root.Key("measurement_protocol"),
	}
	t := root.Key("timing")
	r.Started, _ = time.Parse(time.RFC3339, text(t.Key("started_at")))
	r.Completed, _ = time.Parse(time.RFC3339, text(t.Key("completed_at")))
	r.Elapsed, _ = t.Key("benchmark_elapsed_seconds").Float()
	r.Measured, _ = t.Key("measured_iteration_seconds").Float()
	dp := root.Key("dp")
	size, ok := dp.Key("size").Int()
	if !ok {
		size, _ = dp.Key("global_size").Int()
	}
	r.Ranks = int(size)
	scale := int64(1)
	if f.Kind == KindMerged && size > 0 {
		scale = size
	}
	expected, _ := root.Key("coverage").Key("expected_points").Int()
	completed, _ := root.Key("coverage").Key("completed_points").Int()
	r.ExpectedPoints, r.CompletedPoints = int(expected/scale), int(completed/scale)
	for _, g := range sortedGroups(root) {
		r.Points = append(r.Points, readGroup(g))
	}
	for _, s := range root.Key("skipped_points").Items() {
		r.Skipped = append(r.Skipped, SkippedPoint{Point: readPoint(s.Key("point")), Reason: text(s.Key("reason"))})
	}
	r.Engine = readEngine(root.Key("engine"), probeOf(f, side))
	return r
}

// LoadSidecar reads the sidecar next to a merged artifact; nil when there is none.
func LoadSidecar(merged *File, limits doc.Limits) *File {
	if merged.Kind != KindMerged {
		return nil
	}
	path := SidecarPath(merged.Path)
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	return Load(path, limits)
}

// probeOf is the merged probe result of a sidecar of the same run. A sidecar of another run is left over and says nothing.
func probeOf(f, side *File) *doc.Object {
	if side == nil || side.Kind != KindSidecar || text(side.Root.Key("run_id")) != text(f.Root.Key("run_id")) {
		return nil
	}
	result, _ := side.Root.Key("merged").Object()
	return result
}

func readGroup(g doc.Node) PointResult {
	p := PointResult{Point: readPoint(g.Key("point"))}
	p.WallTime, _ = g.Key("wall_time").Float()
	for _, rr := range g.Key("rank_results").Items() {
		fpm := rr.Key("fpms").At(0)
		m := fpm.Key("benchmark_measurement")
		r := RankResult{Regime: text(m.Key("preparation").Key("kv_seed_regime"))}
		r.Rank, _ = rr.Key("dp_rank").Int()
		r.WallTime, _ = fpm.Key("wall_time").Float()
		if text(m.Key("prompts").Key("status")) == evidenceRecorded {
			r.Prompts = text(m.Key("prompts").Key("sha256"))
		}
		indices, _ := ints(m.Key("estimate").Key("raw_sample_indices"))
		for _, i := range indices {
			sample := m.Key("raw_fpms").At(int(i)).Key("benchmark_sample")
			if !sample.Present() {
				continue
			}
			graph := sample.Key("cudagraph")
			d := Dispatch{Observed: text(graph.Key("status")) == "observed", Mode: graphMode(text(graph.Key("runtime_mode")))}
			d.PaddedTokens, _ = graph.Key("num_padded_tokens").Int()
			r.Dispatch = append(r.Dispatch, d)
		}
		p.Ranks = append(p.Ranks, r)
	}
	return p
}

func readPoint(n doc.Node) Point {
	p := Point{Phase: text(n.Key("point_type")), GraphMode: text(n.Key("expected_cudagraph_mode")), Key: PointKey(n)}
	p.ID, _ = n.Key("benchmark_id").Int()
	p.PrefillTokens, _ = n.Key("total_prefill_tokens").Int()
	p.KVReadTokens, _ = n.Key("total_kv_read_tokens").Int()
	p.BatchSize, _ = n.Key("batch_size").Int()
	for _, s := range n.Key("sample_reasons").Items() {
		p.Reasons = append(p.Reasons, text(s))
	}
	return p
}

func readEngine(n doc.Node, probe *doc.Object) Engine {
	block, ok := n.Object()
	if !ok {
		return Engine{Node: n}
	}
	if probe != nil {
		block = doc.Clone(block).(*doc.Object)
		ApplyProbe(block, probe)
		n = doc.Root(block)
	}
	e := Engine{
		Node: n, Model: text(n.Key("model").Key("model")), VLLM: text(n.Key("versions").Key("vllm")),
		Build: text(n.Key("versions").Key("vllm_build_commit")), Dynamo: text(n.Key("versions").Key("dynamo")),
		AttentionRequested: text(n.Key("attention").Key("backend_requested")),
		AttentionResolved:  text(n.Key("attention").Key("backend_resolved")),
		Resolution:         text(n.Key("resolution")), Quantization: text(n.Key("quantization").Key("method")),
	}
	p := n.Key("parallel")
	for _, f := range [][2]string{
		{"tp", "tensor_parallel_size"},
		{"pp", "pipeline_parallel_size"},
		{"pcp", "prefill_context_parallel_size"},
		{"dp", "data_parallel_size"},
	} {
		if v, ok := p.Key(f[1]).Int(); ok {
			e.Parallel += " " + f[0] + "=" + strconv.FormatInt(v, 10)
		}
	}
	if e.Parallel != "" {
		e.Parallel = e.Parallel[1:]
	}
	e.ProbeComplete, e.ProbeKnown = n.Key("worker_probe").Key("coverage").Key("complete").Bool()
	return e
}

func text(n doc.Node) string {
	s, _ := n.Text()
	return s
}
