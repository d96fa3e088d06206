package relabel

import (
	"strings"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// KeepPrefix as an omni prefix leaves every omni family's prefix as it came.
const KeepPrefix = "keep"

// omniPrefixes are the spellings that vLLM-Omni has used: the one of its metrics
// design and of the releases up to about 0.22, the current one, and that of early
// drafts.
var omniPrefixes = [...]string{"vllm:omni_", "vllm_omni:", "v_llm_omni:"}

// normalizePrefix returns name with its omni prefix replaced, unless prefix is
// KeepPrefix or empty.
func normalizePrefix(name, prefix string) string {
	if prefix == KeepPrefix || prefix == "" {
		return name
	}
	for _, p := range omniPrefixes {
		if rest, ok := strings.CutPrefix(name, p); ok {
			return prefix + rest
		}
	}
	return name
}

// alias is an old engine family and its current name. Names are without
// `_total`.
type alias struct {
	old, current string
	typ          exposition.Type
}

// aliases are the renames of vLLM that keep type, unit and meaning.
//
// Not here, because the current family is something else: the prefix cache hit
// rates of V0 (a ratio, now two counters), num_requests_swapped and
// cpu_cache_usage_perc (no successor), the throughput gauges (a rate, now
// counters), model_forward_time_milliseconds and model_execute_time_milliseconds
// (milliseconds, no successor), the spec_decode rates and efficiencies (ratios,
// now counters), tokens_total (a sum of two counters), and kv_offload_total_bytes,
// total_time and size (both directions in one family, now one family each).
var aliases = [...]alias{
	{"vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc", exposition.Gauge},
	{"vllm:gpu_prefix_cache_queries", "vllm:prefix_cache_queries", exposition.Counter},
	{"vllm:gpu_prefix_cache_hits", "vllm:prefix_cache_hits", exposition.Counter},
	{"vllm:time_per_output_token_seconds", "vllm:inter_token_latency_seconds", exposition.Histogram},
	{"vllm:time_in_queue_requests", "vllm:request_queue_time_seconds", exposition.Histogram},
}

// currentName returns the current name of an old family; both names are without
// the `_total` of a counter's samples. vLLM's Rust front end appends `_total` to
// counters whose name ends so already; that is undone too.
func currentName(name string, t exposition.Type) (string, bool) {
	for _, a := range aliases {
		if a.old == name && a.typ == t {
			return a.current, true
		}
	}
	if t == exposition.Counter && strings.HasPrefix(name, "vllm") {
		return strings.CutSuffix(name, "_total")
	}
	return "", false
}
