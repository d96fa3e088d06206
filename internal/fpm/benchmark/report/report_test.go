package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/benchmarktest"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/report"
)

func write(t testing.TB, o benchmarktest.Options) (dir string, paths []string) {
	t.Helper()
	dir = t.TempDir()
	return dir, benchmarktest.New(t, o).Write(t, dir)
}

// wants runs a command and looks for text in its output.
func wants(t *testing.T, status int, run func(io.Writer) (int, error), texts ...string) string {
	t.Helper()
	var b bytes.Buffer
	got, err := run(&b)
	if err != nil || got != status {
		t.Fatalf("status %d, %v; want %d\n%s", got, err, status, b.String())
	}
	for _, text := range texts {
		if !strings.Contains(b.String(), text) {
			t.Errorf("no %q in:\n%s", text, b.String())
		}
	}
	return b.String()
}

func TestVerify(t *testing.T) {
	_, paths := write(t, benchmarktest.Options{})
	text := wants(t, 0, func(w io.Writer) (int, error) { return report.Verify(w, paths, report.Options{}) }, "VALID: 4 files (0 notes)")
	if !strings.HasPrefix(text, "VALID") {
		t.Errorf("the verdict is not first:\n%s", text)
	}
	_, paths = write(t, benchmarktest.Options{Ranks: 1, Rank: func(_ int, r benchmarktest.M) { r["grid_digest"] = "\x1b[31mred" }})
	wants(t, 1, func(w io.Writer) (int, error) { return report.Verify(w, paths, report.Options{}) }, "NOT VALID: ", "measurement_grid", `\x1b[31mred`)

	var answer struct {
		Valid    bool
		Findings []map[string]string
	}
	text = wants(t, 1, func(w io.Writer) (int, error) { return report.Verify(w, paths, report.Options{JSON: true}) })
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Valid || len(answer.Findings) == 0 {
		t.Fatalf("%+v", answer)
	}
	for _, key := range []string{"file", "path", "rule", "severity", "found", "expected"} {
		if answer.Findings[0][key] == "" || len(answer.Findings[0]) != 6 {
			t.Errorf("%s in %v", key, answer.Findings[0])
		}
	}
	_, paths = write(t, benchmarktest.Options{})
	text = wants(t, 0, func(w io.Writer) (int, error) { return report.Verify(w, paths, report.Options{JSON: true}) })
	if strings.Join(strings.Fields(text), "") != `{"valid":true,"findings":[]}` {
		t.Errorf("got %s", text)
	}
}

func TestMerge(t *testing.T) {
	dir, paths := write(t, benchmarktest.Options{})
	out := filepath.Join(dir, "new_merged.json")
	wants(t, 0, func(w io.Writer) (int, error) { return report.Merge(w, out, paths[:2], report.Options{}) }, "MERGED: 2 rank files into "+out)
	wants(t, 0, func(w io.Writer) (int, error) { return report.Verify(w, append(paths[:2:2], out), report.Options{}) }, "VALID: 3 files (1 note)", "sidecar_missing")

	out = filepath.Join(dir, "never.json")
	wants(t, 1, func(w io.Writer) (int, error) { return report.Merge(w, out, paths[:3], report.Options{}) }, "REFUSED", "artifact_type")
	text := wants(t, 1, func(w io.Writer) (int, error) { return report.Merge(w, out, paths[:3], report.Options{JSON: true}) }, `"valid": false`)
	if strings.Contains(text, "never.json") {
		t.Errorf("names an output that was not written:\n%s", text)
	}
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused merge wrote: %v", err)
	}
	if status, err := report.Merge(io.Discard, paths[0], paths[:2], report.Options{}); status != 1 || !errors.Is(err, benchmark.ErrOverInput) {
		t.Errorf("status %d, %v", status, err)
	}
}

func TestShow(t *testing.T) {
	_, paths := write(t, benchmarktest.Options{Ranks: 4, Replies: func(r benchmarktest.L) benchmarktest.L { return r[:1] }})
	text := wants(t, 0, func(w io.Writer) (int, error) { return report.Show(w, paths[4], report.Options{}) },
		"VALID: ", "deepseek-ai/DeepSeek-V3", "requested automatic, resolved FLASH_ATTN_MLA", "worker_probe_partial", "incomplete",
		"coordinate_rank_slot_v1", "4 of 4 measured, 0 skipped", "43.200", "rank 3 ms", "ranks 1..3", "tp=1 pp=1 pcp=1 dp=4")
	if !strings.HasPrefix(text, "VALID") {
		t.Errorf("the verdict is not first:\n%s", text)
	}
	text = wants(t, 0, func(w io.Writer) (int, error) { return report.Show(w, paths[4], report.Options{JSON: true}) })
	var answer struct {
		Valid  bool
		Engine struct {
			ProbeComplete *bool `json:"probe_complete"`
		}
		Points []struct {
			Phase string
			Wall  []float64 `json:"rank_wall_time_seconds"`
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	if !answer.Valid || answer.Engine.ProbeComplete == nil || *answer.Engine.ProbeComplete || len(answer.Points) != 4 || len(answer.Points[0].Wall) != 4 {
		t.Errorf("%+v", answer)
	}

	_, paths = write(t, benchmarktest.Options{Ranks: 1, Legacy: true, NoEngine: true, Rank: func(_ int, r benchmarktest.M) {
		r["status"], r["error"], r["coverage"].(benchmarktest.M)["skipped_points"] = "failed", "it broke", 1
		r["skipped_points"] = benchmarktest.L{benchmarktest.M{"point": benchmarktest.M{"benchmark_id": 5, "point_type": "decode"}, "reason": "decode_injection_failed"}}
	}})
	wants(t, 1, func(w io.Writer) (int, error) { return report.Show(w, paths[0], report.Options{}) },
		"NOT VALID: 1 error", "it broke", "a legacy artifact", "Skipped points", "decode_injection_failed")
	if _, err := report.Show(io.Discard, "no such file", report.Options{}); err == nil {
		t.Error("no error for a file that is not there")
	}
}

func TestCompare(t *testing.T) {
	base := benchmarktest.Options{RunID: "a"}
	_, a := write(t, base)
	other := base
	other.RunID = "b"
	_, b := write(t, other)
	compare := func(x, y string) func(io.Writer) (int, error) {
		return func(w io.Writer) (int, error) { return report.Compare(w, x, y, report.Options{}) }
	}
	wants(t, 0, compare(a[2], b[2]), "COMPARABLE", "no part of the verdict", "1.000", "equal prompt hashes show equal captured tokens only")

	change := func(f func(*benchmarktest.Options)) string {
		o := other
		f(&o)
		_, paths := write(t, o)
		return paths[2]
	}
	rank := func(f func(r benchmarktest.M)) string {
		return change(func(o *benchmarktest.Options) { o.Rank = func(_ int, r benchmarktest.M) { f(r) } })
	}
	for name, tc := range map[string]struct {
		path string
		want []string
	}{
		"the same run": {a[2], []string{"NOT COMPARABLE", "no independent repetition"}},
		"content seed": {change(func(o *benchmarktest.Options) { o.ContentSeed = "7" }), []string{"NOT COMPARABLE", "$.measurement_protocol.content_seed", "prompts", "rank 1"}},
		"engine": {rank(func(r benchmarktest.M) {
			r["engine"].(benchmarktest.M)["kv_cache"].(benchmarktest.M)["block_size"] = 16
		}), []string{"NOT COMPARABLE", "$.engine.kv_cache.block_size", "64", "16"}},
		"config":        {rank(func(r benchmarktest.M) { r["config"].(benchmarktest.M)["timeout"] = 1 }), []string{"NOT COMPARABLE", "$.config.timeout"}},
		"no engine":     {change(func(o *benchmarktest.Options) { o.NoEngine = true }), []string{"NOT ESTABLISHED", "$.engine", "not recorded"}},
		"legacy":        {change(func(o *benchmarktest.Options) { o.Legacy = true }), []string{"NOT ESTABLISHED", "prompts", "dispatch", "not recorded"}},
		"partial probe": {change(func(o *benchmarktest.Options) { o.Replies = func(r benchmarktest.L) benchmarktest.L { return r[:1] } }), []string{"NOT ESTABLISHED", "worker_probe.coverage.complete"}},
		"more points":   {change(func(o *benchmarktest.Options) { o.Points = 3 }), []string{"NOT COMPARABLE", "2 points of its own"}},
		"dispatch": {change(func(o *benchmarktest.Options) {
			o.FPM = func(rank, id int, f benchmarktest.M) {
				if rank == 1 && id == 1 {
					raw := f["benchmark_measurement"].(benchmarktest.M)["raw_fpms"].(benchmarktest.L)[0].(benchmarktest.M)
					raw["benchmark_sample"].(benchmarktest.M)["cudagraph"].(benchmarktest.M)["runtime_mode"] = "NONE"
				}
			}
		}), []string{"NOT COMPARABLE", "dispatch", "PIECEWISE/128", "NONE/128", "prefill, 128 prefill tokens, 0 KV tokens, batch 1, rank 1"}},
		"dispatch not observed": {change(func(o *benchmarktest.Options) {
			o.FPM = func(_, _ int, f benchmarktest.M) {
				raw := f["benchmark_measurement"].(benchmarktest.M)["raw_fpms"].(benchmarktest.L)[0].(benchmarktest.M)
				g := raw["benchmark_sample"].(benchmarktest.M)["cudagraph"].(benchmarktest.M)
				for k := range g {
					g[k] = nil
				}
				g["status"] = "unavailable"
			}
		}), []string{"NOT ESTABLISHED", "dispatch", "not recorded"}},
	} {
		t.Run(name, func(t *testing.T) { wants(t, 1, compare(a[2], tc.path), tc.want...) })
	}
	if _, err := report.Compare(io.Discard, a[2], a[3], report.Options{}); err == nil || !strings.Contains(err.Error(), "sidecar") {
		t.Errorf("comparing with a sidecar: %v", err)
	}
	text := wants(t, 0, func(w io.Writer) (int, error) { return report.Compare(w, a[2], b[2], report.Options{JSON: true}) })
	var answer map[string]any
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer["verdict"] != "comparable" {
		t.Errorf("%v %v", err, answer)
	}
}

func TestPlot(t *testing.T) {
	dir, paths := write(t, benchmarktest.Options{Points: 12})
	svg, picture := filepath.Join(dir, "a.svg"), filepath.Join(dir, "a.PNG")
	for _, out := range []string{svg, picture} {
		wants(t, 0, func(w io.Writer) (int, error) { return report.Plot(w, out, paths[2], report.Options{}) }, "PLOTTED: 24 points into "+out)
	}
	data, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	var root struct{ XMLName xml.Name }
	if err := xml.Unmarshal(data, &root); err != nil || root.XMLName.Local != "svg" {
		t.Errorf("%v %v", err, root)
	}
	for _, text := range []string{"prefill tokens", "batch size", "KV tokens read", "wall time (ms)", "decode, deepseek-ai/DeepSeek-V3 (8 of 12 lines)"} {
		if !bytes.Contains(data, []byte(text)) {
			t.Errorf("no %q in the plot", text)
		}
	}
	f, err := os.Open(picture)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil || img.Bounds().Dx() < 800 {
		t.Errorf("%v %v", err, img)
	}
	for out, in := range map[string]string{
		filepath.Join(dir, "a.pdf"):          paths[2],
		filepath.Join(dir, "none", "a.svg"):  paths[2],
		filepath.Join(dir, "empty.svg"):      benchmarktest.WriteDoc(t, filepath.Join(dir, "empty.json"), doc.NewObject("artifact_type", "rank")),
		filepath.Join(dir, "no source.svg"):  filepath.Join(dir, "no such.json"),
		filepath.Join(dir, "of sidecar.svg"): paths[3],
	} {
		if status, err := report.Plot(io.Discard, out, in, report.Options{}); status != 1 || err == nil {
			t.Errorf("%s from %s: status %d, %v", out, in, status, err)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s was written", out)
		}
	}
}

func TestWriteErrorsAreReported(t *testing.T) {
	_, paths := write(t, benchmarktest.Options{})
	for name, run := range map[string]func(io.Writer) (int, error){
		"verify":  func(w io.Writer) (int, error) { return report.Verify(w, paths, report.Options{}) },
		"show":    func(w io.Writer) (int, error) { return report.Show(w, paths[2], report.Options{}) },
		"compare": func(w io.Writer) (int, error) { return report.Compare(w, paths[2], paths[2], report.Options{}) },
	} {
		if _, err := run(full{}); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var errFull = errors.New("no space left")

// full is a device without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
