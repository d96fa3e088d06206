// Package replay publishes the rows of traces as the engines did that they come from, on PUB sockets.
package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
)

// Rank is one publisher of a replay: all rows of one worker's rank.
type Rank struct {
	WorkerID string
	DPRank   uint64
	// Sampled: there are only sampled rows. They are numbered anew, since what sampling left out was not lost.
	Sampled bool
	Rows    uint64
	// Address is the host:port that it publishes on.
	Address string
}

// Plan is what traces hold, as far as a replay is concerned.
type Plan struct {
	Ranks       []Rank // by worker and rank
	First, Last time.Time
	Rows        uint64
}

type key struct {
	worker string
	rank   uint64
}

// maxRanks bounds the sockets of a replay.
const maxRanks = 1024

// Look reads the traces once and plans their replay: workers follow each other from port on, a worker's ranks are on
// ports from its first one on, as Dynamo has them. Port 0 lets the system choose for each.
func Look(ctx context.Context, paths []string, host string, port int, filter trace.Filter, o trace.ReadOptions) (*Plan, error) {
	plan, ranks := &Plan{}, make(map[key]*Rank)
	err := trace.Read(ctx, paths, o, func(row *trace.Row) error {
		if !filter.Match(row) {
			return nil
		}
		k := key{row.Record.WorkerID, row.Record.DPRank}
		r := ranks[k]
		if r == nil {
			if len(ranks) == maxRanks {
				return fmt.Errorf("more than %d ranks: choose some by --worker or --rank", maxRanks)
			}
			r = &Rank{WorkerID: k.worker, DPRank: k.rank, Sampled: true}
			ranks[k] = r
		}
		r.Rows++
		r.Sampled = r.Sampled && row.Capture == fpm.CaptureSampled
		if plan.Rows == 0 || row.Observed.Before(plan.First) {
			plan.First = row.Observed
		}
		if row.Observed.After(plan.Last) {
			plan.Last = row.Observed
		}
		plan.Rows++
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, r := range ranks {
		plan.Ranks = append(plan.Ranks, *r)
	}
	slices.SortFunc(plan.Ranks, func(a, b Rank) int {
		return cmp.Or(cmp.Compare(a.WorkerID, b.WorkerID), cmp.Compare(a.DPRank, b.DPRank))
	})
	return plan, plan.assign(host, port)
}

// assign gives each rank its address.
func (p *Plan) assign(host string, port int) error {
	first := port
	for i := range p.Ranks {
		r := &p.Ranks[i]
		if i > 0 && r.WorkerID != p.Ranks[i-1].WorkerID {
			first += int(p.Ranks[i-1].DPRank) + 1
		}
		at := first + int(r.DPRank)
		if port == 0 {
			at = 0
		}
		if at > math.MaxUint16 {
			return fmt.Errorf("no port for worker %q, rank %d: choose a lower --port, or fewer workers", r.WorkerID, r.DPRank)
		}
		r.Address = net.JoinHostPort(host, strconv.Itoa(at))
	}
	return nil
}

// Replay is a replay whose publishers listen.
type Replay struct {
	plan       *Plan
	publishers map[key]*publisher
	order      []*publisher // as plan.Ranks
}

type publisher struct {
	*Publisher
	sampled bool
	next    uint64 // number of the next sampled row
}

// Start makes all publishers listen.
func (p *Plan) Start(ctx context.Context, log *slog.Logger) (*Replay, error) {
	r := &Replay{plan: p, publishers: make(map[key]*publisher)}
	for i := range p.Ranks {
		rank := &p.Ranks[i]
		socket, err := Listen(ctx, rank.Address, log)
		if err != nil {
			r.Close()
			return nil, err
		}
		one := &publisher{Publisher: socket, sampled: rank.Sampled}
		r.publishers[key{rank.WorkerID, rank.DPRank}] = one
		r.order = append(r.order, one)
	}
	return r, nil
}

// Endpoints returns where the ranks publish, in the order of the plan.
func (r *Replay) Endpoints() []string {
	var out []string
	for _, p := range r.order {
		out = append(out, p.Endpoint())
	}
	return out
}

// Dropped counts messages that subscribers were too slow for.
func (r *Replay) Dropped() (n uint64) {
	for _, p := range r.order {
		n += p.Dropped()
	}
	return n
}

// AwaitSubscribers returns when each rank has a subscriber, or after limit. It reports how many have none.
func (r *Replay) AwaitSubscribers(ctx context.Context, limit time.Duration) (without int) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, p := range r.order {
		select {
		case <-p.Subscribed():
		case <-ctx.Done():
			select {
			case <-p.Subscribed():
			default:
				without++
			}
		}
	}
	return without
}

// Run publishes the rows of the traces at speed times the pace they were observed at. Rows of full traces keep their
// numbers, so that what was lost then is missing now. Where a rank has rows of both modes the sampled ones are left
// out. published is told of each row; it may be nil.
func (r *Replay) Run(ctx context.Context, paths []string, speed float64, filter trace.Filter, published func()) error {
	if !(speed > 0) || math.IsInf(speed, 0) {
		return errors.New("the speed must be more than 0")
	}
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	return trace.Read(ctx, paths, trace.ReadOptions{Ordered: true}, func(row *trace.Row) error {
		if !filter.Match(row) {
			return nil
		}
		p := r.publishers[key{row.Record.WorkerID, row.Record.DPRank}]
		if p == nil || !p.sampled && row.Capture == fpm.CaptureSampled {
			return nil
		}
		due := start.Add(time.Duration(float64(row.Observed.Sub(r.plan.First)) / speed))
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		record := row.Record
		if p.sampled {
			record.CounterID = p.next
			p.next++
		}
		if err := p.Send(&record, record.CounterID); err != nil {
			return err
		}
		if published != nil {
			published()
		}
		return nil
	})
}

// closeTimeout is how long the end waits for slow subscribers.
const closeTimeout = 5 * time.Second

// Close sends what waits and ends all publishers.
func (r *Replay) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, p := range r.order {
		p.Close(ctx)
	}
}
