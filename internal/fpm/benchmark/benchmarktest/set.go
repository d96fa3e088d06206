// Package benchmarktest makes self-benchmark artifacts for tests: valid sets of any number of ranks, and the means to break
// any single rule in all the places that have to agree on it. It builds everything from its own model, the merged artifact
// too, so that it can serve as the expectation of a merge.
package benchmarktest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// M is a JSON object of a set.
type M = map[string]any

// L is a JSON array of a set.
type L = []any

// Options describe a set. The zero value is a complete two-rank run with a protocol, an engine block and a sidecar of
// complete coverage.
type Options struct {
	Ranks       int // data-parallel ranks; default 2
	Points      int // points per phase; default 2
	TP, PCP, PP int // parallel sizes; default 1
	Legacy      bool
	NoExecution bool // a protocol without execution evidence
	NoEngine    bool
	Partial     bool
	RunID       string // default a fixed one
	ContentSeed string // default "0"

	// Hooks change what is built, in every copy of it: each runs once per copy, with the same arguments.
	FPM     func(rank, id int, fpm M)
	Point   func(id int, point M)
	Group   func(id int, group M)
	Rank    func(rank int, root M)
	Merged  func(root M)
	Replies func(replies L) L
	Sidecar func(root M)
}

// Set is a generated run.
type Set struct {
	Options
	RankDocs []*doc.Object
	Merged   *doc.Object
	Sidecar  *doc.Object // nil without an engine block
}

// New makes a set.
func New(t testing.TB, o Options) *Set {
	t.Helper()
	for _, d := range []*int{&o.TP, &o.PCP, &o.PP} {
		*d = max(*d, 1)
	}
	if o.Ranks == 0 {
		o.Ranks = 2
	}
	if o.Points == 0 {
		o.Points = 2
	}
	if o.RunID == "" {
		o.RunID = "3f6a0c1e9b2d4e7f8a5b6c7d8e9f0a1b"
	}
	if o.ContentSeed == "" {
		o.ContentSeed = "0"
	}
	b := builder{Options: o}
	s := &Set{Options: o}
	for r := range o.Ranks {
		s.RankDocs = append(s.RankDocs, convert(t, b.rank(r)))
	}
	s.Merged = convert(t, b.merged())
	if !o.NoEngine {
		s.Sidecar = convert(t, b.sidecar())
	}
	return s
}

// convert turns plain Go values into a document.
func convert(t testing.TB, m M) *doc.Object {
	t.Helper()
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	v, _, err := doc.Parse(bytes.NewReader(data), doc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return v.(*doc.Object)
}

// RankFile returns the name of a rank's file.
func RankFile(rank int) string {
	if rank == 0 {
		return "benchmark_results.json"
	}
	return fmt.Sprintf("benchmark_results_dp%d.json", rank)
}

// Names of the other two files.
const (
	MergedFile  = "benchmark_results_merged.json"
	SidecarFile = "benchmark_results_merged_worker_probe.json"
)

// Write writes all files of the set and returns their paths: ranks, merged, sidecar.
func (s *Set) Write(t testing.TB, dir string) []string {
	t.Helper()
	paths := s.WriteRanks(t, dir)
	paths = append(paths, WriteDoc(t, filepath.Join(dir, MergedFile), s.Merged))
	if s.Sidecar != nil {
		paths = append(paths, WriteDoc(t, filepath.Join(dir, SidecarFile), s.Sidecar))
	}
	return paths
}

// WriteRanks writes the rank files only.
func (s *Set) WriteRanks(t testing.TB, dir string) []string {
	t.Helper()
	var paths []string
	for r, d := range s.RankDocs {
		paths = append(paths, WriteDoc(t, filepath.Join(dir, RankFile(r)), d))
	}
	return paths
}

// WriteDoc writes one document and returns its path.
func WriteDoc(t testing.TB, path string, d *doc.Object) string {
	t.Helper()
	var b bytes.Buffer
	if err := doc.Write(&b, d); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Path names the file of rank in the directory that the run itself wrote to.
func path(name string) string { return "/tmp/" + name }
