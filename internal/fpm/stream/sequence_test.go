package stream

import (
	"math"
	"testing"
)

func TestSequence(t *testing.T) {
	type in struct {
		seq         uint64
		worker      string
		payload     string
		reconnected bool
	}
	for _, tc := range []struct {
		name string
		ins  []in
		want step // of the last
	}{
		{"first number is no gap", []in{{seq: 4711}}, step{}},
		{"in order", []in{{seq: 1}, {seq: 2}}, step{}},
		{"gap of one", []in{{seq: 1}, {seq: 3}}, step{lost: 1}},
		{"gap across a reconnect", []in{{seq: 1}, {seq: 11, reconnected: true}}, step{lost: 9}},
		{"next across a reconnect", []in{{seq: 1}, {seq: 2, reconnected: true}}, step{}},
		{"back to zero", []in{{seq: 500}, {seq: 0}}, step{restarted: true}},
		{"back by one", []in{{seq: 500}, {seq: 499}}, step{restarted: true}},
		{"counts on after a restart", []in{{seq: 500}, {seq: 3}, {seq: 5}}, step{lost: 1}},
		{"same message again", []in{{seq: 5, payload: "a"}, {seq: 5, payload: "a"}}, step{duplicate: true}},
		{"same number, other message", []in{{seq: 0, payload: "a"}, {seq: 0, payload: "b"}}, step{restarted: true}},
		{"same message over a new connection", []in{{seq: 0, payload: "a"}, {seq: 0, payload: "a", reconnected: true}}, step{restarted: true}},
		{"after a duplicate", []in{{seq: 5, payload: "a"}, {seq: 5, payload: "a"}, {seq: 6, payload: "b"}}, step{}},
		{"another worker further on", []in{{seq: 5, worker: "a"}, {seq: 50, worker: "b"}}, step{restarted: true}},
		{"no worker id is no other worker", []in{{seq: 5, worker: "a"}, {seq: 6}, {seq: 7, worker: "a"}}, step{}},
		{"last number of all", []in{{seq: math.MaxUint64 - 1}, {seq: math.MaxUint64}}, step{}},
		{"wraps", []in{{seq: math.MaxUint64}, {seq: 0}}, step{restarted: true}},
		{"largest gap", []in{{seq: 0}, {seq: maxGap}}, step{lost: maxGap - 1}},
		{"jump beyond belief", []in{{seq: 0}, {seq: math.MaxUint64}}, step{restarted: true}},
	} {
		var (
			s   sequence
			got step
		)
		for _, i := range tc.ins {
			if i.reconnected {
				s.reconnected()
			}
			got = s.next(i.seq, i.worker, []byte(i.payload))
		}
		if got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}
