// Command bench measures omni_exporter against other ways to do its work, all in
// one run, and prints what it measured as ratios. Absolute figures are of the
// machine at that moment; only ratios of one run say something elsewhere.
//
//	go run . [rewrite] [compression] [endtoend] [curve]
//
// Without an argument all run. `rewrite` times one page through each contender;
// `compression` what each level costs and saves; `endtoend` compares the processor time of the real exporter with that
// of a proxy that only fetches and concatenates; `curve` shows how cost grows with
// the number of targets.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// The roles that this program plays for its own measurements, each in a process of
// its own.
const (
	roleUpstreams = "serve-upstreams"
	roleConcat    = "serve-concatenated"
)

func run() error {
	rounds := flag.Int("rounds", 7, "rounds of each measurement, of which the median counts")
	slot := flag.Duration("slot", 100*time.Millisecond, "time of one round of one contender")
	scrapes := flag.Int("scrapes", 200, "scrapes of each proxy, end to end")
	targets := flag.Int("targets", 64, "upstreams, end to end")
	most := flag.Int("most", 1000, "upstreams at the end of the curve")
	flag.Parse()
	if args := flag.Args(); len(args) > 0 {
		switch args[0] {
		case roleUpstreams:
			return serveUpstreams(args[1:])
		case roleConcat:
			return serveConcatenated(args[1:])
		}
	}
	wanted := func(name string) bool { return flag.NArg() == 0 || slices.Contains(flag.Args(), name) }
	printMachine()
	if wanted("rewrite") {
		if err := rewriteTables(options{rounds: *rounds, slot: *slot}); err != nil {
			return err
		}
	}
	if wanted("compression") {
		if err := compressionTable(options{rounds: *rounds, slot: *slot}); err != nil {
			return err
		}
	}
	if wanted("endtoend") {
		if err := endToEnd(*targets, *scrapes); err != nil {
			return err
		}
	}
	if wanted("curve") {
		return curve(*most)
	}
	return nil
}
