package demo

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/simulator"
)

// publishers publish the forward passes of an engine's ranks, in order of ranks.
type publishers []*publisher

// newPublishers returns one publisher for each rank. Real ranks are on ports that
// follow each other; here each takes the next free one, so that the demo runs
// anywhere.
func newPublishers(ctx context.Context, ranks int, logger *slog.Logger) (publishers, error) {
	var all publishers
	for range ranks {
		p, err := newPublisher(ctx, logger)
		if err != nil {
			all.close()
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func (all publishers) close() {
	for _, p := range all {
		p.close()
	}
}

// addresses returns where the ranks publish.
func (all publishers) addresses() []string {
	var out []string
	for _, p := range all {
		out = append(out, p.address())
	}
	return out
}

// subscribeTimeout is how long the demo waits for its own exporter.
const subscribeTimeout = 10 * time.Second

// awaitSubscribers returns when each rank has a subscriber: what is published
// before is lost.
func (all publishers) awaitSubscribers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, subscribeTimeout)
	defer cancel()
	for _, p := range all {
		select {
		case <-p.subscribed:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				p.logger.Warn("nobody subscribed to a rank's forward passes", "endpoint", p.address())
			}
			return
		}
	}
}

// publish sends a record in the three frames of Dynamo's FPM reference: an empty
// topic, the sequence number and the record.
func (all publishers) publish(pass simulator.ForwardPass) {
	p, r := all[pass.DPRank], record(&pass)
	payload, err := r.AppendMsgpack(nil)
	if err != nil {
		p.logger.Warn("forward pass not published", "err", err)
		return
	}
	p.send(nil, binary.BigEndian.AppendUint64(nil, pass.Sequence), payload)
}

func record(pass *simulator.ForwardPass) fpm.Record {
	s, q := &pass.Scheduled, &pass.Queued
	return fpm.Record{
		Version: uint64(pass.Version), WorkerID: pass.WorkerID, DPRank: uint64(pass.DPRank),
		CounterID: pass.CounterID, WallTime: pass.WallTime,
		Scheduled: fpm.Scheduled{
			NumPrefillRequests: uint64(s.NumPrefillRequests), SumPrefillTokens: uint64(s.SumPrefillTokens),
			VarPrefillLength: s.VarPrefillLength, SumPrefillKVTokens: uint64(s.SumPrefillKVTokens),
			NumDecodeRequests: uint64(s.NumDecodeRequests), SumDecodeKVTokens: uint64(s.SumDecodeKVTokens),
			VarDecodeKVTokens: s.VarDecodeKVTokens,
		},
		Queued: fpm.Queued{
			NumPrefillRequests: uint64(q.NumPrefillRequests), SumPrefillTokens: uint64(q.SumPrefillTokens),
			VarPrefillLength:  q.VarPrefillLength,
			NumDecodeRequests: uint64(q.NumDecodeRequests), SumDecodeKVTokens: uint64(q.SumDecodeKVTokens),
			VarDecodeKVTokens: q.VarDecodeKVTokens,
		},
	}
}
