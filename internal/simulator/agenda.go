package simulator

import (
	"container/heap"
	"time"
)

// occurrence is something that will happen at a point of simulated time, counted from the pipeline's start.
type occurrence struct {
	at  time.Duration
	seq uint64 // breaks ties in the order of planning, which keeps a run reproducible
	run func()
}

// agenda is the heap of what is still to happen.
type agenda []occurrence

func (a agenda) Len() int      { return len(a) }
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a agenda) Less(i, j int) bool {
	if a[i].at != a[j].at {
		return a[i].at < a[j].at
	}
	return a[i].seq < a[j].seq
}
func (a *agenda) Push(x any) { *a = append(*a, x.(occurrence)) }
func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	old[len(old)-1] = occurrence{} // lets the closure be collected
	*a = old[:len(old)-1]
	return last
}

// after plans run for a delay from now; a negative delay means now.
func (p *Pipeline) after(delay time.Duration, run func()) {
	p.planned++
	heap.Push(&p.agenda, occurrence{at: p.now + max(delay, 0), seq: p.planned, run: run})
}

// advance lets everything up to the given time happen.
func (p *Pipeline) advance(to time.Duration) {
	for len(p.agenda) > 0 && p.agenda[0].at <= to {
		next := heap.Pop(&p.agenda).(occurrence)
		p.now = next.at
		next.run()
	}
	p.now = to
}

// seconds turns a float number of seconds into a duration.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
