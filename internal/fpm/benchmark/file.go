package benchmark

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// Kind is what a file is.
type Kind string

const (
	// KindRank is the artifact of one data-parallel rank.
	KindRank Kind = "rank"
	// KindMerged is the artifact of a whole run.
	KindMerged Kind = "merged"
	// KindSidecar is the worker-probe sidecar of a merged artifact.
	KindSidecar Kind = "sidecar"
	// KindUnknown is anything else, an unreadable file included.
	KindUnknown Kind = ""
)

const (
	sidecarSchema = "dynamo.fpm.benchmark_worker_probe"
	sidecarSuffix = "_worker_probe" // of the merged artifact's name, before the extension
	// schemaVersion is the artifacts' own version; the blocks inside have their own, which is 1 for all of them.
	schemaVersion      = 2
	blockSchemaVersion = 1
)

// File is one file, read but not judged.
type File struct {
	Path string
	Kind Kind
	// Root is the document; its Object method says no when the file could not be read or holds none.
	Root doc.Node

	problems []Finding // why the file could not be read, or what its bytes hide
}

// Load reads a file. It never fails as a call: what is wrong is in the findings of a verification, and in Err.
func Load(path string, limits doc.Limits) *File {
	f := &File{Path: path}
	r, err := open(path, limits)
	if err != nil {
		f.unreadable(err)
		return f
	}
	defer r.Close()
	f.read(r, limits)
	return f
}

// open refuses what is no regular file before opening it, for a pipe would block, and what is too large before reading it.
func open(path string, limits doc.Limits) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	if limit := cmp.Or(limits.Bytes, doc.DefaultBytes); info.Size() > limit {
		return nil, fmt.Errorf("%w: %d bytes of at most %d", doc.ErrTooLarge, info.Size(), limit)
	}
	return os.Open(path)
}

// LoadAll reads files. Every rank file of a run holds the groups of all ranks, which is most of it: equal ones are kept once.
func LoadAll(paths []string, limits doc.Limits) []*File {
	files := make([]*File, len(paths))
	var groups any
	for i, path := range paths {
		files[i] = Load(path, limits)
		root, ok := files[i].Root.Object()
		if !ok || files[i].Kind == KindSidecar {
			continue
		}
		mine, _ := root.Get("iteration_groups")
		switch {
		case groups == nil:
			groups = mine
		case doc.Equal(groups, mine):
			root.Set("iteration_groups", groups)
		}
	}
	return files
}

// Read is Load for a document that comes from elsewhere; name stands for it in findings.
func Read(name string, r io.Reader, limits doc.Limits) *File {
	f := &File{Path: name}
	f.read(r, limits)
	return f
}

// Err says why the file is of no use, nil when it is an artifact or a sidecar.
func (f *File) Err() error {
	if f.Kind != KindUnknown {
		return nil
	}
	for _, p := range f.problems {
		if p.Severity == SeverityError && p.Rule != RuleDuplicateKey {
			return fmt.Errorf("%s: %s: found %s, expected %s", p.File, p.Rule, p.Found, p.Expected)
		}
	}
	return fmt.Errorf("%s: no benchmark artifact", f.Path)
}

func (f *File) read(r io.Reader, limits doc.Limits) {
	v, duplicates, err := doc.Parse(r, limits)
	for _, d := range duplicates {
		f.problem(RuleDuplicateKey, d, "the key twice in one object", "each key once")
	}
	var syntax *doc.SyntaxError
	switch {
	case errors.As(err, &syntax):
		p := Finding{f.Path, syntax.Path, RuleJSON, SeverityError, err.Error(), "one complete JSON document"}
		f.problems = append(f.problems, p)
		return
	case err != nil:
		f.unreadable(err)
		return
	}
	f.Root = doc.Root(v)
	f.classify()
}

func (f *File) unreadable(err error) {
	if errors.Is(err, doc.ErrTooLarge) {
		f.problem(RuleJSON, doc.Node{}, err.Error(), "a document within the size limit, or a higher limit")
		return
	}
	f.problem(RuleReadable, doc.Node{}, err.Error(), "a readable file")
}

func (f *File) problem(rule Rule, at doc.Node, found, expected string) {
	f.problems = append(f.problems, Finding{f.Path, at.Path(), rule, SeverityError, found, expected})
}

func (f *File) classify() {
	if _, ok := f.Root.Object(); !ok {
		f.problem(RuleArtifactType, f.Root, f.Root.Show(), "an object: a benchmark artifact or a worker-probe sidecar")
		f.Root = doc.Node{}
		return
	}
	kind, typed := f.Root.Key("artifact_type").Text()
	schema, hasSchema := f.Root.Key("schema").Text()
	switch {
	case hasSchema && schema == sidecarSchema, !typed && isSidecarName(f.Path):
		f.Kind = KindSidecar
	case typed && kind == string(KindRank):
		f.Kind = KindRank
	case typed && kind == string(KindMerged):
		f.Kind = KindMerged
	default:
		at := f.Root.Key("artifact_type")
		f.problem(RuleArtifactType, at, at.Show(), `"rank" or "merged", or the schema "`+sidecarSchema+`"`)
	}
}

func isSidecarName(path string) bool {
	base := filepath.Base(path)
	return strings.HasSuffix(strings.TrimSuffix(base, filepath.Ext(base)), "_merged"+sidecarSuffix)
}

// SidecarPath is where the worker-probe sidecar of a merged artifact is: next to it, named after it.
func SidecarPath(mergedPath string) string {
	ext := filepath.Ext(mergedPath)
	return strings.TrimSuffix(mergedPath, ext) + sidecarSuffix + ext
}
