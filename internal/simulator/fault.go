package simulator

import (
	"fmt"
	"slices"
)

// Fault is a way in which the pipeline can be broken.
type Fault string

// The faults, and what each hits.
const (
	// KillReplica ends the process of the last replica of the first stage that has several (else of the last stage):
	// its requests fail, its series and, where it has its own server, its answers go. Cleared, it starts anew.
	KillReplica Fault = "kill-replica"
	// HangStage stops the loops of every engine of the second stage (or of the only one): gauges freeze, nothing is
	// received, clients give up.
	HangStage Fault = "hang-stage"
	// SlowEdge delays each chunk between the first replicas of the last two stages by about a second.
	SlowEdge Fault = "slow-edge"
	// SilentAudio lets the last replica of the last stage answer a third of its requests without audio.
	SilentAudio Fault = "silent-audio"
	// LoseFPM loses every fourth forward pass record of the last rank; the numbering shows the gap.
	LoseFPM Fault = "lose-fpm"
	// SaturateKV takes all KV-cache blocks of the first stage but what one large request needs: queueing, preemptions.
	SaturateKV Fault = "saturate-kv"
)

const (
	slowEdgeDelay    = 1.0 // seconds
	silentAudioShare = 1.0 / 3
	lostRecordEvery  = 4
)

// Faults lists every fault by name.
func Faults() []Fault {
	return []Fault{KillReplica, HangStage, SlowEdge, SilentAudio, LoseFPM, SaturateKV}
}

// SetFault breaks the pipeline, or mends it. It fails on a name that Faults does not list and on a fault that needs
// more stages than there are.
func (p *Pipeline) SetFault(f Fault, on bool) error {
	if !slices.Contains(Faults(), f) {
		return fmt.Errorf("unknown fault %q, known are %q", string(f), Faults())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if (f == SlowEdge || f == SilentAudio) && len(p.stages) < 2 {
		return fmt.Errorf("fault %q needs two stages, the pipeline has one", string(f))
	}
	if p.faults[f] == on {
		return nil
	}
	p.faults[f] = on
	switch f {
	case KillReplica:
		if e := p.victim(); on {
			e.kill()
		} else {
			e.revive()
		}
	case HangStage:
		for _, e := range p.stages[min(1, len(p.stages)-1)] {
			e.hang(on)
		}
	case SaturateKV:
		for _, e := range p.stages[0] {
			e.begin()
		}
	}
	return nil
}

func (p *Pipeline) victim() *engine {
	for _, replicas := range p.stages {
		if len(replicas) > 1 {
			return replicas[len(replicas)-1]
		}
	}
	return p.engines[len(p.engines)-1]
}

func (p *Pipeline) silentReplica() *engine { return p.engines[len(p.engines)-1] }

func (p *Pipeline) slowEdge(from, to *engine) bool {
	return to.stage == len(p.stages)-1 && from.replica == 0 && to.replica == 0
}
