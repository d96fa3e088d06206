package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kingpin/v2"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/scrape"
	"github.com/omni-exporter/omni_exporter/relabel"
)

// ruleFlags say by which target's rules a page is rewritten.
type ruleFlags struct {
	configFile, target, pipeline string
}

func addRuleFlags(cmd *kingpin.CmdClause) *ruleFlags {
	f := &ruleFlags{}
	cmd.Flag("config.file", "Configuration that describes the target.").StringVar(&f.configFile)
	cmd.Flag("target", "host:port of the target, as the configuration has it after relabeling. Needed if it has several.").StringVar(&f.target)
	cmd.Flag("pipeline", "Name of the target's pipeline. Needed if several pipelines have the target.").StringVar(&f.pipeline)
	return f
}

// check returns what is wrong with the flags by themselves.
func (f *ruleFlags) check() error {
	if f.configFile == "" && (f.target != "" || f.pipeline != "") {
		return &usageError{"--target and --pipeline are looked up in a configuration: add --config.file"}
	}
	return nil
}

// targetRules are the rules of one target.
type targetRules struct {
	rules *relabel.Rules
	own   bool // the target is one replica of a stage: the flat map does not apply
}

// load returns the rules of the target that the flags name.
func (f *ruleFlags) load() (targetRules, error) {
	c, err := config.Load(f.configFile)
	if err != nil {
		return targetRules{}, err
	}
	r, err := f.choose(c)
	if err != nil {
		return targetRules{}, fmt.Errorf("%s: %w", f.configFile, err)
	}
	return r, nil
}

// choose returns the rules of the target of a configuration that the flags name.
func (f *ruleFlags) choose(c *config.Config) (targetRules, error) {
	pool, err := scrape.NewPool(c, scrape.PoolOptions{})
	if err != nil {
		return targetRules{}, fmt.Errorf("targets: %w", err)
	}
	defer pool.Close()
	var found []*scrape.Target
	for _, t := range pool.Targets() {
		if (f.target == "" || t.Address() == f.target) && (f.pipeline == "" || t.Pipeline() == f.pipeline) {
			found = append(found, t)
		}
	}
	switch {
	case len(found) == 1:
		return targetRules{rules: found[0].Rules(), own: found[0].Stage() != ""}, nil
	case len(found) > 1 && f.target != "":
		return targetRules{}, fmt.Errorf("target %q is in several pipelines: choose one with --pipeline; they are %s", f.target, listed(found, (*scrape.Target).Pipeline))
	case len(found) > 1:
		return targetRules{}, fmt.Errorf("%d targets: choose one with --target; they are %s", len(found), listed(found, (*scrape.Target).Address))
	case len(pool.Targets()) == 0:
		return targetRules{}, fmt.Errorf("no targets: add upstreams to a pipeline, or use another file")
	}
	return targetRules{}, fmt.Errorf("no target %s: those of the configuration are %s", f.named(), listed(pool.Targets(), (*scrape.Target).Address))
}

// named returns the target that was asked for, for an error.
func (f *ruleFlags) named() string {
	if f.pipeline == "" {
		return fmt.Sprintf("%q", f.target)
	}
	return fmt.Sprintf("%q in pipeline %q", f.target, f.pipeline)
}

// listed names targets, but not endlessly many.
func listed(targets []*scrape.Target, name func(*scrape.Target) string) string {
	const most = 10
	var names []string
	for i, t := range targets {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(targets)-most))
			break
		}
		names = append(names, fmt.Sprintf("%q", name(t)))
	}
	return strings.Join(names, ", ")
}
