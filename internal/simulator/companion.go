package simulator

import "strconv"

// cacheConfig has the engine but no model_name, and values as Python prints them.
func (e *engine) cacheConfig() []label {
	return []label{
		{"_block_size_resolved", "True"},
		{"block_size", strconv.Itoa(blockSize)},
		{"cache_dtype", "auto"},
		{"calculate_kv_scales", "False"},
		{"cpu_offload_gb", "0"},
		{"enable_prefix_caching", "True"},
		{"engine", e.label},
		{"gpu_memory_utilization", "0.9"},
		{"is_attention_free", "False"},
		{"kv_cache_memory_bytes", "None"},
		{"mamba_cache_dtype", "auto"},
		{"num_cpu_blocks", "None"},
		{"num_gpu_blocks", strconv.Itoa(e.blocks)},
		{"num_gpu_blocks_override", "None"},
		{"prefix_caching_hash_algo", "sha256"},
		{"sliding_window", "None"},
		{"swap_space", "4"},
		{"user_specified_block_size", "[]"},
	}
}

// loraInfo is unix time under label values that hold lists, which need escaping.
func (s *server) loraInfo() family {
	return family{name: "vllm:lora_requests_info", help: "Adapters of running and waiting requests.", kind: gaugeKind, series: []series{{
		labels: []label{{"max_lora", "4"}, {"waiting_lora_adapters", ""}, {"running_lora_adapters", `sql-adapter,chat "v2"\beta`}},
		value:  s.pipeline.unix(), float: true,
	}}}
}

// runtimeFamilies are those that the Python client and its process collector put first.
func (s *server) runtimeFamilies() []family {
	generations := func(values ...float64) (out []series) {
		for i, v := range values {
			out = append(out, series{labels: []label{{"generation", strconv.Itoa(i)}}, value: v, created: noCreated})
		}
		return out
	}
	one := func(v float64) []series { return []series{{value: v, created: noCreated}} }
	n := float64(s.answers)
	up := s.pipeline.now.Seconds()
	return []family{
		{name: "python_gc_objects_collected", help: "Objects that the garbage collector freed", kind: counterKind, series: generations(9120+n, 1210, 1740)},
		{name: "python_gc_objects_uncollectable", help: "Objects that the garbage collector could not free", kind: counterKind, series: generations(0, 0, 0)},
		{name: "python_gc_collections", help: "Runs of the garbage collector by generation", kind: counterKind, series: generations(1400+n, 127, 11)},
		{name: "python_info", help: "The Python that runs the server", kind: gaugeKind, series: []series{{
			labels: []label{{"implementation", "CPython"}, {"major", "3"}, {"minor", "12"}, {"patchlevel", "11"}, {"version", "3.12.11"}}, value: 1,
		}}},
		{name: "process_virtual_memory_bytes", help: "Bytes of address space in use.", kind: gaugeKind, series: one(28943503360)},
		{name: "process_resident_memory_bytes", help: "Bytes of memory held.", kind: gaugeKind, series: one(6384528)},
		{name: "process_start_time_seconds", help: "Unix time at which the process began.", kind: gaugeKind, series: one(s.created)},
		{name: "process_cpu_seconds", help: "CPU time of the process, user and system together.", kind: counterKind, series: one(micro(12.5 + 0.4*up))},
		{name: "process_open_fds", help: "File descriptors in use.", kind: gaugeKind, series: one(73)},
		{name: "process_max_fds", help: "File descriptors that the process may use.", kind: gaugeKind, series: one(65535)},
	}
}

// chatHandler is the path that the simulated clients call.
const chatHandler = "/v1/chat/completions"

// httpFamilies are those of the HTTP instrumentation. The sizes are summaries without quantiles, and the first of them
// ends its HELP with a space.
func (s *server) httpFamilies() []family {
	where := []label{{"handler", chatHandler}, {"method", "POST"}}
	size := func(name, help string, each uint64) family {
		return family{name: name, help: help, kind: summaryKind, series: []series{{
			labels: []label{{"handler", chatHandler}}, count: s.answers, sum: float64(s.answers * each), created: s.created,
		}}}
	}
	return []family{
		{name: "http_requests", help: "Answers by path, method and status class.", kind: counterKind, series: []series{
			{labels: with(where, "status", "2xx"), value: float64(s.answers - s.refusals), created: s.created},
			{labels: with(where, "status", "5xx"), value: float64(s.refusals), created: s.created},
		}},
		size("http_request_size_bytes", "Bytes of request bodies by path: bodies without a length are not in it. ", 2048),
		size("http_response_size_bytes", "Bytes of answers by path: a stream has 0.", 0),
		{name: "http_request_duration_highr_seconds", help: "Seconds until the answer, in fine steps.", kind: histogramKind, series: []series{{histogram: s.highr, created: s.created}}},
		{name: "http_request_duration_seconds", help: "Seconds until the answer, in coarse steps, by path.", kind: histogramKind, series: []series{{labels: where, histogram: s.duration, created: s.created}}},
	}
}

// toolFamily has twelve series that exist from the start, and no engine. It comes last.
func (s *server) toolFamily() family {
	f := family{name: "vllm:tool_call_parser_invocations", help: "Answers that went through the tool parser, by outcome.", kind: counterKind}
	i := 0
	for _, mode := range []string{"streaming", "non_streaming"} {
		for _, outcome := range []string{"tool_call", "no_tool_call"} {
			for _, request := range []string{"chat_completions", "responses", "other"} {
				f.series = append(f.series, series{
					labels: []label{{"model_name", s.pipeline.options.Model}, {"mode", mode}, {"outcome", outcome}, {"request_type", request}},
					value:  float64(s.tools[i]), created: s.created,
				})
				i++
			}
		}
	}
	return f
}
