package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
)

// traceInput is what commands over traces have in common: files, and rows to choose.
type traceInput struct {
	files   []string
	workers []string
	ranks   []string
	since   string
	until   string
}

func traceFlags(cmd *kingpin.CmdClause) *traceInput {
	in := &traceInput{}
	cmd.Arg("file", "Trace files, or patterns of their names. Those of one producer are read in order of their segments.").Required().StringsVar(&in.files)
	cmd.Flag("worker", "Worker id to choose. Repeatable.").StringsVar(&in.workers)
	cmd.Flag("rank", "Data-parallel rank to choose. Repeatable.").StringsVar(&in.ranks)
	cmd.Flag("since", "Time of the first rows to choose, such as 2026-11-29T20:15:00Z, or a duration before now, such as 2h.").StringVar(&in.since)
	cmd.Flag("until", "Time of the first rows to leave out, in the same forms.").StringVar(&in.until)
	return in
}

// filter returns the rows to choose.
func (in *traceInput) filter(now time.Time) (trace.Filter, error) {
	f := trace.Filter{Workers: in.workers}
	var since, until, ranks error
	f.Since, since = parseTime("--since", in.since, now)
	f.Until, until = parseTime("--until", in.until, now)
	for _, text := range in.ranks {
		rank, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			ranks = fmt.Errorf("--rank: %q is no whole number from 0", text)
		}
		f.Ranks = append(f.Ranks, rank)
	}
	if err := errors.Join(since, until, ranks); err != nil {
		return f, &usageError{err.Error()}
	}
	return f, nil
}

// parseTime reads a time, or a duration before now. An empty text is no time.
func parseTime(name, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, fmt.Errorf("%s: %q is neither a time such as 2026-11-29T20:15:00Z nor a duration such as 2h", name, text)
	}
	return t, nil
}

// paths returns the files that exist, with those that patterns match.
func (in *traceInput) paths() ([]string, error) {
	var paths []string
	for _, name := range in.files {
		if _, err := os.Stat(name); err != nil && strings.ContainsAny(name, "*?[") {
			matches, err := filepath.Glob(name)
			if err != nil {
				return nil, &usageError{fmt.Sprintf("%s: %v", printable(name), err)}
			}
			if len(matches) == 0 {
				return nil, fmt.Errorf("%s: no such file", printable(name))
			}
			paths = append(paths, matches...)
			continue
		}
		paths = append(paths, name)
	}
	return paths, nil
}

// maxProblems is how many rows and parts of files are told of one by one.
const maxProblems = 20

// traceProblems writes what could not be read, the first ones in full.
type traceProblems struct {
	err io.Writer

	mu    sync.Mutex
	count int
}

func (p *traceProblems) add(problem trace.Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count++; p.count <= maxProblems {
		fmt.Fprintln(p.err, printable(problem.String()))
	}
}

// result returns an error when there was any problem.
func (p *traceProblems) result() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count > maxProblems {
		fmt.Fprintf(p.err, "and %s\n", counted(p.count-maxProblems, "more problem", "more problems"))
	}
	if p.count > 0 {
		return errReported
	}
	return nil
}

// barFrom is the size of files from which on a progress bar is shown, in bytes: about a second.
const barFrom = 4 << 20

// progress shows how far the reading of files is, if err is a terminal and out is not: a bar would be drawn into the
// result. It returns what to tell of bytes that are done with, and what ends it.
func progress(s streams, paths []string, description string) (done func(int64), end func()) {
	var size int64
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			size += info.Size()
		}
	}
	if size < barFrom || !isTerminal(s.err) {
		return func(int64) {}, func() {}
	}
	bar := progressbar.NewOptions64(size, progressbar.OptionSetWriter(s.err), progressbar.OptionSetDescription(description),
		progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetWidth(30))
	return func(n int64) { _ = bar.Add64(n) }, func() { _ = bar.Finish() }
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// read hands the chosen rows to row and tells of what could not be read. The result of problems is the caller's to
// return, once the answer is written.
func (in *traceInput) read(ctx context.Context, s streams, ordered bool, what string, row func(*trace.Row) error) (*traceProblems, error) {
	filter, err := in.filter(time.Now())
	if err != nil {
		return nil, err
	}
	paths, err := in.paths()
	if err != nil {
		return nil, err
	}
	problems := &traceProblems{err: s.err}
	done, end := progress(s, paths, what)
	defer end()
	return problems, trace.Read(ctx, paths, trace.ReadOptions{Ordered: ordered, Problem: problems.add, Progress: done}, func(r *trace.Row) error {
		if !filter.Match(r) {
			return nil
		}
		return row(r)
	})
}
