package benchmark

import (
	"strings"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// GraphNone is the runtime mode of a forward that ran without a CUDA graph. It is an observation: where nothing was
// observed the mode is null, which never means NONE (Per-Sample Timing and Graph Dispatch).
const GraphNone = "NONE"

// graphModePrefix is what a runtime writes before the mode when it prints the enumeration's member with its type.
const graphModePrefix = "CUDAGraphMode."

// graphMode is a mode without the name of its type.
func graphMode(s string) string { return strings.TrimPrefix(s, graphModePrefix) }

// checkGraph judges one sample's observed dispatch.
func (c *checker) checkGraph(g doc.Node) {
	status, _ := g.Key("status").Text()
	counts := []string{"num_unpadded_tokens", "num_padded_tokens", "num_paddings"}
	switch status {
	case "observed":
		mode, _ := g.Key("runtime_mode").Text()
		mode = graphMode(mode)
		c.want(mode == GraphNone || mode == "PIECEWISE" || mode == "FULL", g.Key("runtime_mode"), RuleGraphObserved,
			"NONE, PIECEWISE or FULL: the dispatch was observed")
		var n [3]int64
		for i, key := range counts {
			var ok bool
			if n[i], ok = c.count(g.Key(key), RuleGraphObserved); !ok {
				return
			}
		}
		if c.want(n[1] >= n[0], g.Key("num_padded_tokens"), RuleGraphPadding, "at least %d, the unpadded tokens", n[0]) {
			c.want(n[2] == n[1]-n[0], g.Key("num_paddings"), RuleGraphPadding, "%d, padded minus unpadded tokens", n[1]-n[0])
		}
	case evidenceUnavailable:
		for _, key := range append(counts, "runtime_mode") {
			c.want(g.Key(key).IsNone(), g.Key(key), RuleGraphUnavailable, "null: the dispatch was not observed")
		}
	default:
		c.fail(g.Key("status"), RuleGraphStatus, "observed or unavailable")
	}
}
