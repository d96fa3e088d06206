package exporter

import (
	"log/slog"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/fpm/stream"
)

// StreamBlocks returns the block of ports of each configured publisher of
// forward-pass metrics.
func StreamBlocks(c *config.Config) []stream.Block {
	var blocks []stream.Block
	for i := range c.ForwardPassMetrics.Streams {
		s := &c.ForwardPassMetrics.Streams[i]
		for _, group := range s.StaticConfigs {
			for _, address := range group.Targets {
				blocks = append(blocks, stream.Block{Address: address, DataParallelSize: s.DataParallelSize})
			}
		}
	}
	return blocks
}

// warnOfPorts logs what is doubtful about the publishers' ports. Publishers whose
// ports another process can take work until the day that one does.
func warnOfPorts(c *config.Config, logger *slog.Logger) {
	blocks := StreamBlocks(c)
	if len(blocks) == 0 {
		return
	}
	ephemeral, err := stream.ReadEphemeralRange(stream.EphemeralRangeFile)
	if err != nil {
		logger.Debug("the range of ephemeral ports is not known", "err", err)
	}
	for _, warning := range stream.LintPorts(blocks, ephemeral) {
		logger.Warn("doubtful ports of forward-pass metrics", "warning", warning)
	}
}
