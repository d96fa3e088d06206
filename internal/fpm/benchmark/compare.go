package benchmark

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// Verdict says whether two runs can be compared. Latency takes no part in it.
type Verdict string

const (
	// VerdictComparable means that everything recorded agrees.
	VerdictComparable Verdict = "comparable"
	// VerdictDiffers means that something recorded differs.
	VerdictDiffers Verdict = "differs"
	// VerdictUnestablished means that nothing recorded differs, but something is not recorded. Missing evidence is not a
	// match.
	VerdictUnestablished Verdict = "unestablished"
)

// CompareWarning is what matching hashes do not show (Warmup Completion Evidence, warning).
const CompareWarning = "equal prompt hashes show equal captured tokens only: not equal sampled continuations, cache tensors, memory, " +
	"graph preparation or execution history. Measurements of different grids need a controlled comparison, and run-to-run variation " +
	"needs separate launches."

// Difference is one thing in which two runs differ, or that one of them does not record.
type Difference struct {
	Aspect string `json:"aspect"` // run, protocol, engine, config, limits, grid, points, prompts, preparation, dispatch
	Where  string `json:"where"`  // a JSONPath, or a point and rank
	A      string `json:"a"`
	B      string `json:"b"`
	// Missing marks what is not recorded on one side or both, which leaves the comparison open instead of deciding it.
	Missing bool `json:"missing"`
}

// PointComparison is a point that both runs measured.
type PointComparison struct {
	Phase         string  `json:"phase"`
	PrefillTokens int64   `json:"total_prefill_tokens"`
	KVReadTokens  int64   `json:"total_kv_read_tokens"`
	BatchSize     int64   `json:"batch_size"`
	A             float64 `json:"wall_time_seconds_a"`
	B             float64 `json:"wall_time_seconds_b"`
}

// Comparison is the outcome of Compare.
type Comparison struct {
	Verdict     Verdict           `json:"verdict"`
	Differences []Difference      `json:"differences"`
	Omitted     int               `json:"omitted_differences,omitempty"` // past MaxDifferences
	Points      []PointComparison `json:"points"`
	Warning     string            `json:"warning"`

	differs, missing bool
}

// MaxDifferences is how many differences a comparison lists.
const MaxDifferences = 200

// Compare says whether two runs were measured under the same recorded conditions: protocol, engine, configuration, the same
// rank's prompts for the same point, its preparation and its observed dispatch. Each side is a rank or merged artifact; the
// caller applies sidecars when reading the runs.
func Compare(fileA, fileB *File, a, b Run) Comparison {
	c := &Comparison{Warning: CompareWarning, Differences: []Difference{}, Points: []PointComparison{}}
	if a.RunID != "" && a.RunID == b.RunID {
		c.add(Difference{Aspect: "run", Where: "$.run_id", A: a.RunID, B: "the same run: no independent repetition"})
	}
	c.block("protocol", a.Protocol, b.Protocol, true)
	c.engines(a.Engine, b.Engine)
	c.block("config", withoutKey(fileA.Root.Key("config"), "output_path"), withoutKey(fileB.Root.Key("config"), "output_path"), false)
	c.block("limits", fileA.Root.Key("limits"), fileB.Root.Key("limits"), false)
	c.block("cudagraph", fileA.Root.Key("cudagraph"), fileB.Root.Key("cudagraph"), false)
	if a.GridDigest != b.GridDigest {
		c.add(Difference{Aspect: "grid", Where: "$.grid_digest", A: a.GridDigest, B: b.GridDigest})
	}
	c.points(a, b)
	switch {
	case c.differs:
		c.Verdict = VerdictDiffers
	case c.missing:
		c.Verdict = VerdictUnestablished
	default:
		c.Verdict = VerdictComparable
	}
	return *c
}

func (c *Comparison) add(d Difference) {
	c.missing = c.missing || d.Missing
	c.differs = c.differs || !d.Missing
	if len(c.Differences) >= MaxDifferences {
		c.Omitted++
		return
	}
	c.Differences = append(c.Differences, d)
}

// block compares two recorded blocks. One that must be there and is not leaves the comparison open.
func (c *Comparison) block(aspect string, a, b doc.Node, required bool) {
	_, okA := a.Object()
	_, okB := b.Object()
	switch {
	case !okA && !okB && !required:
	case !okA || !okB:
		c.add(Difference{Aspect: aspect, Where: a.Path(), A: recorded(okA), B: recorded(okB), Missing: true})
	default:
		c.objects(aspect, a, b)
	}
}

func recorded(ok bool) string {
	if ok {
		return "recorded"
	}
	return "not recorded"
}

// objects lists every member in which two objects differ, one level of objects at a time.
func (c *Comparison) objects(aspect string, a, b doc.Node) {
	oa, _ := a.Object()
	ob, _ := b.Object()
	for _, key := range unionKeys(oa, ob) {
		left, right := a.Key(key), b.Key(key)
		if left.Present() == right.Present() && doc.Equal(left.Value(), right.Value()) {
			continue
		}
		_, isA := left.Object()
		_, isB := right.Object()
		if isA && isB {
			c.objects(aspect, left, right)
			continue
		}
		c.add(Difference{Aspect: aspect, Where: left.Path(), A: left.Show(), B: right.Show()})
	}
}

// engines compares the engine identities, and what the workers resolved where both runs know it.
func (c *Comparison) engines(a, b Engine) {
	blockA, okA := a.Node.Object()
	blockB, okB := b.Node.Object()
	if !okA || !okB {
		c.add(Difference{Aspect: "engine", Where: "$.engine", A: recorded(okA), B: recorded(okB), Missing: true})
		return
	}
	root := func(o *doc.Object) doc.Node {
		id := engineIdentity(o)
		id.Delete("capture_errors")
		return doc.Root(doc.NewObject("engine", id)).Key("engine")
	}
	c.objects("engine", root(blockA), root(blockB))
	const resolved = "$.engine.attention.backend_resolved"
	switch x, y := a.AttentionResolved, b.AttentionResolved; {
	case x == "" || y == "":
		c.add(Difference{Aspect: "engine", Where: resolved, A: orNotRecorded(x), B: orNotRecorded(y), Missing: true})
	case x != y:
		c.add(Difference{Aspect: "engine", Where: resolved, A: x, B: y})
	}
	for _, e := range []Engine{a, b} {
		if e.AttentionResolved != "" && (!e.ProbeKnown || !e.ProbeComplete) {
			c.add(Difference{
				Aspect: "engine", Where: "$.engine.worker_probe.coverage.complete",
				A: strconv.FormatBool(a.ProbeComplete), B: strconv.FormatBool(b.ProbeComplete), Missing: true,
			})
			break
		}
	}
}

func orNotRecorded(s string) string {
	if s == "" {
		return "not recorded"
	}
	return s
}

// points compares what was measured, point by point and the same rank with the same rank.
func (c *Comparison) points(a, b Run) {
	other := map[string]PointResult{}
	for _, p := range b.Points {
		other[p.Key] = p
	}
	onlyA, both := 0, 0
	for _, p := range a.Points {
		q, ok := other[p.Key]
		if !ok {
			onlyA++
			continue
		}
		both++
		c.Points = append(c.Points, PointComparison{p.Phase, p.PrefillTokens, p.KVReadTokens, p.BatchSize, p.WallTime, q.WallTime})
		c.point(p, q)
	}
	if onlyB := len(b.Points) - both; onlyA > 0 || onlyB > 0 {
		c.add(Difference{Aspect: "points", Where: "$.iteration_groups", A: fmt.Sprintf("%d points of its own", onlyA), B: fmt.Sprintf("%d points of its own", onlyB)})
	}
}

func (c *Comparison) point(p, q PointResult) {
	where := fmt.Sprintf("%s, %d prefill tokens, %d KV tokens, batch %d", p.Phase, p.PrefillTokens, p.KVReadTokens, p.BatchSize)
	if len(p.Ranks) != len(q.Ranks) {
		c.add(Difference{Aspect: "points", Where: where, A: fmt.Sprintf("%d ranks", len(p.Ranks)), B: fmt.Sprintf("%d ranks", len(q.Ranks))})
		return
	}
	for i, x := range p.Ranks {
		y := q.Ranks[i]
		at := fmt.Sprintf("%s, rank %d", where, x.Rank)
		switch {
		case x.Prompts == "" || y.Prompts == "":
			c.add(Difference{Aspect: "prompts", Where: at, A: orNotRecorded(x.Prompts), B: orNotRecorded(y.Prompts), Missing: true})
		case x.Prompts != y.Prompts:
			c.add(Difference{Aspect: "prompts", Where: at, A: x.Prompts, B: y.Prompts})
		}
		if x.Regime != y.Regime {
			c.add(Difference{Aspect: "preparation", Where: at, A: orNotRecorded(x.Regime), B: orNotRecorded(y.Regime), Missing: x.Regime == "" || y.Regime == ""})
		}
		switch {
		case !observed(x.Dispatch) || !observed(y.Dispatch):
			c.add(Difference{Aspect: "dispatch", Where: at, A: showDispatch(x.Dispatch), B: showDispatch(y.Dispatch), Missing: true})
		case !slices.Equal(x.Dispatch, y.Dispatch):
			c.add(Difference{Aspect: "dispatch", Where: at, A: showDispatch(x.Dispatch), B: showDispatch(y.Dispatch)})
		}
	}
}

// observed says whether the dispatch of every sample of an estimate is known.
func observed(list []Dispatch) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(d Dispatch) bool { return !d.Observed })
}

func showDispatch(list []Dispatch) string {
	if !observed(list) {
		return "not recorded"
	}
	var s strings.Builder
	for i, d := range slices.Compact(slices.Clone(list)) {
		if i > 0 {
			s.WriteString(", ")
		}
		s.WriteString(d.Mode + "/" + strconv.FormatInt(d.PaddedTokens, 10))
	}
	return s.String()
}

// withoutKey is an object without one of its members, with the place it came from.
func withoutKey(n doc.Node, key string) doc.Node {
	o, ok := n.Object()
	if !ok {
		return n
	}
	c := doc.Clone(o).(*doc.Object)
	c.Delete(key)
	return doc.Root(doc.NewObject("config", c)).Key("config")
}
