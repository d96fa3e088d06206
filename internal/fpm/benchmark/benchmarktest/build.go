package benchmarktest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
)

// GridDigest is the grid of every set.
const GridDigest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

type builder struct{ Options }

// points are the prefill points, then the decode points.
func (b builder) points() int { return 2 * b.Points }

func (b builder) isDecode(id int) bool { return id > b.Points }

func (b builder) point(id int) M {
	p := M{
		"point_type": "prefill", "benchmark_id": id, "batch_size": 1, "total_prefill_tokens": 128 * id, "total_kv_read_tokens": 0,
		"expected_cudagraph_mode": "PIECEWISE", "expected_capture_size": 128 * id, "padding_tokens": 0, "sample_reasons": L{},
	}
	if b.isDecode(id) {
		n := id - b.Points
		p["point_type"], p["batch_size"], p["total_prefill_tokens"], p["total_kv_read_tokens"] = "decode", 2*n, 0, 2*n*1024
		p["expected_cudagraph_mode"], p["expected_capture_size"], p["sample_reasons"] = "FULL", 2*n, L{"kvwarm_real_kv"}
	}
	if b.Point != nil {
		b.Point(id, p)
	}
	return p
}

// pointKey spells out the canonical JSON by hand.
func pointKey(p M) string {
	other := func(key string) string {
		if v := p[key]; v != nil {
			return string(must(json.Marshal(v)))
		}
		return "null"
	}
	return sha(fmt.Sprintf(`{"batch_size":%v,"partition":%s,"point_type":"%v","rows":%s,"total_kv_read_tokens":%v,"total_prefill_tokens":%v}`,
		p["batch_size"], other("partition"), p["point_type"], other("rows"), p["total_kv_read_tokens"], p["total_prefill_tokens"]))
}

func sha(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// samples is how many raw samples a point has: one for a prefill, an admission step and more for a decode. The first decode
// point takes the last of two, all others the upper median of an even number.
func (b builder) samples(id int) int {
	switch {
	case !b.isDecode(id):
		return 1
	case id == b.Points+1:
		return 2
	default:
		return 5
	}
}

// wall is the time of one raw sample, in seconds; the admission step is the slowest, and ranks differ.
func (b builder) wall(rank, id, sample int) float64 {
	w := 0.010*float64(id) + 0.001*float64(rank%7)
	if b.samples(id) > 1 && sample == 0 {
		return w + 0.5
	}
	return w + 0.0001*float64((sample*3)%4)
}

// retained is the sample whose time is kept.
func (b builder) retained(rank, id int) float64 {
	n := b.samples(id)
	if n == 5 {
		// Samples 1..4 add 3, 2, 1 and 0 steps, so the upper median of four is the one with two.
		return b.wall(rank, id, 2)
	}
	return b.wall(rank, id, n-1)
}

// Forwards: three of the global warm-up, two of a prefix seed, then the points, with two of an eager shape before point 2.
const (
	globalEnd = 3
	seedEnd   = 5
	eagerSize = 2
)

func (b builder) firstForward(id int) int {
	f := seedEnd
	for i := 1; i < id; i++ {
		f += b.samples(i)
	}
	if id >= 2 {
		f += eagerSize
	}
	return f
}

func (b builder) bare(rank, id int) M {
	p := b.point(id)
	s := M{
		"num_prefill_requests": p["batch_size"], "sum_prefill_tokens": p["total_prefill_tokens"], "var_prefill_length": 0.0,
		"sum_prefill_kv_tokens": p["total_kv_read_tokens"], "num_decode_requests": 0, "sum_decode_kv_tokens": 0, "var_decode_kv_tokens": 0.0,
	}
	if b.isDecode(id) {
		s["num_prefill_requests"], s["sum_prefill_tokens"], s["sum_prefill_kv_tokens"] = 0, 0, 0
		s["num_decode_requests"], s["sum_decode_kv_tokens"] = p["batch_size"], p["total_kv_read_tokens"]
	}
	return M{
		"version": 1, "worker_id": "4192", "dp_rank": rank, "counter_id": id, "wall_time": b.retained(rank, id),
		"scheduled_requests": s,
		"queued_requests": M{
			"num_prefill_requests": 0, "sum_prefill_tokens": 0, "var_prefill_length": 0.0,
			"num_decode_requests": 0, "sum_decode_kv_tokens": 0, "var_decode_kv_tokens": 0.0,
		},
	}
}

func (b builder) fpm(rank, id int) M {
	f := b.bare(rank, id)
	if !b.Legacy {
		f["benchmark_measurement"] = b.measurement(rank, id)
	}
	if b.FPM != nil {
		b.FPM(rank, id, f)
	}
	return f
}

func (b builder) measurement(rank, id int) M {
	n := b.samples(id)
	raw, indices, method := L{}, L{}, "single_step"
	for i := range n {
		s := b.bare(rank, id)
		s["wall_time"] = b.wall(rank, id, i)
		if !b.NoExecution {
			s["benchmark_sample"] = b.sample(rank, id, i)
		}
		raw = append(raw, s)
	}
	switch n {
	case 1:
		indices = L{0}
	case 2:
		method, indices = "last_step", L{1}
	default:
		method = "adjacent_upper_median"
		for i := 1; i < n; i++ {
			indices = append(indices, i)
		}
	}
	prep := M{"grid_digest": GridDigest, "completed_points_before": id - 1, "kv_seed_regime": b.regime(id)}
	if !b.NoExecution {
		prep["warmup_records_before"] = min(id+1, 3)
	}
	return M{
		"schema_version": 1, "point_key": pointKey(b.point(id)), "dp_rank": rank, "prompts": b.prompts(rank, id), "preparation": prep,
		"expected_internal_samples": n, "raw_fpms": raw, "estimate": M{"method": method, "raw_sample_indices": indices},
	}
}

func (b builder) regime(id int) string {
	if b.isDecode(id) {
		return "real_kv"
	}
	return "none"
}

func (b builder) sample(rank, id, i int) M {
	basis := "schedule_to_output"
	if i > 0 {
		basis = "inter_output"
	}
	start := 100 + 1000*float64(rank) + float64(b.firstForward(id)+i)
	p := b.point(id)
	padded, mode := p["expected_capture_size"], p["expected_cudagraph_mode"]
	tokens := padded
	return M{
		"sample_index": i, "forward_index": b.firstForward(id) + i,
		"timing":    M{"basis": basis, "start_monotonic": start, "end_monotonic": start + b.wall(rank, id, i)},
		"cudagraph": M{"status": "observed", "runtime_mode": mode, "num_unpadded_tokens": tokens, "num_padded_tokens": padded, "num_paddings": 0},
	}
}

func (b builder) prompts(rank, id int) M {
	requests, text := L{}, "["
	p := b.point(id)
	batch, _ := p["batch_size"].(int)
	key := pointKey(p)
	for slot := range max(batch, 1) {
		digest := sha(fmt.Sprint(b.ContentSeed, key, rank, slot))
		requests = append(requests, M{"slot": slot, "num_tokens": 64, "sha256": digest})
		if slot > 0 {
			text += ","
		}
		text += `{"num_tokens":64,"sha256":"` + digest + `","slot":` + strconv.Itoa(slot) + "}"
	}
	return M{"status": "recorded", "sha256": sha(text + "]"), "requests": requests}
}

func (b builder) group(id int) M {
	ranks, results, slowest := L{}, L{}, 0.0
	for r := range b.Ranks {
		f := b.fpm(r, id)
		if w, ok := f["wall_time"].(float64); ok {
			slowest = max(slowest, w)
		}
		ranks = append(ranks, r)
		results = append(results, M{"dp_rank": r, "fpms": L{f}})
	}
	g := M{
		"benchmark_id": id, "point": b.point(id), "expected_dp_ranks": ranks, "complete": true, "wall_time": slowest, "rank_results": results,
	}
	if b.Group != nil {
		b.Group(id, g)
	}
	return g
}

func (b builder) groups() (groups L, sum float64) {
	for id := 1; id <= b.points(); id++ {
		g := b.group(id)
		w, _ := g["wall_time"].(float64)
		groups, sum = append(groups, g), sum+w
	}
	return groups, sum
}

// elapsed is how long the run took on a rank; rank 1 is the slowest.
func (b builder) elapsed(rank int) float64 {
	if rank == 1 {
		return 95.5
	}
	return 90.25
}

func (b builder) timing(rank int, sum float64) M {
	return M{
		"started_at": "2026-06-30T08:00:00.250000Z", "completed_at": fmt.Sprintf("2026-06-30T08:01:%02dZ", 31+rank%7),
		"benchmark_elapsed_seconds": b.elapsed(rank), "measured_iteration_seconds": sum,
	}
}

func (b builder) rank(rank int) M {
	groups, sum := b.groups()
	results := L{}
	for id := 1; id <= b.points(); id++ {
		results = append(results, M{"point": b.point(id), "kv_seed_regime": b.regime(id), "fpms": L{b.fpm(rank, id)}})
	}
	expected := b.points()
	root := M{
		"schema_version": 2, "artifact_type": "rank", "status": "complete", "valid": true, "usable": true, "timing_valid": true,
		"stop_reason": nil, "error": nil, "run_id": b.RunID, "grid_digest": GridDigest, "timing": b.timing(rank, sum),
		"dp":              M{"rank": rank, "size": b.Ranks},
		"synchronization": M{"enabled": b.Ranks > 1, "coordinator_rank": 0, "port": 20380 + b.Ranks},
		"config":          M{"mode": "agg", "warmup_iterations": 5, "timeout": 900, "output_path": path(RankFile(0))},
		"limits":          M{"max_num_scheduled_tokens": 8192, "max_num_running_reqs": 256, "max_model_len": 32768, "block_size": 64, "num_gpu_blocks": 4096 + rank},
		"skipped_points":  L{}, "missing_phases": L{}, "results": results, "iteration_groups": groups,
		"x_future": M{"kept": "as it is", "number": json.Number("1.50")},
	}
	if b.Partial {
		expected++
		root["status"], root["valid"], root["stop_reason"] = "partial", false, "timeout"
	}
	root["coverage"] = M{"expected_points": expected, "completed_points": b.points(), "skipped_points": 0}
	if !b.Legacy {
		root["measurement_protocol"] = b.protocol()
		if !b.NoExecution {
			root["warmup_evidence"] = b.warmup()
		}
	}
	if !b.NoEngine {
		root["engine"] = b.engine(rank)
	}
	if b.Rank != nil {
		b.Rank(rank, root)
	}
	return root
}

func (b builder) merged() M {
	root := b.rank(0)
	groups, sum := b.groups()
	root["artifact_type"] = "merged"
	files, sources, results, elapsed, warmup := L{}, L{}, L{}, M{}, M{}
	slowest := 0
	for r := range b.Ranks {
		files, sources = append(files, path(RankFile(r))), append(sources, r)
		key := strconv.Itoa(r)
		elapsed[key] = b.elapsed(r)
		if b.elapsed(r) > b.elapsed(slowest) {
			slowest = r
		}
		warmup[key] = b.warmup()
	}
	for id := 1; id <= b.points(); id++ {
		for r := range b.Ranks {
			p := b.point(id)
			p["dp_rank"] = r
			results = append(results, M{"point": p, "fpms": L{b.fpm(r, id)}, "kv_seed_regime": b.regime(id)})
		}
	}
	root["dp"] = M{"ranks": sources, "source_ranks": sources, "managed_size": b.Ranks, "global_size": b.Ranks}
	root["rank_files"], root["merged_output_path"] = files, path(MergedFile)
	root["results"], root["iteration_groups"] = results, groups
	root["timing"] = b.timing(slowest, sum)
	root["timing"].(M)["rank_benchmark_elapsed_seconds"] = elapsed
	for key, v := range root["coverage"].(M) {
		root["coverage"].(M)[key] = v.(int) * b.Ranks
	}
	delete(root, "warmup_evidence")
	if !b.Legacy && !b.NoExecution {
		root["rank_warmup_evidence"] = warmup
	}
	if engine, ok := root["engine"].(M); ok {
		if parallel, ok := engine["parallel"].(M); ok {
			parallel["data_parallel_rank"] = nil
		}
		root["worker_probe_path"] = path(SidecarFile)
	}
	if b.Merged != nil {
		b.Merged(root)
	}
	return root
}

func (b builder) warmup() M {
	record := func(kind string, start, end, before int, validation M) M {
		return M{
			"kind": kind, "requested_shape": M{"prompt_lengths": L{8}}, "status": "completed", "forward_index_start": start,
			"forward_index_end": end, "completed_points_before": before, "observed_forward_count": end - start,
			"first_scheduled_requests": M{"num_prefill_requests": 1}, "last_scheduled_requests": nil, "validation": validation,
		}
	}
	none := M{"status": "not_performed"}
	eager := seedEnd + b.samples(1)
	return M{"status": "recorded", "records": L{
		record("global", 0, globalEnd, 0, none),
		record("real_prefix_seed", globalEnd, seedEnd, 0, none),
		record("eager_shape", eager, eager+eagerSize, 1, M{"status": "passed", "reason": nil, "scope": "attention_dp_group", "failed_dp_rank": nil}),
	}}
}

func (b builder) protocol() M {
	p := M{
		"schema_version": 1, "content_identity": "coordinate_rank_slot_v1", "content_seed": b.ContentSeed, "synthetic_content": "random",
		"synthetic_pool_tag": "", "prompt_hash_encoding": "uint32_le", "independent_repetitions": 1, "timing_metric": "scheduler_wall_time",
		"input_evidence_scope": "injected_prompt_token_ids",
		"unobserved":           L{"sampled_continuation_token_ids", "kv_cache_tensors", "recurrent_state_tensors", "execution_history_equivalence"},
		"preparation": M{
			"warmup_iterations": 5, "prefill_real_seed": true, "decode_real_kv_warmup": true,
			"giant_kv_threshold": 32768, "giant_kv_repeats": 3,
		},
	}
	if !b.NoExecution {
		p["execution_evidence"] = M{
			"schema_version": 1, "sample_field": "benchmark_sample", "warmup_field": "warmup_evidence", "forward_index_scope": "rank_process",
			"timing_clock": "process_local_monotonic", "cudagraph_source": "ModelRunnerOutput.cudagraph_stats",
			"warmup_scope": "request_completion_and_existing_shape_validation",
		}
	}
	return p
}
