package trace

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// ReadOptions configure Read.
type ReadOptions struct {
	// Ordered merges the series by the time at which records were observed. Otherwise rows are in order within a
	// series only.
	Ordered bool
	// Totals counts what was read; nil for nobody.
	Totals *Totals
	// Problem is told of each part of a file and each row that could not be read, from several goroutines. It may be nil.
	Problem func(Problem)
	// Progress is told of compressed bytes that are done with, from several goroutines. It may be nil.
	Progress func(n int64)
}

// Problem is a row, or a part of a file, that could not be read.
type Problem struct {
	Path string
	// Offset is where in the file the gzip member begins that holds it, in bytes.
	Offset int64
	// Line is the number of the row within the member, from 1; 0 when there is no row.
	Line int
	Err  error
}

// String returns the problem with its place.
func (p Problem) String() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: gzip member at byte %d: %v", p.Path, p.Offset, p.Err)
	}
	return fmt.Sprintf("%s: gzip member at byte %d, line %d: %v", p.Path, p.Offset, p.Line, p.Err)
}

// batchRows is how many rows are handed from goroutine to goroutine at a time.
const batchRows = 256

// Read hands all rows of trace files that are done to row, from one goroutine, a row being valid during the call. Files
// of one producer are read in order of their segments, several at a time where there are several producers. It returns
// the first error of row, or that of ctx. What cannot be read is told to Problem and never stops the rest.
func Read(ctx context.Context, paths []string, o ReadOptions, row func(*Row) error) error {
	if o.Totals == nil {
		o.Totals = NewTotals()
	}
	if o.Problem == nil {
		o.Problem = func(Problem) {}
	}
	if o.Progress == nil {
		o.Progress = func(int64) {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	series := group(paths)
	if o.Ordered && len(series) > 1 {
		return merge(ctx, &wg, series, o, row)
	}
	return unordered(ctx, &wg, series, o, row)
}

// group returns the paths by series, each in order of segments and once.
func group(paths []string) [][]string {
	paths = slices.Clone(paths)
	slices.Sort(paths)
	paths = slices.Compact(paths)
	slices.SortStableFunc(paths, func(a, b string) int { return placeOf(a).compare(placeOf(b)) })
	var series [][]string
	for i, path := range paths {
		if i == 0 || placeOf(path).series != placeOf(paths[i-1]).series {
			series = append(series, nil)
		}
		series[len(series)-1] = append(series[len(series)-1], path)
	}
	return series
}

// unordered reads as many series at a time as there are processors.
func unordered(ctx context.Context, wg *sync.WaitGroup, series [][]string, o ReadOptions, row func(*Row) error) error {
	out, next, pool := make(chan batch, 2), make(chan []string), &pool{}
	var readers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(series)) {
		readers.Go(func() {
			s := newSeriesReader(o, pool)
			for paths := range next {
				s.read(ctx, paths, out)
			}
		})
	}
	wg.Go(func() {
		defer close(next)
		for _, paths := range series {
			select {
			case next <- paths:
			case <-ctx.Done():
				return
			}
		}
	})
	wg.Go(func() {
		readers.Wait()
		close(out)
	})
	for b := range out {
		for i := range b.rows {
			if err := row(&b.rows[i]); err != nil {
				return err
			}
		}
		pool.release(b)
	}
	return ctx.Err()
}
