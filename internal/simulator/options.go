package simulator

import (
	"errors"
	"fmt"
	"time"
)

// Layout says which server shows which engine, and under which engine label.
type Layout int

const (
	// Shared is one server with every engine, labelled by flat index, as a vLLM-Omni process has it.
	Shared Layout = iota
	// PerEngine is one server per engine, each of which calls its engine "0".
	PerEngine
	// PerEngineGlobalIndex is one server per engine that labels it with its flat index, as vLLM does under external
	// data-parallel load balancing.
	PerEngineGlobalIndex
)

// Stage is one pool of replicas. The first stage generates text, the last of several turns codec tokens into audio, and
// those between generate codec tokens.
type Stage struct {
	Name     string
	Replicas int
	// MaxNumSeqs is the number of requests that an engine batches at once; 0 takes the default of the stage's kind.
	MaxNumSeqs int
	// KVBlocks is the number of KV-cache blocks of 16 tokens; 0 takes the default of the stage's kind.
	KVBlocks int
}

// Options describe a pipeline. The zero value is a pipeline of five engines under moderate traffic.
type Options struct {
	Seed     uint64 // two pipelines of one seed that are stepped alike have the same history
	Model    string // model_name of every series and event
	Pipeline string // pipeline of every event; left out when empty
	Stages   []Stage
	Layout   Layout
	// OpenMetrics lists the servers, by number, that speak only OpenMetrics 1.0, as vLLM's Rust front end does.
	OpenMetrics []int
	// Listen holds one address per server; the missing ones are 127.0.0.1:0.
	Listen []string

	ArrivalRate float64       // requests per second on average over a wave
	WavePeriod  time.Duration // of the sinusoid that the load follows
	TextShare   float64       // share of requests that want no audio and end in the first stage; negative for none
	TimeScale   float64       // simulated seconds per real second in Run
	Start       time.Time     // wall clock at simulated time zero
	Ranks       int           // data-parallel ranks of each engine of the first stage, in forward pass records only

	// Events takes what happened, in order, after each slice of simulated time.
	Events func([]Event)
	// ForwardPasses takes each forward pass record of the first stage, in order.
	ForwardPasses func(ForwardPass)
}

// Limits of Options, so that a typing error does not fill the machine.
const (
	maxEngines     = 256
	maxRanks       = 64
	maxArrivalRate = 10000
	maxTimeScale   = 1000
	// minKVBlocks holds the largest request that the load has (promptMax + outputMax tokens) with a little to spare.
	minKVBlocks = 52
)

// Sizes of a stage whose options leave them open.
const (
	textSeqs, textKVBlocks   = 22, 580
	codecSeqs, codecKVBlocks = 32, 1200
	audioSeqs, audioKVBlocks = 64, 512
)

func (o Options) withDefaults() Options {
	if o.Model == "" {
		o.Model = "Qwen/Qwen3-Omni-30B-A3B-Instruct"
	}
	if len(o.Stages) == 0 {
		o.Stages = []Stage{{Name: "thinker", Replicas: 1}, {Name: "talker", Replicas: 2}, {Name: "code2wav", Replicas: 2}}
	}
	o.Stages = append([]Stage(nil), o.Stages...)
	for i := range o.Stages {
		s := &o.Stages[i]
		seqs, blocks := codecSeqs, codecKVBlocks
		switch {
		case i == 0:
			seqs, blocks = textSeqs, textKVBlocks
		case i == len(o.Stages)-1:
			seqs, blocks = audioSeqs, audioKVBlocks
		}
		s.Replicas = orDefault(s.Replicas, 1)
		s.MaxNumSeqs = orDefault(s.MaxNumSeqs, seqs)
		s.KVBlocks = orDefault(s.KVBlocks, blocks)
	}
	o.ArrivalRate = orDefault(o.ArrivalRate, 6)
	o.WavePeriod = orDefault(o.WavePeriod, 4*time.Minute)
	o.TextShare = max(orDefault(o.TextShare, 0.25), 0)
	o.TimeScale = orDefault(o.TimeScale, 1)
	o.Ranks = orDefault(o.Ranks, 2)
	if o.Start.IsZero() {
		o.Start = time.Now()
	}
	return o
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

func (o Options) validate() error {
	engines := 0
	for i, s := range o.Stages {
		if s.Replicas < 1 || s.MaxNumSeqs < 1 {
			return fmt.Errorf("stage %d (%q): replicas and seats must be positive", i, s.Name)
		}
		if s.KVBlocks < minKVBlocks {
			return fmt.Errorf("stage %d (%q): %d KV blocks cannot hold one request, give at least %d", i, s.Name, s.KVBlocks, minKVBlocks)
		}
		engines += s.Replicas
	}
	if engines > maxEngines {
		return fmt.Errorf("%d engines are more than %d", engines, maxEngines)
	}
	if !(o.ArrivalRate > 0 && o.ArrivalRate <= maxArrivalRate) {
		return fmt.Errorf("arrival rate %v is not in (0, %d]", o.ArrivalRate, maxArrivalRate)
	}
	if !(o.TimeScale > 0 && o.TimeScale <= maxTimeScale) {
		return fmt.Errorf("time scale %v is not in (0, %d]", o.TimeScale, maxTimeScale)
	}
	if !(o.TextShare <= 1) {
		return fmt.Errorf("text share %v is more than 1", o.TextShare)
	}
	if o.WavePeriod < time.Second {
		return errors.New("wave period is shorter than a second")
	}
	if o.Ranks < 1 || o.Ranks > maxRanks {
		return fmt.Errorf("%d ranks are not in 1..%d", o.Ranks, maxRanks)
	}
	servers := o.servers(engines)
	for _, n := range o.OpenMetrics {
		if n < 0 || n >= servers {
			return fmt.Errorf("server %d is to speak OpenMetrics, but there are only %d servers", n, servers)
		}
	}
	if len(o.Listen) > servers {
		return fmt.Errorf("%d listen addresses for %d servers", len(o.Listen), servers)
	}
	return nil
}

func (o Options) servers(engines int) int {
	if o.Layout == Shared {
		return 1
	}
	return engines
}
