package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/schollz/progressbar/v3"

	"github.com/omni-exporter/omni_exporter/internal/fpm/replay"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
)

// replayFlags are the flags of fpm replay.
type replayFlags struct {
	in      *traceInput
	address string
	speed   float64
	wait    time.Duration
}

func addFPMReplay(parent *kingpin.CmdClause, all commands) {
	cmd := parent.Command("replay", "Publish the rows of forward-pass traces on PUB sockets as the engines did, one for each rank.")
	f := &replayFlags{in: traceFlags(cmd)}
	cmd.Flag("listen-address", "host:port of the first rank; others follow on the ports after it. Port 0 lets the system choose.").Default("127.0.0.1:20380").StringVar(&f.address)
	cmd.Flag("speed", "How many times as fast as it was observed.").Default("1").Float64Var(&f.speed)
	cmd.Flag("wait", "How long to wait at most for a subscriber to each rank. What is published before is lost to it.").Default("10s").DurationVar(&f.wait)
	all[cmd.FullCommand()] = f.run
}

func (f *replayFlags) run(ctx context.Context, s streams) error {
	host, portText, err := net.SplitHostPort(f.address)
	port, portErr := strconv.ParseUint(portText, 10, 16)
	if err = errors.Join(err, portErr); err != nil {
		return &usageError{fmt.Sprintf("--listen-address: %v", err)}
	}
	if !(f.speed > 0) {
		return &usageError{"--speed must be more than 0"}
	}
	filter, err := f.in.filter(time.Now())
	if err != nil {
		return err
	}
	paths, err := f.in.paths()
	if err != nil {
		return err
	}
	problems := &traceProblems{err: s.err}
	done, end := progress(s, paths, "looking")
	plan, err := replay.Look(ctx, paths, host, int(port), filter, trace.ReadOptions{Problem: problems.add, Progress: done})
	end()
	if err != nil {
		return err
	}
	if plan.Rows == 0 {
		_ = problems.result() // what follows from them is the error
		return errors.New("there are no rows to replay")
	}
	if err := f.publish(ctx, s, plan, paths, filter); err != nil {
		return err
	}
	return problems.result()
}

// publish runs the replay. An interrupt ends it and is no error.
func (f *replayFlags) publish(ctx context.Context, s streams, plan *replay.Plan, paths []string, filter trace.Filter) error {
	r, err := plan.Start(ctx, slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return err
	}
	defer r.Close()
	for i, endpoint := range r.Endpoints() {
		rank := &plan.Ranks[i]
		mode := "full"
		if rank.Sampled {
			mode = "sampled"
		}
		fmt.Fprintf(s.out, "%s worker %s rank %d: %d %s rows\n", endpoint, printable(rank.WorkerID), rank.DPRank, rank.Rows, mode)
	}
	takes := time.Duration(float64(plan.Last.Sub(plan.First)) / f.speed).Round(time.Second)
	fmt.Fprintf(s.out, "%s to %s UTC, takes %s\n", plan.First.UTC().Format(time.DateTime), plan.Last.UTC().Format(time.DateTime), takes)
	if without := r.AwaitSubscribers(ctx, f.wait); without > 0 && ctx.Err() == nil {
		fmt.Fprintf(s.err, "%s without a subscriber\n", counted(without, "rank is", "ranks are"))
	}
	published := func() {}
	if isTerminal(s.err) {
		bar := progressbar.NewOptions64(int64(plan.Rows), progressbar.OptionSetWriter(s.err), progressbar.OptionSetDescription("publishing"),
			progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))
		defer func() { _ = bar.Finish() }()
		published = func() { _ = bar.Add64(1) }
	}
	err = r.Run(ctx, paths, f.speed, filter, published)
	if n := r.Dropped(); n > 0 {
		fmt.Fprintf(s.err, "%s dropped: a subscriber was too slow\n", counted(int(n), "message was", "messages were"))
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
