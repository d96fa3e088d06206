package main

import (
	"context"
	"os"

	"github.com/alecthomas/kingpin/v2"
	"golang.org/x/term"

	"github.com/omni-exporter/omni_exporter/internal/fpm/stream"
	"github.com/omni-exporter/omni_exporter/internal/fpm/watch"
)

func addFPMWatch(parent *kingpin.CmdClause, all commands) {
	cmd := parent.Command("watch", "Show the forward passes of running ranks as they happen, until interrupted.")
	addresses := cmd.Arg("endpoint", "Publishers, tcp://host:port or ipc:///path.").Required().Strings()
	size := 0
	cmd.Flag("data-parallel-size", "Ranks of each publisher: rank r is at port+r, or at the path with .r appended.").Default("1").IntVar(&size)
	all[cmd.FullCommand()] = func(ctx context.Context, s streams) error {
		var endpoints []stream.Endpoint
		for _, address := range *addresses {
			ranks, err := stream.ExpandRanks(stream.Endpoint{Address: address}, size)
			if err != nil {
				return &usageError{err.Error()}
			}
			endpoints = append(endpoints, ranks...)
		}
		f, ok := s.out.(*os.File)
		return watch.Run(ctx, endpoints, s.out, ok && term.IsTerminal(int(f.Fd())))
	}
}
