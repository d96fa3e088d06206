package trace

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"
)

// merge hands on the rows of several series in order of time. A series is opened when its time has come.
func merge(ctx context.Context, wg *sync.WaitGroup, series [][]string, o ReadOptions, row func(*Row) error) error {
	m := &merger{o: o, pool: &pool{}}
	first := newSeriesReader(o, m.pool)
	for i, paths := range series {
		h := &head{paths: paths, order: i}
		if r, ok := first.firstRow(paths); ok {
			h.at = r.Observed
		}
		m.waiting = append(m.waiting, h)
	}
	slices.SortStableFunc(m.waiting, func(a, b *head) int { return a.at.Compare(b.at) })
	for {
		m.start(ctx, wg)
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(m.open) == 0 {
			return nil
		}
		h := m.open[0]
		if err := row(&h.batch.rows[h.next]); err != nil {
			return err
		}
		h.next++
		if h.more(m.pool) {
			heap.Fix(&m.open, 0)
		} else {
			heap.Pop(&m.open)
		}
	}
}

type merger struct {
	o       ReadOptions
	pool    *pool
	waiting []*head // by time
	open    heads
}

// start opens the series that begin before the earliest row at hand.
func (m *merger) start(ctx context.Context, wg *sync.WaitGroup) {
	for len(m.waiting) > 0 && (len(m.open) == 0 || !m.waiting[0].at.After(m.open[0].at)) {
		h := m.waiting[0]
		m.waiting = m.waiting[1:]
		rows := make(chan batch, 1)
		h.rows = rows
		wg.Go(func() {
			defer close(rows)
			newSeriesReader(m.o, m.pool).read(ctx, h.paths, rows)
		})
		if h.more(m.pool) {
			heap.Push(&m.open, h)
		}
	}
}

// head is the next row of a series.
type head struct {
	paths []string
	order int
	at    time.Time
	rows  <-chan batch
	batch batch
	next  int
}

// more moves to the next row and reports whether there is one.
func (h *head) more(p *pool) bool {
	for h.next == len(h.batch.rows) {
		if h.batch.rows != nil {
			p.release(h.batch)
		}
		var ok bool
		if h.batch, ok = <-h.rows; !ok {
			return false
		}
		h.next = 0
	}
	h.at = h.batch.rows[h.next].Observed
	return true
}

// heads is a heap of open series, the earliest first.
type heads []*head

func (h heads) Len() int { return len(h) }

func (h heads) Less(i, j int) bool {
	return cmp.Or(h[i].at.Compare(h[j].at), cmp.Compare(h[i].order, h[j].order)) < 0
}

func (h heads) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *heads) Push(x any) { *h = append(*h, x.(*head)) }

// Pop implements heap.Interface.
func (h *heads) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
