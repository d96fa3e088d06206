package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// options say how long to measure.
type options struct {
	rounds int           // of which the median counts
	slot   time.Duration // of one contender in one round
}

// measured is the median of a contender's rounds.
type measured struct {
	nanoseconds float64 // for one page
	allocations int64
}

// rewriteTables prints, for each kind of page, how long each contender takes.
func rewriteTables(o options) error {
	for _, engines := range []int{1, 4, 8} {
		page, err := enginePage(engines)
		if err != nil {
			return err
		}
		for _, percent := range []int{0, 10, 100} {
			pages := [2][]byte{page, changed(page, percent, 1)}
			title := fmt.Sprintf("%d engines, %d bytes, %d %% of the lines changed", engines, len(page), percent)
			if err := rewriteTable(title, engines, pages, percent == 100, o); err != nil {
				return err
			}
		}
		pages := [2][]byte{page, shuffled(page, 2)}
		if err := rewriteTable(fmt.Sprintf("%d engines, %d bytes, lines in another order", engines, len(page)), engines, pages, false, o); err != nil {
			return err
		}
	}
	return nil
}

// rewriteTable times all contenders, or only those whose time depends on what
// changed since the last page.
func rewriteTable(title string, engines int, pages [2][]byte, all bool, o options) error {
	warm := oursWarm(engines)
	list := []contender{warm}
	if all {
		prometheus, err := prometheusParse(engines)
		if err != nil {
			return err
		}
		victoria, err := victoriaRelabel(engines)
		if err != nil {
			return err
		}
		list = append(list, oursCold(engines), expfmtRoundTrip(), prometheus, victoriaParse(), victoria)
	}
	list = append(list, floors()...)
	results, err := compare(list, pages, o)
	if err != nil {
		return err
	}
	base := results[0].nanoseconds
	copying := results[len(results)-1].nanoseconds
	t := table.NewWriter()
	t.SetOutputMirror(os.Stdout)
	t.SetTitle("%s", title)
	t.AppendHeader(table.Row{"", "times ours, later page", "times memcpy", "MB/s", "ns/line", "allocations a page"})
	lines := float64(lineCount(pages[0]))
	for i, r := range results {
		t.AppendRow(table.Row{
			list[i].name, fmt.Sprintf("%.2f", r.nanoseconds/base), fmt.Sprintf("%.1f", r.nanoseconds/copying),
			fmt.Sprintf("%.0f", float64(len(pages[0]))/r.nanoseconds*1e3), fmt.Sprintf("%.1f", r.nanoseconds/lines), r.allocations,
		})
	}
	t.Render()
	fmt.Println()
	return nil
}

// compare times the contenders in turn, round after round, so that all of them
// meet the machine in the same moods.
func compare(list []contender, pages [2][]byte, o options) ([]measured, error) {
	times := make([][]float64, len(list))
	out := make([]measured, len(list))
	for range o.rounds {
		for i, c := range list {
			m, err := measure(c, pages, o.slot)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			times[i] = append(times[i], m.nanoseconds)
			out[i].allocations = m.allocations
		}
	}
	for i := range out {
		slices.SortFunc(times[i], cmp.Compare[float64])
		out[i].nanoseconds = times[i][len(times[i])/2]
	}
	return out, nil
}

// measure runs a contender for about the slot and returns the processor time that
// a page took, collection of garbage included: unlike the time on the wall, it does
// not grow when the machine has other work.
func measure(c contender, pages [2][]byte, slot time.Duration) (measured, error) {
	// A target keeps the page that it was given, so pages must be its own.
	own := [2][]byte{slices.Clone(pages[0]), slices.Clone(pages[1])}
	for _, page := range own {
		if err := c.do(page); err != nil {
			return measured{}, err
		}
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start, n := processorTime(), 0
	for deadline := time.Now().Add(slot); time.Now().Before(deadline); {
		for range 16 {
			if err := c.do(own[n%2]); err != nil {
				return measured{}, err
			}
			n++
		}
	}
	spent := processorTime() - start
	runtime.ReadMemStats(&after)
	return measured{
		nanoseconds: float64(spent.Nanoseconds()) / float64(n),
		allocations: int64(after.Mallocs-before.Mallocs) / int64(n),
	}, nil
}

// processorTime returns what this process has used so far.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func lineCount(page []byte) int {
	n := 0
	for _, c := range page {
		if c == '\n' {
			n++
		}
	}
	return n
}
