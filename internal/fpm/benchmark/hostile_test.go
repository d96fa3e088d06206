package benchmark_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/benchmarktest"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// places calls visit for every value below v with a function that replaces it, and puts the old value back.
func places(v any, visit func(replace func(any))) {
	switch v := v.(type) {
	case *doc.Object:
		for key, child := range v.All() {
			visit(func(x any) { v.Set(key, x) })
			v.Set(key, child)
			places(child, visit)
		}
	case []any:
		for i, child := range v {
			visit(func(x any) { v[i] = x })
			v[i] = child
			places(child, visit)
		}
	}
}

// use does with files what the tools do.
func use(files []*benchmark.File) benchmark.Report {
	r := benchmark.Verify(files)
	_, _, _ = benchmark.Merge(files, output)
	for _, f := range files {
		run := benchmark.ReadRun(f, files[len(files)-1])
		for _, p := range run.Points {
			p.Spread()
		}
	}
	return r
}

// TestWrongTypesEverywhere puts every kind of value in every place of a set, one at a time. Nothing may panic, and every
// finding is whole.
func TestWrongTypesEverywhere(t *testing.T) {
	s := benchmarktest.New(t, benchmarktest.Options{Ranks: 1, Points: 1})
	docs := []*doc.Object{s.RankDocs[0], s.Merged, s.Sidecar}
	roots := make([]*benchmark.File, len(docs))
	for i, d := range docs {
		roots[i] = file(t, []string{"rank.json", "a_merged.json", "a_merged_worker_probe.json"}[i], d)
		roots[i].Root = doc.Root(d)
	}
	values := []any{
		nil, true, "x", json.Number("-1"), json.Number("1e999"), json.Number("1.5"), json.Number("9223372036854775807"),
		[]any{},
		[]any{nil},
		doc.NewObject(), doc.NewObject("0", nil),
	}
	n := 0
	for _, d := range docs {
		places(d, func(replace func(any)) {
			// Not all values in all places: the combination wanders, so that the test stays quick.
			for i := n % 5; i < len(values); i += 5 {
				replace(values[i])
				use(roots)
			}
			n++
		})
	}
	if n < 800 {
		t.Errorf("only %d places", n)
	}
	if r := benchmark.Verify(roots); !r.Valid {
		t.Errorf("the set is not as it was:\n%s", show(r))
	}
}

func TestFindingsAreBounded(t *testing.T) {
	s := benchmarktest.New(t, benchmarktest.Options{Ranks: 1, Points: 1})
	s.RankDocs[0].Set("iteration_groups", make([]any, 100_000))
	r := benchmark.Verify(rankFiles(t, s))
	if r.Valid || len(r.Findings) != benchmark.MaxFindings || r.Omitted < 90_000 {
		t.Errorf("%d findings, %d omitted", len(r.Findings), r.Omitted)
	}
}

// zeros is an endless array.
type zeros struct{ n int }

func (z *zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "[0,0"[min(z.n, 2+z.n%2)]
		z.n++
	}
	return len(p), nil
}

func TestLargeFilesCostBoundedMemory(t *testing.T) {
	dir := t.TempDir()
	sparse := filepath.Join(dir, "sparse.json")
	f, err := os.Create(sparse)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(100 << 20); err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, tc := range []struct {
		name string
		read func() *benchmark.File
		want string
		mib  uint64
	}{
		{"100 MB on disk", func() *benchmark.File { return benchmark.Load(sparse, doc.Limits{}) }, "too large", 1},
		{"an endless stream", func() *benchmark.File {
			return benchmark.Read("stream", io.LimitReader(&zeros{}, 100<<20), doc.Limits{Bytes: 8 << 20})
		}, "too large", 100},
		{"5 million values", func() *benchmark.File {
			return benchmark.Read("stream", io.LimitReader(&zeros{}, 10<<20), doc.Limits{Values: 100_000})
		}, "too many values", 150},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			file := tc.read()
			runtime.ReadMemStats(&after)
			if file.Err() == nil || !strings.Contains(file.Err().Error(), tc.want) {
				t.Errorf("error %v, want %q", file.Err(), tc.want)
			}
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > tc.mib {
				t.Errorf("%d MiB allocated, want at most %d", used, tc.mib)
			}
		})
	}
}

func TestPipesAreRefused(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "pipe.json")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	if err := benchmark.Load(fifo, doc.Limits{}).Err(); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("error %v", err)
	}
}

// FuzzVerify gives the verifier rank, merged and sidecar files of any content.
func FuzzVerify(f *testing.F) {
	add := func(o benchmarktest.Options) {
		s := benchmarktest.New(f, o)
		f.Add(doc.Canonical(s.RankDocs[0]), doc.Canonical(s.Merged), doc.Canonical(s.Sidecar))
	}
	add(benchmarktest.Options{Ranks: 1, Points: 1})
	add(benchmarktest.Options{Ranks: 2, Points: 1, TP: 2})
	add(benchmarktest.Options{Ranks: 1, Points: 1, Legacy: true, Partial: true})
	f.Add([]byte(`{"artifact_type":"rank"}`), []byte(`{"artifact_type":"merged"}`), []byte(`{"schema":"dynamo.fpm.benchmark_worker_probe"}`))
	f.Add([]byte(`{"artifact_type":"rank","dp":{"rank":0,"size":65536},"iteration_groups":[{}]}`),
		[]byte(`{"artifact_type":"merged","dp":{"global_size":65536}}`), []byte(`[NaN`))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		limits := doc.Limits{Bytes: 1 << 18, Values: 20_000}
		var files []*benchmark.File
		for i, data := range [][]byte{a, b, c} {
			files = append(files, benchmark.Read([]string{"a.json", "a_merged.json", "a_merged_worker_probe.json"}[i], bytes.NewReader(data), limits))
		}
		r := use(files)
		if len(r.Findings) > benchmark.MaxFindings {
			t.Fatalf("%d findings", len(r.Findings))
		}
		for _, finding := range r.Findings {
			if finding.File == "" || !strings.HasPrefix(finding.Path, "$") || finding.Rule == "" || finding.Expected == "" {
				t.Fatalf("incomplete: %+v", finding)
			}
			if len(finding.Found) > 4000 || len(finding.Expected) > 4000 {
				t.Fatalf("a finding of %d and %d bytes", len(finding.Found), len(finding.Expected))
			}
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
}
