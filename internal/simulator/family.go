package simulator

import "slices"

// kind is the type of a family, as TYPE spells it.
type kind string

const (
	gaugeKind     kind = "gauge"
	counterKind   kind = "counter"
	histogramKind kind = "histogram"
	summaryKind   kind = "summary"
)

// noCreated is the creation time of a series that has none, as those of custom collectors.
const noCreated = -1.0

// family is one metric family before it is spelled out. The name of a counter is without `_total`.
type family struct {
	name, help string
	kind       kind
	series     []series
}

// series is one label set of a family and its value: a histogram's in histogram, a summary's as count and sum.
type series struct {
	labels    []label // in the order in which the server declares them
	value     float64
	histogram *histogram
	count     uint64
	sum       float64
	created   float64 // unix seconds, or noCreated
	float     bool    // a float by nature, which the Rust client spells with a fraction even when it is whole
}

type label struct{ name, value string }

// engineFamilies are the families of vLLM's engines, in the order of a real page.
func (s *server) engineFamilies() []family {
	p := s.pipeline
	model := p.options.Model
	var families []family
	each := func(name, help string, k kind, children func(*engine, []label) []series) {
		f := family{name: "vllm:" + name, help: help, kind: k}
		for _, e := range s.engines {
			if !e.dead {
				f.series = append(f.series, children(e, []label{{"model_name", model}, {"engine", e.label}})...)
			}
		}
		families = append(families, f)
	}
	count := func(name, help string, value func(*engineMetrics) float64) {
		each(name, help, counterKind, func(e *engine, l []label) []series {
			return []series{{labels: l, value: value(e.metrics), created: e.metrics.created}}
		})
	}
	measure := func(name, help string, value func(*engine) float64) {
		each(name, help, gaugeKind, func(e *engine, l []label) []series { return []series{{labels: l, value: value(e), float: true}} })
	}
	observe := func(name, help string, value func(*engineMetrics) *histogram) {
		each(name, help, histogramKind, func(e *engine, l []label) []series {
			return []series{{labels: l, histogram: value(e.metrics), created: e.metrics.created}}
		})
	}
	// split makes a series for each value of an extra label.
	split := func(name, help string, k kind, extra string, values []string, value func(*engine, int) float64) {
		each(name, help, k, func(e *engine, l []label) []series {
			var out []series
			for i, v := range values {
				out = append(out, series{labels: with(l, extra, v), value: value(e, i), created: e.metrics.created})
			}
			return out
		})
	}

	count("estimated_flops_per_gpu", "Floating point operations per GPU, estimated from the model's shape.", func(m *engineMetrics) float64 { return m.flops })
	count("estimated_read_bytes_per_gpu", "Bytes read from GPU memory, estimated.", func(m *engineMetrics) float64 { return m.readBytes })
	count("estimated_write_bytes_per_gpu", "Bytes written to GPU memory, estimated.", func(m *engineMetrics) float64 { return m.writeBytes })

	measure("num_requests_running", "Requests that are part of the running batch.", func(e *engine) float64 { return float64(len(e.running)) })
	measure("num_requests_waiting", "Requests that wait for a place in the batch.", func(e *engine) float64 { return float64(len(e.waiting)) })
	split("num_requests_waiting_by_reason", `Waiting requests by reason; "deferred" ones were running before.`, gaugeKind, "reason", []string{"capacity", "deferred"},
		func(e *engine, i int) float64 { return float64(e.waitingBecause(i == 1)) })
	split("engine_sleep_state", "Sleep state of the engine: awake = 1 serves; weights_offloaded: level 1; discard_all: level 2.", gaugeKind, "sleep_state",
		[]string{"awake", "weights_offloaded", "discard_all"}, func(_ *engine, i int) float64 {
			if i == 0 {
				return 1
			}
			return 0
		})
	measure("kv_cache_usage_perc", `Share of the KV-cache in use; "1" is all of it.`, (*engine).kvUsage)

	zero := func(*engineMetrics) float64 { return 0 }
	count("prefix_cache_queries", "Tokens looked up in the prefix cache.", func(m *engineMetrics) float64 { return m.prefixQueries })
	count("prefix_cache_hits", "Tokens found in the prefix cache.", func(m *engineMetrics) float64 { return m.prefixHits })
	count("external_prefix_cache_queries", "Tokens looked up in another engine's cache through a KV connector.", zero)
	count("external_prefix_cache_hits", "Tokens found in another engine's cache through a KV connector.", zero)
	count("mm_cache_queries", "Media items looked up in the multi-modal cache.", func(m *engineMetrics) float64 { return m.mediaQueries })
	count("mm_cache_hits", "Media items found in the multi-modal cache.", func(m *engineMetrics) float64 { return m.mediaHits })
	count("num_preemptions", "Times that the engine took a request off the batch.", func(m *engineMetrics) float64 { return m.preemptions })
	families = append(families, family{name: "vllm:corrupted_requests", help: "Requests with a NaN among their logits (with VLLM_COMPUTE_NANS_IN_LOGITS=1).", kind: counterKind})

	count("prompt_tokens", "Prefill tokens, cached ones included.", func(m *engineMetrics) float64 { return m.promptTokens })
	split("prompt_tokens_by_source", "Prefill tokens by where they came from.", counterKind, "source", []string{"local_compute", "local_cache_hit", "external_kv_transfer"},
		func(e *engine, i int) float64 {
			return [...]float64{e.metrics.localCompute, e.metrics.localCacheHit, 0}[i]
		})
	count("prompt_tokens_cached", "Prefill tokens that were cached here or elsewhere.", func(m *engineMetrics) float64 { return m.localCacheHit })
	count("generation_tokens", "Generated tokens.", func(m *engineMetrics) float64 { return m.generationTokens })
	reasons := []string{reasonStop, reasonLength, "abort", "error", "repetition"}
	split("request_success", "Requests that came to an end, by reason.", counterKind, "finished_reason", reasons, func(e *engine, i int) float64 { return e.metrics.success[reasons[i]] })

	observe("iteration_tokens_total", "Tokens that one forward pass took in or gave out.", func(m *engineMetrics) *histogram { return m.iteration })
	observe("request_prompt_tokens", "Tokens of a request's prompt.", func(m *engineMetrics) *histogram { return m.promptLength })
	observe("request_generation_tokens", "Tokens that a request generated.", func(m *engineMetrics) *histogram { return m.generationLength })
	observe("request_max_num_generation_tokens", "Longest sequence that a request generated, in tokens.", func(m *engineMetrics) *histogram { return m.maxGeneration })
	observe("request_params_n", "The request parameter n.", func(m *engineMetrics) *histogram { return m.paramsN })
	observe("request_params_max_tokens", "The request parameter max_tokens.", func(m *engineMetrics) *histogram { return m.paramsMax })
	observe("time_to_first_token_seconds", "Seconds from a request's arrival to its first token.", func(m *engineMetrics) *histogram { return m.ttft })
	observe("inter_token_latency_seconds", "Seconds from one token of a request to its next.", func(m *engineMetrics) *histogram { return m.itl })
	observe("request_time_per_output_token_seconds", "A request's mean seconds per token after the first.", func(m *engineMetrics) *histogram { return m.timePerToken })
	observe("e2e_request_latency_seconds", "Seconds from a request's arrival to its end.", func(m *engineMetrics) *histogram { return m.e2e })
	observe("request_queue_time_seconds", "Seconds that a request waited for a place in the batch.", func(m *engineMetrics) *histogram { return m.queue })
	observe("request_inference_time_seconds", "Seconds that a request was in the batch.", func(m *engineMetrics) *histogram { return m.inference })
	observe("request_prefill_time_seconds", "Seconds from a request's place in the batch to its first token.", func(m *engineMetrics) *histogram { return m.prefill })
	observe("request_decode_time_seconds", "Seconds from a request's first token to its last.", func(m *engineMetrics) *histogram { return m.decode })
	observe("request_prefill_kv_computed_tokens", "Prefill tokens of a request that were computed, cached ones left out.", func(m *engineMetrics) *histogram { return m.prefillTokens })

	config := family{name: "vllm:cache_config_info", help: "What the engine's cache was set up with", kind: gaugeKind}
	for _, e := range s.engines {
		if !e.dead {
			config.series = append(config.series, series{labels: e.cacheConfig(), value: 1})
		}
	}
	return append(families, config)
}

func (e *engine) waitingBecause(preempted bool) int {
	n := 0
	for _, j := range e.waiting {
		if j.preempted == preempted {
			n++
		}
	}
	return n
}

// with returns the labels and one more, in new memory.
func with(labels []label, name, value string) []label {
	return append(slices.Clip(labels), label{name, value})
}
