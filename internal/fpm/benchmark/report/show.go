package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// showAnswer is what Show prints for programs.
type showAnswer struct {
	benchmark.Report
	File      string         `json:"file"`
	RunID     string         `json:"run_id"`
	Mode      string         `json:"mode"`
	Status    string         `json:"status"`
	Ranks     int            `json:"ranks"`
	Expected  int            `json:"expected_points"`  // per rank
	Completed int            `json:"completed_points"` // per rank
	Engine    showEngine     `json:"engine"`
	Points    []showPoint    `json:"points"`
	Skipped   []skippedPoint `json:"skipped_points"`
}

type showEngine struct {
	Model              string `json:"model"`
	VLLM               string `json:"vllm"`
	Dynamo             string `json:"dynamo"`
	Parallel           string `json:"parallel"`
	Quantization       string `json:"quantization"`
	AttentionRequested string `json:"attention_backend_requested"`
	AttentionResolved  string `json:"attention_backend_resolved"`
	Resolution         string `json:"resolution"`
	ProbeComplete      *bool  `json:"probe_complete"` // null when no probe result is known
}

type showPoint struct {
	ID            int64     `json:"benchmark_id"`
	Phase         string    `json:"phase"`
	PrefillTokens int64     `json:"total_prefill_tokens"`
	KVReadTokens  int64     `json:"total_kv_read_tokens"`
	BatchSize     int64     `json:"batch_size"`
	WallTime      float64   `json:"wall_time_seconds"`
	RankWallTimes []float64 `json:"rank_wall_time_seconds"`
}

type skippedPoint struct {
	ID     int64  `json:"benchmark_id"`
	Phase  string `json:"phase"`
	Reason string `json:"reason"`
}

// Show prints what an artifact says: the verdict on it, the engine, the protocol, the coverage, and the wall time of each
// point across ranks.
func Show(w io.Writer, path string, o Options) (int, error) {
	f, side, run, err := loadRun(path, o.Limits)
	if err != nil {
		return statusBad, err
	}
	files := []*benchmark.File{f}
	if side != nil {
		files = append(files, side)
	}
	r := benchmark.Verify(files)
	if o.JSON {
		return statusOf(r.Valid), printJSON(w, answerOf(run, r))
	}
	p := &page{w: w}
	p.verdict(r, path)
	p.run(run)
	p.engine(run.Engine)
	p.protocol(run.Protocol)
	p.points(run)
	p.findings(r)
	return statusOf(r.Valid), p.err
}

func answerOf(run benchmark.Run, r benchmark.Report) showAnswer {
	e := run.Engine
	a := showAnswer{
		Report: r, File: run.Path, RunID: run.RunID, Mode: run.Mode, Status: run.Status, Ranks: run.Ranks,
		Expected: run.ExpectedPoints, Completed: run.CompletedPoints, Points: []showPoint{}, Skipped: []skippedPoint{},
		Engine: showEngine{
			Model: e.Model, VLLM: e.VLLM, Dynamo: e.Dynamo, Parallel: e.Parallel, Quantization: e.Quantization,
			AttentionRequested: e.AttentionRequested, AttentionResolved: e.AttentionResolved, Resolution: e.Resolution,
		},
	}
	if e.ProbeKnown {
		a.Engine.ProbeComplete = &e.ProbeComplete
	}
	for _, pt := range run.Points {
		s := showPoint{pt.ID, pt.Phase, pt.PrefillTokens, pt.KVReadTokens, pt.BatchSize, pt.WallTime, []float64{}}
		for _, rank := range pt.Ranks {
			s.RankWallTimes = append(s.RankWallTimes, rank.WallTime)
		}
		a.Points = append(a.Points, s)
	}
	for _, s := range run.Skipped {
		a.Skipped = append(a.Skipped, skippedPoint{s.ID, s.Phase, s.Reason})
	}
	return a
}

func (p *page) run(run benchmark.Run) {
	rows := []table.Row{
		{"run", quoteOdd(run.RunID)},
		{"mode", quoteOdd(run.Mode)},
		{"status", quoteOdd(run.Status)},
		{"ranks", run.Ranks},
		{"points", fmt.Sprintf("%d of %d measured, %d skipped (per rank)", run.CompletedPoints, run.ExpectedPoints, len(run.Skipped))},
		{"completed", showTime(run.Completed)},
		{"took", fmt.Sprintf("%.1f s, of which %.3f s measured", run.Elapsed, run.Measured)},
	}
	for _, extra := range [][2]string{{"stopped by", run.StopReason}, {"error", run.Error}} {
		if extra[1] != "" {
			rows = append(rows, table.Row{extra[0], quoteOdd(extra[1])})
		}
	}
	p.table("Run", nil, rows)
}

func (p *page) engine(e benchmark.Engine) {
	if _, ok := e.Node.Object(); !ok {
		p.printf("\nEngine\nnot recorded\n")
		return
	}
	coverage := "not known"
	if e.ProbeKnown {
		coverage = "incomplete"
		if e.ProbeComplete {
			coverage = "every worker"
		}
	}
	p.table("Engine", nil, []table.Row{
		{"model", quoteOdd(e.Model)},
		{"vllm", quoteOdd(strings.TrimSpace(e.VLLM + " " + e.Build))},
		{"dynamo", quoteOdd(e.Dynamo)},
		{"parallel", e.Parallel},
		{"quantization", quoteOdd(e.Quantization)},
		{"attention backend", fmt.Sprintf("requested %s, resolved %s", orAutomatic(e.AttentionRequested), orUnknown(e.AttentionResolved))},
		{"resolution", quoteOdd(e.Resolution)},
		{"worker probe", coverage},
	})
}

// protocol lists the settings; an absent protocol is said to be absent.
func (p *page) protocol(n doc.Node) {
	o, ok := n.Object()
	if !ok {
		p.printf("\nMeasurement protocol\nnot recorded (a legacy artifact)\n")
		return
	}
	var rows []table.Row
	for key := range o.All() {
		rows = append(rows, table.Row{quoteOdd(key), n.Key(key).Show()})
	}
	p.table("Measurement protocol", nil, rows)
}

// maxRankColumns is up to how many ranks each gets a column.
const maxRankColumns = 8

func (p *page) points(run benchmark.Run) {
	header := table.Row{"id", "phase", "prefill tokens", "KV read tokens", "batch", "graph", "wall ms", "fastest ms", "spread %", "slowest rank"}
	if run.Ranks <= maxRankColumns {
		for r := range run.Ranks {
			header = append(header, "rank "+strconv.Itoa(r)+" ms")
		}
	}
	var rows []table.Row
	for _, pt := range run.Points {
		fast, slow := pt.Spread()
		spread := "-"
		if fast > 0 {
			spread = fmt.Sprintf("%.1f", 100*(slow-fast)/fast)
		}
		slowest := "-"
		if len(pt.Ranks) > 0 {
			at := slices.MaxFunc(pt.Ranks, func(a, b benchmark.RankResult) int { return cmp.Compare(a.WallTime, b.WallTime) })
			slowest = strconv.FormatInt(at.Rank, 10)
		}
		row := table.Row{pt.ID, quoteOdd(pt.Phase), pt.PrefillTokens, pt.KVReadTokens, pt.BatchSize, quoteOdd(pt.GraphMode), ms(pt.WallTime), ms(fast), spread, slowest}
		if run.Ranks <= maxRankColumns {
			for _, r := range pt.Ranks {
				row = append(row, ms(r.WallTime))
			}
		}
		rows = append(rows, row)
	}
	p.table("Points", header, rows)
	rows = nil
	for _, s := range run.Skipped {
		rows = append(rows, table.Row{s.ID, quoteOdd(s.Phase), s.PrefillTokens, s.KVReadTokens, s.BatchSize, quoteOdd(s.Reason)})
	}
	p.table("Skipped points", table.Row{"id", "phase", "prefill tokens", "KV read tokens", "batch", "reason"}, rows)
}

func ms(seconds float64) string { return strconv.FormatFloat(1000*seconds, 'f', 3, 64) }

func showTime(t time.Time) string {
	if t.IsZero() {
		return "not known"
	}
	return t.UTC().Format(time.RFC3339)
}

func orUnknown(s string) string {
	if s == "" {
		return "not known"
	}
	return quoteOdd(s)
}

func orAutomatic(s string) string {
	if s == "" {
		return "automatic"
	}
	return quoteOdd(s)
}

// quoteOdd quotes foreign text unless it is plain: a terminal must not act on it.
func quoteOdd(s string) string {
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}
