package summary

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace/tracetest"
)

func add(t *testing.T, s *Summary, rows ...trace.Row) {
	t.Helper()
	for i := range rows {
		rows[i].Line = rows[i].AppendJSON(nil)
		rows[i].Line = rows[i].Line[:len(rows[i].Line)-1]
		if err := s.Add(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// decodes returns rows of one decode pass each, 100 ms apart, of 20 ms and 4 requests.
func decodes(counters ...uint64) []trace.Row {
	var rows []trace.Row
	for i, n := range counters {
		rows = append(rows, tracetest.Row("4192", n, tracetest.Start.Add(time.Duration(i)*100*time.Millisecond)))
	}
	return rows
}

func TestSummary(t *testing.T) {
	s := New()
	rows := decodes(5, 6, 9, 10, 11)
	rows[1].Record.Scheduled = fpm.Scheduled{NumPrefillRequests: 1, SumPrefillTokens: 300, SumPrefillKVTokens: 70}
	rows[1].Record.WallTime = 0.05
	rows[2].Record.Scheduled.SumPrefillTokens = 200
	rows[2].Record.WallTime = 0 // not timed
	rows[3].Record = fpm.Record{Version: 1, WorkerID: "4192", CounterID: 10}
	rows[4].Observed = rows[4].Observed.Add(600 * time.Millisecond)
	add(t, s, rows...)
	sampled := decodes(1, 400)
	for i := range sampled {
		sampled[i].Capture = fpm.CaptureSampled
		sampled[i].Observed = sampled[i].Observed.Add(time.Duration(i) * 4900 * time.Millisecond)
	}
	add(t, s, sampled...)
	add(t, s, decodes(7, 3)[0], decodes(7, 3)[1])

	got := s.Ranks()
	if len(got) != 2 {
		t.Fatalf("%d ranks", len(got))
	}
	bytesPerRow := 0
	for _, row := range slices.Concat(rows, decodes(7, 3)) {
		bytesPerRow += len(row.AppendJSON(nil))
	}
	want := Rank{
		Namespace: "default", Component: "backend", WorkerID: "4192", CaptureMode: "full", TimingScope: fpm.DefaultTimingScope,
		First: tracetest.Start, Last: tracetest.Start.Add(time.Second), Seconds: 1.02,
		Rows: 7, Heartbeats: 1, Prefill: 1, Decode: 4, Mixed: 1, RowBytes: float64(bytesPerRow) / 7,
		PrefillTokens: 500, PrefillKVTokens: 70, DecodeRequests: 20, DecodeKVTokens: 20000, WallSeconds: 0.13,
		PassesPerSecond: new(6 / 1.02), PrefillPerSecond: new(500 / 1.02), DecodePerSecond: new(20 / 1.02), Busy: new(0.13 / 1.02),
		Batch: Quantiles{4, 4, 4, 4}, WallTime: Quantiles{0.02, 0.02, 0.02, 0.05}, PassTokens: Quantiles{4, 204, 204, 300},
		Gaps: 1, Lost: 2, Restarts: 2, LongestSilence: 0.7,
	}
	if diff := cmp.Diff(want, got[0], cmpopts.EquateApprox(2*Accuracy, 0)); diff != "" {
		t.Error(diff)
	}
	if r := got[1]; r.CaptureMode != "sampled" || r.Busy != nil || r.DecodePerSecond != nil || r.Lost != 0 || r.Gaps != 0 || r.Decode != 2 || r.LongestSilence != 5 {
		t.Errorf("%+v", r)
	}

	var table, text bytes.Buffer
	if err := WriteTable(&table, got); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(table.String()), "\n"); len(lines) != 3 || !strings.Contains(lines[2], "sampled") || strings.Count(lines[2], " - ") < 4 {
		t.Errorf("table:\n%s", table.String())
	}
	if err := json.NewEncoder(&text).Encode(got); err != nil {
		t.Error(err)
	}
}

// Quantiles are within the accuracy of those of the sorted values.
func TestQuantiles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	d := newDistribution()
	values := make([]float64, 10_000)
	for i := range values {
		values[i] = math.Exp(random.NormFloat64()*2) / 100
		d.add(values[i])
	}
	slices.Sort(values)
	got := d.quantiles()
	for q, v := range map[float64]float64{0.5: got.P50, 0.9: got.P90, 0.99: got.P99, 1: got.Max} {
		exact := values[int(q*float64(len(values)-1))]
		if math.Abs(v-exact) > exact*Accuracy*1.01 {
			t.Errorf("quantile %v is %v, want %v", q, v, exact)
		}
	}
	if newDistribution().quantiles() != (Quantiles{}) {
		t.Error("quantiles of nothing")
	}
}

func TestTooManyRanks(t *testing.T) {
	s := New()
	var err error
	for i := 0; i <= maxRanks && err == nil; i++ {
		row := tracetest.Row(fmt.Sprint(i), 1, tracetest.Start)
		err = s.Add(&row)
	}
	if err == nil || len(s.ranks) != maxRanks {
		t.Errorf("%d ranks: %v", len(s.ranks), err)
	}
}

// BenchmarkSummary reads and sums up a trace of two ranks for two minutes; bytes are uncompressed.
func BenchmarkSummary(b *testing.B) {
	rows, err := tracetest.Simulate(2 * time.Minute)
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "trace.jsonl.gz")
	if err := tracetest.WriteFile(path, rows, 200); err != nil {
		b.Fatal(err)
	}
	totals := trace.NewTotals()
	b.ReportAllocs()
	for b.Loop() {
		if err := trace.Read(b.Context(), []string{path}, trace.ReadOptions{Totals: totals}, New().Add); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(totals.Bytes()) / int64(b.N))
}
