package benchmark_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/benchmarktest"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

type (
	m = benchmarktest.M
	l = benchmarktest.L
)

// file reads a document as if it had come from a file of that name.
func file(t testing.TB, name string, d *doc.Object) *benchmark.File {
	t.Helper()
	var b bytes.Buffer
	if err := doc.Write(&b, d); err != nil {
		t.Fatal(err)
	}
	return benchmark.Read(name, &b, doc.Limits{})
}

func rankFiles(t testing.TB, s *benchmarktest.Set) []*benchmark.File {
	t.Helper()
	var files []*benchmark.File
	for r, d := range s.RankDocs {
		files = append(files, file(t, benchmarktest.RankFile(r), d))
	}
	return files
}

func mergedFiles(t testing.TB, s *benchmarktest.Set) []*benchmark.File {
	t.Helper()
	files := []*benchmark.File{file(t, benchmarktest.MergedFile, s.Merged)}
	if s.Sidecar != nil {
		files = append(files, file(t, benchmarktest.SidecarFile, s.Sidecar))
	}
	return files
}

func allFiles(t testing.TB, s *benchmarktest.Set) []*benchmark.File {
	t.Helper()
	return append(rankFiles(t, s), mergedFiles(t, s)...)
}

func show(r benchmark.Report) string {
	var b bytes.Buffer
	for _, f := range r.Findings {
		fmt.Fprintln(&b, f)
	}
	return b.String()
}

func TestValidSetsPass(t *testing.T) {
	for name, o := range map[string]benchmarktest.Options{
		"one rank":           {Ranks: 1},
		"two ranks":          {},
		"four ranks, tp 2":   {Ranks: 4, TP: 2},
		"tp 2, pcp 2, pp 3":  {Ranks: 2, TP: 2, PCP: 2, PP: 3},
		"32 ranks":           {Ranks: 32, Points: 1},
		"partial":            {Partial: true},
		"partition and rows": {Point: func(_ int, p m) { p["partition"], p["rows"] = l{1, 2}, m{"b": "x", "a": nil} }},
		"no execution":       {NoExecution: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := benchmark.Verify(allFiles(t, benchmarktest.New(t, o)))
			if !r.Valid || len(r.Findings) > 0 {
				t.Errorf("findings:\n%s", show(r))
			}
		})
	}
}

func TestLegacyAndEngineAbsenceAreNotes(t *testing.T) {
	r := benchmark.Verify(allFiles(t, benchmarktest.New(t, benchmarktest.Options{Legacy: true, NoEngine: true})))
	if !r.Valid {
		t.Fatalf("findings:\n%s", show(r))
	}
	rules := ruleSet(r)
	if len(rules) != 2 || !rules[benchmark.RuleProtocolAbsent] || !rules[benchmark.RuleEngineAbsent] {
		t.Errorf("findings:\n%s", show(r))
	}
}

func TestEachKindAlone(t *testing.T) {
	s := benchmarktest.New(t, benchmarktest.Options{Ranks: 3})
	r := benchmark.Verify(rankFiles(t, s)[1:2])
	if rules := ruleSet(r); !r.Valid || len(rules) != 1 || !rules[benchmark.RuleMissingRank] {
		t.Errorf("one rank of three:\n%s", show(r))
	}
	r = benchmark.Verify(mergedFiles(t, s)[:1])
	if rules := ruleSet(r); !r.Valid || len(rules) != 1 || !rules[benchmark.RuleSidecarMissing] {
		t.Errorf("merged alone:\n%s", show(r))
	}
	r = benchmark.Verify(mergedFiles(t, s)[1:])
	if rules := ruleSet(r); !r.Valid || len(rules) != 1 || !rules[benchmark.RuleSidecarAlone] {
		t.Errorf("sidecar alone:\n%s", show(r))
	}
}

func TestVerifyFilesOnDisk(t *testing.T) {
	s := benchmarktest.New(t, benchmarktest.Options{})
	paths := s.Write(t, t.TempDir())
	if r := benchmark.VerifyFiles(paths, doc.Limits{}); !r.Valid || len(r.Findings) > 0 {
		t.Errorf("findings:\n%s", show(r))
	}
	r := benchmark.VerifyFiles(append(paths, filepath.Join(t.TempDir(), "none.json")), doc.Limits{})
	if rules := ruleSet(r); r.Valid || len(rules) != 1 || !rules[benchmark.RuleReadable] {
		t.Errorf("findings:\n%s", show(r))
	}
}

func ruleSet(r benchmark.Report) map[benchmark.Rule]bool {
	rules := map[benchmark.Rule]bool{}
	for _, f := range r.Findings {
		rules[f.Rule] = true
	}
	return rules
}

func fileSize(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
