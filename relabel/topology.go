package relabel

import (
	"strconv"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// Place is where an engine stands in a pipeline.
type Place struct {
	Stage   string
	Replica string
}

// Pool is one stage of a pipeline with its number of replicas, as vLLM-Omni's
// orchestrator knows it.
type Pool struct {
	Stage    string
	Replicas int
}

// Topology maps the flat `engine` label of a page to places. The zero value maps
// nothing.
type Topology struct {
	flat    []Place
	stage   string
	replica string
	ranks   int // engines of the target that are replicas of their own
	base    int // number of the first of them
}

// FlatTopology numbers the replicas of the stages in order, as vLLM-Omni does
// (metrics design, "OmniPrometheusStatLogger wrap"): pools of 1, 2 and 2
// replicas give 0->(0,0) 1->(1,0) 2->(1,1) 3->(2,0) 4->(2,1).
func FlatTopology(pools []Pool) Topology {
	var t Topology
	for _, p := range pools {
		for r := range p.Replicas {
			t.flat = append(t.flat, Place{Stage: p.Stage, Replica: strconv.Itoa(r)})
		}
	}
	return t
}

// TargetTopology is that of a server which is one replica of one stage: engine 0
// is the replica, engine i > 0 is `replica.i`. With dataParallelSize N > 1 and a
// number as replica R, engine i < N is replica R*N+i, so that numbering stays
// dense. Series without an engine label stand at the replica too.
func TargetTopology(stage, replica string, dataParallelSize int) Topology {
	t := Topology{stage: stage, replica: replica}
	if r, err := strconv.Atoi(replica); err == nil && dataParallelSize > 1 && r >= 0 {
		t.ranks, t.base = dataParallelSize, r*dataParallelSize
	}
	return t
}

// Place returns where the engine with this label value stands, and false for one
// that is outside the map. Only the decimal spelling that vLLM writes is a
// number: "01" and "+1" are not.
func (t *Topology) Place(engine []byte) (Place, bool) {
	i, ok := engineNumber(engine)
	if !ok {
		return Place{}, false
	}
	if t.stage == "" {
		if i >= len(t.flat) {
			return Place{}, false
		}
		return t.flat[i], true
	}
	switch {
	case t.ranks > 0 && i >= t.ranks:
		return Place{}, false
	case t.ranks > 0:
		return Place{Stage: t.stage, Replica: strconv.Itoa(t.base + i)}, true
	case i == 0:
		return Place{Stage: t.stage, Replica: t.replica}, true
	}
	return Place{Stage: t.stage, Replica: t.replica + "." + strconv.Itoa(i)}, true
}

// Own returns the place of the target itself, if it is one replica: that of its
// engine 0, where series stand that name no engine.
func (t *Topology) Own() (Place, bool) {
	if t.stage == "" {
		return Place{}, false
	}
	return t.Place([]byte("0"))
}

// maxEngineDigits keeps engine numbers within an int.
const maxEngineDigits = 9

func engineNumber(b []byte) (int, bool) {
	if len(b) == 0 || len(b) > maxEngineDigits || b[0] == '0' && len(b) > 1 {
		return 0, false
	}
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// labelBytes returns a value in the escaped form of exposition.Label.
func labelBytes(value string) []byte { return exposition.AppendLabelValue(nil, value) }
