package benchmarktest

import "strconv"

// engine is an engine block with the values of the example in Dynamo's reference.
func (b builder) engine(rank int) M {
	return M{
		"attention": M{
			"backend_requested": nil, "backend_per_kind": M{}, "mla_prefill_backend_requested": nil, "flash_attn_version": 3,
			"use_trtllm_attention": false, "indexer_kv_dtype": "fp8", "indexer_kv_dtype_configured": "auto", "backend_resolved": nil,
			"mla_prefill_backend_resolved": nil, "resolution": "pending_worker_probe",
			"indexer": M{"index_topk": 2048, "index_n_heads": 1, "index_head_dim": 128},
		},
		"kv_cache": M{
			"cache_dtype": "auto", "block_size": 64, "enable_prefix_caching": true, "kv_cache_layout": "LBHNC",
			"groups": L{M{"type": "FullAttentionSpec", "dtype": "bfloat16", "head_size": 128, "num_kv_heads": 8, "block_size": 64, "kv_quant_mode": "NONE"}},
		},
		"quantization": M{
			"method": "fp8", "checkpoint_config": M{"quant_method": "fp8", "activation_scheme": "dynamic"}, "quant_config_class": "Fp8Config",
		},
		"scheduler": M{
			"max_num_batched_tokens": 8192, "max_num_seqs": 256, "async_scheduling": true, "enable_chunked_prefill": true,
			"long_prefill_token_threshold": 0,
		},
		"model": M{"dtype": "bfloat16", "model_type": "deepseek_v3", "architectures": L{"DeepseekV3ForCausalLM"}, "model": "deepseek-ai/DeepSeek-V3"},
		"parallel": M{
			"data_parallel_size": b.Ranks, "data_parallel_rank": rank, "tensor_parallel_size": b.TP, "pipeline_parallel_size": b.PP,
			"prefill_context_parallel_size": b.PCP, "enable_expert_parallel": true, "enable_eplb": false,
			"all2all_backend": "deepep_high_throughput",
			"eplb_config": M{
				"window_size": 1000, "step_interval": 3000, "num_redundant_experts": 0, "log_balancedness": false,
				"log_balancedness_interval": 1, "use_async": true, "policy": "default", "communicator": nil,
			},
		},
		"speculative": nil,
		"graph":       M{"cudagraph_mode": "FULL", "cudagraph_capture_sizes": L{1, 2, 4, 8, 16, 32}, "resolution": "pre_resolution"},
		"versions":    M{"vllm": "0.29.0", "vllm_build_commit": "abcdef0", "dynamo": "0.9.0", "python": "3.12.3"},
		"resolved":    nil, "resolution": "pending_worker_probe",
	}
}

// Reply is what one healthy worker answers to the probe.
func Reply(dp, workerRank, tp, pcp, pp int) M {
	return M{
		"dp_rank": dp, "worker_rank": workerRank, "tp_rank": workerRank % tp, "pcp_rank": workerRank / tp % pcp, "pp_rank": workerRank / (tp * pcp) % pp,
		"attention_backends":               M{"model.layers." + strconv.Itoa(workerRank/(tp*pcp)%pp) + ".self_attn": "FLASH_ATTN_MLA"},
		"mla_prefill_backend":              "FlashAttnPrefillBackend",
		"cudagraph_mode_resolved":          "FULL",
		"cudagraph_capture_sizes_resolved": L{1, 2, 4, 8, 16, 32}, "capture_errors": M{},
	}
}

func (b builder) replies() L {
	replies := L{}
	for r := range b.Ranks {
		for w := range b.TP * b.PCP * b.PP {
			replies = append(replies, Reply(r, w, b.TP, b.PCP, b.PP))
		}
	}
	if b.Replies != nil {
		replies = b.Replies(replies)
	}
	return replies
}

// sidecar is valid as long as the replies are those of healthy workers, each at most once.
func (b builder) sidecar() M {
	files, ranks, all := L{}, M{}, []int{}
	for r := range b.Ranks {
		files, all = append(files, path(RankFile(r))), append(all, r)
		result := b.probeResult([]int{r})
		result["rank_file"] = path(RankFile(r))
		ranks[strconv.Itoa(r)] = result
	}
	root := M{
		"schema": "dynamo.fpm.benchmark_worker_probe", "schema_version": 1, "run_id": b.RunID, "merged_output_path": path(MergedFile),
		"rank_files": files, "merged": b.probeResult(all), "ranks": ranks,
	}
	if b.Sidecar != nil {
		b.Sidecar(root)
	}
	return root
}

func (b builder) probeResult(ranks []int) M {
	perRank := b.TP * b.PCP * b.PP
	expected, observed, missing, responses := L{}, L{}, L{}, L{}
	var representative any
	for _, r := range ranks {
		expected = append(expected, r)
		seen := false
		for _, reply := range b.replies() {
			m := reply.(M)
			if m["dp_rank"] != r {
				continue
			}
			seen = true
			if representative == nil {
				representative = m
			}
			observed = append(observed, M{
				"dp_rank": m["dp_rank"], "worker_rank": m["worker_rank"], "tp_rank": m["tp_rank"], "pp_rank": m["pp_rank"], "pcp_rank": m["pcp_rank"],
			})
		}
		if !seen {
			missing = append(missing, r)
		}
	}
	for i, reply := range b.replies() {
		responses = append(responses, M{"rpc_index": i, "response": reply, "issues": L{}})
	}
	complete := len(observed) == len(ranks)*perRank
	resolution, scope := "worker_probe_partial", any("representative_worker")
	backend, prefill := any("FLASH_ATTN_MLA"), any("FlashAttnPrefillBackend")
	switch {
	case complete:
		resolution = "worker_probe"
	case len(observed) == 0:
		resolution, scope, backend, prefill = "worker_probe_unobserved", nil, nil, nil
	}
	return M{
		"resolved": representative, "resolved_scope": scope, "resolution": resolution,
		"attention": M{"backend_resolved": backend, "mla_prefill_backend_resolved": prefill, "resolution": resolution},
		"worker_probe": M{
			"schema_version": 1, "scope": "post_collection_collective_rpc", "responses": responses, "disagreements": L{}, "error": nil,
			"coverage": M{
				"scope": "artifact_workers", "expected_dp_ranks": expected, "expected_workers_per_dp": perRank, "observed_workers": observed,
				"missing_dp_ranks": missing, "complete": complete,
			},
		},
	}
}
