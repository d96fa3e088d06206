package config

import (
	"slices"
	"strconv"
	"strings"
)

// FlagConfig holds the flags that stand in for a configuration file.
type FlagConfig struct {
	// Upstreams are the values of --upstream, each "host:port".
	Upstreams []string
	// Stages is the value of --stages: the replicas of each stage in order, such as "1,2,2". Empty is one stage of one replica.
	Stages string
	// FPM are the values of --fpm, each "tcp://host:port" or "ipc:///path".
	FPM []string
}

// FromFlags returns the configuration that flags describe: one unnamed pipeline whose stages have no names, if there are
// upstreams or stages, and one stream for each publisher. The error joins one [Error] for each fault, whose Source is the
// flag.
func FromFlags(flags FlagConfig) (*Config, error) {
	r := &report{hidePath: true, locate: func(path string) (string, int) {
		switch {
		case strings.HasPrefix(path, "forward_pass_metrics"):
			return "--fpm", 0
		case strings.Contains(path, "upstreams"):
			return "--upstream", 0
		default:
			return "--stages", 0
		}
	}}
	c := DefaultConfig()
	if len(flags.Upstreams) > 0 || flags.Stages != "" {
		p := DefaultPipeline()
		p.Stages = stagesFromFlag(r, flags)
		if len(flags.Upstreams) > 0 {
			u := DefaultUpstream()
			u.StaticConfigs = []StaticConfig{{Targets: slices.Clone(flags.Upstreams)}}
			p.Upstreams = []Upstream{u}
		}
		c.Pipelines = []Pipeline{p}
	}
	for _, endpoint := range flags.FPM {
		s := DefaultStream()
		s.StaticConfigs = []StaticConfig{{Targets: []string{endpoint}}}
		c.ForwardPassMetrics.Streams = append(c.ForwardPassMetrics.Streams, s)
	}
	c.validate(r)
	if err := r.err(); err != nil {
		return nil, err
	}
	return &c, nil
}

// stagesFromFlag reads --stages. A part that is no number is reported and counts as one replica, so that the rest is checked.
func stagesFromFlag(r *report, flags FlagConfig) []Stage {
	const stagesPath = "pipelines[0].stages"
	if strings.TrimSpace(flags.Stages) == "" {
		if len(flags.Upstreams) > 1 {
			r.add(stagesPath, "required when there is more than one --upstream: write the replicas of each stage in order, such as --stages=1,2,2")
		}
		return []Stage{DefaultStage()}
	}
	var stages []Stage
	for part := range strings.SplitSeq(flags.Stages, ",") {
		s := DefaultStage()
		if n, err := strconv.Atoi(strings.TrimSpace(part)); err == nil {
			s.Replicas = n
		} else {
			r.add(stagesPath, "%s is no whole number: write the replicas of each stage in order, such as --stages=1,2,2", quote(part))
		}
		stages = append(stages, s)
	}
	return stages
}
