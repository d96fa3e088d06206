package benchmark_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/benchmarktest"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

const output = "/tmp/" + benchmarktest.MergedFile

// TestMergeEqualsIndependentExpectation compares with the merged artifact that the generator builds from its own model.
func TestMergeEqualsIndependentExpectation(t *testing.T) {
	for name, o := range map[string]benchmarktest.Options{
		"1 rank": {Ranks: 1}, "2 ranks": {Ranks: 2}, "4 ranks": {Ranks: 4, TP: 2}, "32 ranks": {Ranks: 32, Points: 1},
		"partial": {Partial: true}, "legacy": {Legacy: true}, "no execution": {NoExecution: true}, "no engine": {NoEngine: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := benchmarktest.New(t, o)
			files := rankFiles(t, s)
			for i, f := range files { // as on the machine of the run
				f.Path = "/tmp/" + benchmarktest.RankFile(i)
			}
			// The order in which files are given does not count.
			files = append(files[1:], files[0])
			merged, report, err := benchmark.Merge(files, output)
			if err != nil || !report.Valid {
				t.Fatalf("%v\n%s", err, show(report))
			}
			if !doc.Equal(merged, s.Merged) {
				var got, want bytes.Buffer
				_ = doc.Write(&got, merged)
				_ = doc.Write(&want, s.Merged)
				t.Errorf("got\n%.3000s\nwant\n%.3000s", got.String(), want.String())
			}
			if number := string(doc.Canonical(first(t, merged, "x_future"))); !strings.Contains(number, "1.50") {
				t.Errorf("the spelling of unknown numbers changed: %s", number)
			}
			if r := benchmark.Verify([]*benchmark.File{file(t, "m.json", merged)}); !r.Valid {
				t.Errorf("the merged artifact is not valid:\n%s", show(r))
			}
		})
	}
}

// TestMergeOfOneWorkersRanks: a worker of a larger run has a range of the ranks; the groups hold all.
func TestMergeOfOneWorkersRanks(t *testing.T) {
	s := benchmarktest.New(t, benchmarktest.Options{Ranks: 4})
	merged, report, err := benchmark.Merge(rankFiles(t, s)[2:], output)
	if err != nil {
		t.Fatalf("%v\n%s", err, show(report))
	}
	if rules := ruleSet(report); len(rules) != 1 || !rules[benchmark.RuleMissingRank] {
		t.Errorf("findings:\n%s", show(report))
	}
	root := doc.Root(merged)
	if n := len(root.Key("results").Items()); n != 4*4 {
		t.Errorf("%d results, want those of all 4 ranks", n)
	}
	if got := root.Key("rank_warmup_evidence").Key("0").Key("reason").Show(); got != `"rank_artifact_not_loaded"` {
		t.Errorf("reason %s", got)
	}
	if got := root.Key("rank_warmup_evidence").Key("3").Key("status").Show(); got != `"recorded"` {
		t.Errorf("status %s", got)
	}
	if got := root.Key("dp").Show(); got != `{"ranks": [0, 1, 2, 3], "source_ranks": [2, 3], "managed_size": 2, "global_size": 4}` {
		t.Errorf("dp %s", got)
	}
	if r := benchmark.Verify([]*benchmark.File{file(t, "m.json", merged)}); !r.Valid {
		t.Errorf("the merged artifact is not valid:\n%s", show(r))
	}
}

func TestMergeOfDegradedEngines(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(rank int, root m)
		want   string // capture_errors
		model  string
	}{
		{"one failed", func(r int, root m) {
			if r == 1 {
				root["engine"] = m{"capture_error": "RuntimeError: boom", "model": m{}}
			}
		}, `{"1": "RuntimeError: boom"}`, `"deepseek-ai/DeepSeek-V3"`},
		{"the first is missing", func(r int, root m) {
			if r == 0 {
				delete(root, "engine")
			}
		}, `{"0": "missing engine block"}`, `"deepseek-ai/DeepSeek-V3"`},
		{"all failed", func(_ int, root m) {
			root["engine"] = m{"capture_error": "boom"}
		}, `{"0": "boom", "1": "boom", "2": "boom"}`, "absent"},
		{"missing and failed", func(r int, root m) {
			delete(root, "engine")
			if r == 2 {
				root["engine"] = m{"capture_error": "boom"}
			}
		}, `{"0": "missing engine block", "1": "missing engine block", "2": "boom"}`, "absent"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := benchmarktest.New(t, benchmarktest.Options{Ranks: 3, Rank: tc.change})
			merged, report, err := benchmark.Merge(rankFiles(t, s), output)
			if err != nil {
				t.Fatalf("%v\n%s", err, show(report))
			}
			engine := doc.Root(merged).Key("engine")
			if got := engine.Key("capture_errors").Show(); got != tc.want {
				t.Errorf("capture_errors %s, want %s", got, tc.want)
			}
			if got := engine.Key("model").Key("model").Show(); got != tc.model {
				t.Errorf("model %s, want %s", got, tc.model)
			}
			if parallel := engine.Key("parallel"); parallel.Present() && !parallel.Key("data_parallel_rank").IsNull() {
				t.Errorf("data_parallel_rank %s", parallel.Key("data_parallel_rank").Show())
			}
			if r := benchmark.Verify([]*benchmark.File{file(t, "m.json", merged)}); !r.Valid {
				t.Errorf("the merged artifact is not valid:\n%s", show(r))
			}
		})
	}
}

func TestMergeRefuses(t *testing.T) {
	s := benchmarktest.New(t, benchmarktest.Options{Ranks: 4})
	files := rankFiles(t, s)
	legacy := benchmarktest.New(t, benchmarktest.Options{Ranks: 4, Legacy: true})
	partial := benchmarktest.New(t, benchmarktest.Options{Ranks: 4, Partial: true})
	other := benchmarktest.New(t, benchmarktest.Options{Ranks: 4, RunID: "other"})
	for _, tc := range []struct {
		name  string
		files []*benchmark.File
		rule  benchmark.Rule
	}{
		{"nothing", nil, benchmark.RuleMissingRank},
		{"a gap", []*benchmark.File{files[0], files[1], files[3]}, benchmark.RuleMissingRank},
		{"a rank twice", []*benchmark.File{files[0], files[1], files[1]}, benchmark.RuleDuplicateRank},
		{"a legacy rank among others", []*benchmark.File{files[0], rankFiles(t, legacy)[1]}, benchmark.RuleProtocolMixed},
		{"a partial rank among complete ones", []*benchmark.File{files[0], rankFiles(t, partial)[1]}, benchmark.RuleStatusMismatch},
		{"two runs", []*benchmark.File{files[0], rankFiles(t, other)[1]}, benchmark.RuleRunID},
		{"a merged artifact", append(mergedFiles(t, s)[:1], files...), benchmark.RuleArtifactType},
		{"a sidecar", append(mergedFiles(t, s)[1:], files...), benchmark.RuleArtifactType},
		{"no artifact", append(files[:4:4], benchmark.Read("x.json", strings.NewReader("[]"), doc.Limits{})), benchmark.RuleArtifactType},
	} {
		t.Run(tc.name, func(t *testing.T) {
			merged, report, err := benchmark.Merge(tc.files, output)
			if merged != nil || !errors.Is(err, benchmark.ErrRefused) || report.Valid {
				t.Fatalf("merged, %v", err)
			}
			if !ruleSet(report)[tc.rule] {
				t.Errorf("no %s in:\n%s", tc.rule, show(report))
			}
			if !strings.Contains(err.Error(), "expected") {
				t.Errorf("the error does not say why: %v", err)
			}
		})
	}
}

func TestWriteMerged(t *testing.T) {
	dir := t.TempDir()
	s := benchmarktest.New(t, benchmarktest.Options{})
	paths := s.WriteRanks(t, dir)
	var files []*benchmark.File
	for _, p := range paths {
		files = append(files, benchmark.Load(p, doc.Limits{}))
	}
	link := filepath.Join(dir, "link.json")
	if err := os.Link(paths[1], link); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(paths[1])
	for _, out := range []string{paths[1], filepath.Join(dir, ".", "x", "..", filepath.Base(paths[0])), link} {
		if err := os.MkdirAll(filepath.Join(dir, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := benchmark.WriteMerged(out, s.Merged, files); !errors.Is(err, benchmark.ErrOverInput) {
			t.Errorf("%s: %v, want a refusal", out, err)
		}
	}
	if after, _ := os.ReadFile(paths[1]); !bytes.Equal(before, after) {
		t.Error("an input changed")
	}
	if err := benchmark.WriteMerged(dir, s.Merged, files); err == nil {
		t.Error("wrote over a directory")
	}
	out := filepath.Join(dir, "out.json")
	for range 2 { // the second time over the first
		if err := benchmark.WriteMerged(out, s.Merged, files); err != nil {
			t.Fatal(err)
		}
	}
	if f := benchmark.Load(out, doc.Limits{}); f.Kind != benchmark.KindMerged || f.Err() != nil {
		t.Errorf("%v %v", f.Kind, f.Err())
	}
	if err := benchmark.WriteMerged(filepath.Join(dir, "none", "out.json"), s.Merged, files); err == nil {
		t.Error("wrote into a directory that is not there")
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".*out*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
