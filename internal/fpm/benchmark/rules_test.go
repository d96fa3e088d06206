package benchmark_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/benchmarktest"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// at walks down objects by key and arrays by index.
func at(v any, steps ...any) any {
	for _, s := range steps {
		switch s := s.(type) {
		case string:
			v = v.(m)[s]
		case int:
			v = v.(l)[s]
		}
	}
	return v
}

// fpmOf is a hook for one rank's FPM of one point.
func fpmOf(rank, id int, change func(f m)) func(int, int, m) {
	return func(r, i int, f m) {
		if r == rank && i == id {
			change(f)
		}
	}
}

// sampleOf is a hook for one raw sample of rank 1's fourth point, which has five.
func sampleOf(i int, change func(raw, sample m)) benchmarktest.Options {
	return benchmarktest.Options{FPM: fpmOf(1, 4, func(f m) {
		raw := at(f, "benchmark_measurement", "raw_fpms", i).(m)
		change(raw, at(raw, "benchmark_sample").(m))
	})}
}

func measurementOf(change func(measurement m)) benchmarktest.Options {
	return benchmarktest.Options{FPM: fpmOf(1, 4, func(f m) { change(at(f, "benchmark_measurement").(m)) })}
}

func graphOf(change func(graph m)) benchmarktest.Options {
	return sampleOf(1, func(_, s m) { change(s["cudagraph"].(m)) })
}

func groupOf(change func(group m)) benchmarktest.Options {
	return benchmarktest.Options{Group: func(id int, g m) {
		if id == 2 {
			change(g)
		}
	}}
}

// rankOf is a hook for the root of one rank file, all of them with rank -1 (the merged artifact is built from rank 0's).
func rankOf(rank int, change func(root m)) benchmarktest.Options {
	return benchmarktest.Options{Rank: func(r int, root m) {
		if rank < 0 || r == rank {
			change(root)
		}
	}}
}

func protocolOf(change func(p m)) benchmarktest.Options {
	return rankOf(-1, func(root m) { change(root["measurement_protocol"].(m)) })
}

// warmupOf changes the third record of rank 1's warm-up evidence, in the rank file; the tests of it look at rank files only.
func warmupOf(change func(w, record m)) benchmarktest.Options {
	return rankOf(1, func(root m) {
		w := root["warmup_evidence"].(m)
		change(w, at(w, "records", 2).(m))
	})
}

func mergedOf(change func(root m)) benchmarktest.Options {
	return benchmarktest.Options{Merged: change}
}

func sidecarOf(change func(root m)) benchmarktest.Options {
	return benchmarktest.Options{Sidecar: change}
}

// probeOf changes the merged result of a sidecar.
func probeOf(change func(result, probe m)) benchmarktest.Options {
	return sidecarOf(func(root m) { change(root["merged"].(m), at(root, "merged", "worker_probe").(m)) })
}

// broken is a set in which one rule is broken.
type broken struct {
	rule benchmark.Rule
	name string
	o    benchmarktest.Options
	pick func(t *testing.T, s *benchmarktest.Set) []*benchmark.File
	path string           // part of the path of each finding
	also []benchmark.Rule // what cannot but follow from it
}

func ranksOnly(t *testing.T, s *benchmarktest.Set) []*benchmark.File  { return rankFiles(t, s) }
func mergedOnly(t *testing.T, s *benchmarktest.Set) []*benchmark.File { return mergedFiles(t, s) }
func everything(t *testing.T, s *benchmarktest.Set) []*benchmark.File { return allFiles(t, s) }

func raw(text string) func(*testing.T, *benchmarktest.Set) []*benchmark.File {
	return func(t *testing.T, s *benchmarktest.Set) []*benchmark.File {
		return append(rankFiles(t, s), benchmark.Read("hostile.json", strings.NewReader(text), benchmarkLimits))
	}
}

func set(key string, v any) func(m) { return func(o m) { o[key] = v } }
func del(key string) func(m)        { return func(o m) { delete(o, key) } }
func rawSet(key string, v any) benchmarktest.Options {
	return sampleOf(1, func(r, _ m) { r[key] = v })
}

func smpSet(key string, v any) benchmarktest.Options {
	return sampleOf(1, func(_, s m) { s[key] = v })
}

func timeSet(key string, v any) benchmarktest.Options {
	return sampleOf(1, func(_, s m) { s["timing"].(m)[key] = v })
}

func brokenRules() []broken {
	prep := func(key string, v any) benchmarktest.Options {
		return measurementOf(func(x m) { x["preparation"].(m)[key] = v })
	}
	prompts := func(change func(p m)) benchmarktest.Options {
		return measurementOf(func(x m) { change(x["prompts"].(m)) })
	}
	estimate := func(key string, v any) benchmarktest.Options {
		return measurementOf(func(x m) { x["estimate"].(m)[key] = v })
	}
	record := func(key string, v any) benchmarktest.Options {
		return warmupOf(func(_, r m) { r[key] = v })
	}
	engine := func(change func(e m)) benchmarktest.Options {
		return rankOf(1, func(root m) { change(root["engine"].(m)) })
	}
	timing := func(key string, v any) benchmarktest.Options {
		return rankOf(1, func(root m) { root["timing"].(m)[key] = v })
	}
	point := func(change func(p m)) benchmarktest.Options {
		return benchmarktest.Options{Point: func(id int, p m) {
			if id == 2 {
				change(p)
			}
		}}
	}
	none := benchmarktest.Options{}
	return []broken{
		{benchmark.RuleJSON, "cut off", none, raw(`{"artifact_type": "rank", "dp": {`), "$", nil},
		{benchmark.RuleJSON, "NaN", none, raw(`{"artifact_type": "rank", "wall_time": NaN}`), "$.wall_time", nil},
		{benchmark.RuleJSON, "deep", none, raw(strings.Repeat(`{"a":`, 1e5)), "$.a.a", nil},
		{benchmark.RuleReadable, "not there", none, func(t *testing.T, s *benchmarktest.Set) []*benchmark.File {
			return append(rankFiles(t, s), benchmark.Load("testdata/not there.json", benchmarkLimits))
		}, "$", nil},
		{benchmark.RuleDuplicateKey, "status twice", none, func(t *testing.T, s *benchmarktest.Set) []*benchmark.File {
			var b bytes.Buffer
			if err := doc.Write(&b, s.RankDocs[1]); err != nil {
				t.Fatal(err)
			}
			text := strings.Replace(b.String(), "{", `{"status": "failed",`, 1)
			return append(rankFiles(t, s)[:1], benchmark.Read("twice.json", strings.NewReader(text), benchmarkLimits))
		}, "$.status", nil},
		{benchmark.RuleArtifactType, "a list", none, raw(`[1]`), "$", nil},
		{benchmark.RuleArtifactType, "unknown", none, raw(`{"artifact_type": "other"}`), "$.artifact_type", nil},
		{benchmark.RuleSchema, "3", rankOf(1, set("schema_version", 3)), ranksOnly, "$.schema_version", nil},
		{benchmark.RuleRunID, "absent", rankOf(1, del("run_id")), ranksOnly, "$.run_id", nil},
		{benchmark.RuleRunID, "another", rankOf(1, set("run_id", "other")), ranksOnly, "$.run_id", nil},
		{benchmark.RuleRunID, "of the merged artifact", benchmarktest.Options{Merged: set("run_id", "other"), Sidecar: set("run_id", "other")}, everything, "$.run_id", nil},
		{benchmark.RuleGridDigest, "another", rankOf(1, set("grid_digest", "other")), ranksOnly, "$.grid_digest", nil},
		{benchmark.RuleGridDigest, "of the merged artifact", mergedOf(set("grid_digest", "")), everything, "$.grid_digest", nil},
		{benchmark.RuleDPRank, "too high", rankOf(1, func(r m) { r["dp"] = m{"rank": 2, "size": 2} }), ranksOnly, "$.dp.rank", nil},
		{benchmark.RuleDPRank, "a bool", rankOf(1, func(r m) { r["dp"] = m{"rank": true, "size": 2} }), ranksOnly, "$.dp.rank", nil},
		{benchmark.RuleDPSize, "another", rankOf(1, func(r m) { r["dp"] = m{"rank": 1, "size": 3} }), ranksOnly, "$.dp.size", nil},
		{benchmark.RuleDuplicateRank, "rank 1 twice", none, func(t *testing.T, s *benchmarktest.Set) []*benchmark.File {
			return append(rankFiles(t, s), file(t, "copy.json", s.RankDocs[1]))
		}, "$.dp.rank", nil},
		{benchmark.RuleMissingRank, "rank 1", none, func(t *testing.T, s *benchmarktest.Set) []*benchmark.File { return rankFiles(t, s)[:1] }, "$.dp.size", nil},

		{benchmark.RuleStatus, "failed", rankOf(1, set("status", "failed")), ranksOnly, "$.status", nil},
		{benchmark.RuleStatus, "unknown", rankOf(1, set("status", 7)), ranksOnly, "$.status", nil},
		{benchmark.RuleStatusConsistency, "valid", rankOf(1, set("valid", false)), ranksOnly, "$.valid", nil},
		{benchmark.RuleStatusConsistency, "error", rankOf(1, set("error", "boom")), ranksOnly, "$.error", nil},
		{benchmark.RuleStatusConsistency, "stop_reason", rankOf(1, set("stop_reason", "timeout")), ranksOnly, "$.stop_reason", nil},
		{benchmark.RuleStatusConsistency, "missing phase", rankOf(1, set("missing_phases", l{"decode"})), ranksOnly, "$.missing_phases", nil},
		{benchmark.RuleStatusConsistency, "timing_valid", rankOf(1, set("timing_valid", false)), ranksOnly, "$.timing_valid", nil},
		{benchmark.RuleStatusConsistency, "partial without timeout", benchmarktest.Options{Partial: true, Rank: func(_ int, root m) { root["stop_reason"] = nil }}, ranksOnly, "$.stop_reason", nil},
		{benchmark.RuleStatusMismatch, "one partial", rankOf(1, func(r m) {
			r["status"], r["valid"], r["stop_reason"] = "partial", false, "timeout"
			r["coverage"].(m)["expected_points"] = 5
		}), ranksOnly, "$.status", nil},
		{benchmark.RuleCoverageArithmetic, "negative", rankOf(-1, func(r m) { r["coverage"].(m)["skipped_points"] = -1 }), ranksOnly, "$.coverage.skipped_points", nil},
		{benchmark.RuleCoverageArithmetic, "more than expected", rankOf(-1, func(r m) { r["coverage"].(m)["completed_points"] = 5 }), ranksOnly, "$.coverage", nil},
		{benchmark.RuleCoverageArithmetic, "odd merged count", benchmarktest.Options{Partial: true, Merged: func(r m) { r["coverage"].(m)["expected_points"] = 11 }}, mergedOnly, "$.coverage", nil},
		{benchmark.RuleCoverageCounts, "a result too few", rankOf(1, func(r m) { r["results"] = r["results"].(l)[:3] }), ranksOnly, "$.results", nil},
		{benchmark.RuleCoverageCounts, "skipped without count", rankOf(1, set("skipped_points", l{m{"point": m{}, "reason": "decode_injection_failed"}})), ranksOnly, "$.skipped_points", nil},
		{benchmark.RuleCoverageMismatch, "expected", benchmarktest.Options{Partial: true, Rank: func(r int, root m) { root["coverage"].(m)["expected_points"] = 5 + r }}, ranksOnly, "$.coverage", nil},
		{benchmark.RuleSkippedPoint, "no reason", rankOf(-1, func(r m) {
			r["coverage"].(m)["expected_points"], r["coverage"].(m)["skipped_points"], r["skipped_points"] = 5, 1, l{m{"point": m{}}}
		}), ranksOnly, "", also(benchmark.RuleStatusConsistency)},
		{benchmark.RuleTiming, "absent", rankOf(1, del("timing")), ranksOnly, "$.timing", nil},
		{benchmark.RuleTiming, "local time", timing("completed_at", "30 June"), ranksOnly, "$.timing.completed_at", nil},
		{benchmark.RuleTiming, "negative", timing("benchmark_elapsed_seconds", -1), ranksOnly, "$.timing.benchmark_elapsed_seconds", nil},
		{benchmark.RuleTimingMeasuredSum, "too much", timing("measured_iteration_seconds", 1.5), ranksOnly, "$.timing.measured_iteration_seconds", nil},
		{benchmark.RuleTimingElapsed, "less than measured", timing("benchmark_elapsed_seconds", 0.01), ranksOnly, "$.timing.benchmark_elapsed_seconds", nil},

		{benchmark.RulePoint, "batch 0", point(set("batch_size", 0)), mergedOnly, ".point.batch_size", nil},
		{benchmark.RulePoint, "tokens", point(set("total_kv_read_tokens", -1)), mergedOnly, ".point.total_kv_read_tokens", nil},
		{benchmark.RulePointPhase, "prefill only", rankOf(-1, func(r m) { r["config"].(m)["mode"] = "prefill" }), mergedOnly, ".point.point_type", nil},
		{benchmark.RulePointIDs, "of the group", groupOf(set("benchmark_id", 9)), ranksOnly, ".benchmark_id", also(benchmark.RuleResultMismatch)},
		{benchmark.RuleGroupComplete, "false", groupOf(set("complete", false)), everything, ".complete", nil},
		{benchmark.RuleGroupRanks, "expected", groupOf(set("expected_dp_ranks", l{1, 0})), everything, ".expected_dp_ranks", nil},
		{benchmark.RuleGroupRanks, "a rank without result", groupOf(func(g m) { g["rank_results"] = g["rank_results"].(l)[:1] }), ranksOnly, ".rank_results", nil},
		{benchmark.RuleGroupWallTime, "not the slowest", groupOf(set("wall_time", 0.0200000001)), ranksOnly, ".wall_time", nil},
		{benchmark.RuleGroupsDiffer, "unknown member", benchmarktest.Options{Rank: func(r int, root m) {
			at(root, "iteration_groups", 1).(m)["x"] = r
		}}, ranksOnly, "$.iteration_groups[1].x", nil},
		{benchmark.RuleResultMismatch, "wall time", rankOf(1, func(r m) { at(r, "results", 3, "fpms", 0).(m)["wall_time"] = 0.5 }), ranksOnly, "$.results[3].fpms[0].wall_time", nil},
		{benchmark.RuleResultMismatch, "point", rankOf(1, func(r m) { at(r, "results", 3, "point").(m)["batch_size"] = 3 }), ranksOnly, "$.results[3].point.batch_size", nil},
		{benchmark.RuleResultMismatch, "the same twice", rankOf(1, func(r m) { r["results"].(l)[3] = at(r, "results", 2) }), ranksOnly, "$.results[3].point.benchmark_id", nil},
		{benchmark.RuleFPMCount, "none", groupOf(func(g m) { at(g, "rank_results", 1).(m)["fpms"] = l{} }), ranksOnly, ".fpms", also(benchmark.RuleResultMismatch)},
		{benchmark.RuleFPMCounter, "another", benchmarktest.Options{FPM: fpmOf(1, 4, set("counter_id", 3))}, everything, "fpms[0].counter_id", nil},
		{benchmark.RuleFPMRank, "another", benchmarktest.Options{FPM: fpmOf(1, 4, set("dp_rank", 0))}, everything, "fpms[0].dp_rank", nil},
		{benchmark.RuleFPMWallTime, "text", benchmarktest.Options{FPM: fpmOf(1, 4, set("wall_time", "slow"))}, everything, "fpms[0].wall_time", nil},
		{benchmark.RuleFPMShape, "batch", benchmarktest.Options{FPM: fpmOf(1, 4, func(f m) { f["scheduled_requests"].(m)["num_decode_requests"] = 3 })}, everything, ".num_decode_requests", nil},

		{benchmark.RuleProtocol, "identity", protocolOf(set("content_identity", "v2")), everything, ".content_identity", nil},
		{benchmark.RuleProtocol, "schema", protocolOf(set("schema_version", 2)), everything, ".schema_version", nil},
		{benchmark.RuleProtocolSettings, "seed", protocolOf(set("content_seed", 0)), everything, ".content_seed", nil},
		{benchmark.RuleProtocolSettings, "mode", protocolOf(set("synthetic_content", "lorem")), everything, ".synthetic_content", nil},
		{benchmark.RuleProtocolSettings, "unobserved", protocolOf(set("unobserved", l{""})), everything, ".unobserved", nil},
		{benchmark.RuleProtocolSettings, "preparation", protocolOf(set("preparation", m{
			"warmup_iterations": 5, "prefill_real_seed": 1, "decode_real_kv_warmup": true, "giant_kv_threshold": 1, "giant_kv_repeats": 1,
		})), everything, ".prefill_real_seed", nil},
		{benchmark.RuleExecutionContract, "clock", protocolOf(func(p m) { p["execution_evidence"].(m)["timing_clock"] = "wall" }), everything, ".timing_clock", nil},
		{benchmark.RuleProtocolMixed, "a legacy rank", none, func(t *testing.T, s *benchmarktest.Set) []*benchmark.File {
			legacy := benchmarktest.New(t, benchmarktest.Options{Legacy: true})
			return append(rankFiles(t, s)[:1], file(t, "legacy.json", legacy.RankDocs[1]))
		}, "$.measurement_protocol", also(benchmark.RuleProtocolAbsent, benchmark.RuleGroupsDiffer)},
		{benchmark.RuleProtocolMismatch, "seed", rankOf(1, func(r m) { r["measurement_protocol"].(m)["content_seed"] = "1" }), ranksOnly, ".content_seed", nil},

		{benchmark.RuleProtocolAbsent, "legacy", benchmarktest.Options{Legacy: true}, everything, "$.measurement_protocol", nil},
		{benchmark.RuleMeasurement, "absent", benchmarktest.Options{FPM: fpmOf(1, 4, del("benchmark_measurement"))}, everything, ".benchmark_measurement", nil},
		{benchmark.RuleMeasurement, "schema", measurementOf(set("schema_version", 2)), everything, ".benchmark_measurement", nil},
		{benchmark.RuleMeasurementRank, "another", measurementOf(set("dp_rank", 0)), everything, ".dp_rank", nil},
		{benchmark.RuleMeasurementGrid, "another", prep("grid_digest", "x"), everything, ".grid_digest", nil},
		{benchmark.RuleMeasurementOrder, "another", prep("completed_points_before", 2), everything, ".completed_points_before", nil},
		{benchmark.RuleMeasurementRegime, "another", prep("kv_seed_regime", "fake"), everything, ".kv_seed_regime", nil},
		{benchmark.RulePointKey, "of another point", measurementOf(set("point_key", strings.Repeat("0", 64))), everything, ".point_key", nil},
		{benchmark.RulePromptEvidence, "status", prompts(set("status", "lost")), everything, ".prompts.status", nil},
		{benchmark.RulePromptEvidence, "digest with unavailable", prompts(func(p m) { p["status"], p["requests"] = "unavailable", l{} }), everything, ".prompts", also(benchmark.RulePromptUnavailable)},
		{benchmark.RulePromptEvidence, "slot", prompts(func(p m) { at(p, "requests", 1).(m)["slot"] = 5 }), everything, ".requests[1].slot", nil},
		{benchmark.RulePromptEvidence, "no digest", prompts(set("sha256", "abc")), everything, ".prompts.sha256", nil},
		{benchmark.RulePromptDigest, "another", prompts(set("sha256", strings.Repeat("a", 64))), everything, ".prompts.sha256", nil},
		{benchmark.RulePromptUnavailable, "a note", prompts(func(p m) { p["status"], p["requests"], p["sha256"] = "unavailable", l{}, nil }), everything, ".prompts", nil},
		{benchmark.RuleRawSamples, "none", measurementOf(set("raw_fpms", l{})), everything, ".raw_fpms", nil},
		{benchmark.RuleRawSamples, "more than expected", measurementOf(set("expected_internal_samples", 4)), everything, ".raw_fpms", nil},
		{benchmark.RuleRawIdentity, "counter", rawSet("counter_id", 1), everything, ".raw_fpms[1].counter_id", nil},
		{benchmark.RuleRawIdentity, "worker", rawSet("worker_id", "7"), everything, ".raw_fpms[1].worker_id", nil},
		{benchmark.RuleRawWallTime, "negative", sampleOf(1, func(r, s m) { r["wall_time"] = -1.0; s["timing"].(m)["start_monotonic"] = nil }), everything, ".raw_fpms[1].wall_time", nil},
		{benchmark.RuleRetainedSample, "there", benchmarktest.Options{FPM: fpmOf(1, 4, func(f m) {
			f["benchmark_sample"] = at(f, "benchmark_measurement", "raw_fpms", 2, "benchmark_sample")
		})}, everything, ".benchmark_sample", nil},
		{benchmark.RuleSampleWithout, "there", benchmarktest.Options{NoExecution: true, FPM: fpmOf(1, 4, func(f m) {
			at(f, "benchmark_measurement", "raw_fpms", 1).(m)["benchmark_sample"] = m{}
		})}, everything, ".benchmark_sample", nil},
		{benchmark.RuleSampleIndex, "another", smpSet("sample_index", 0), everything, ".sample_index", nil},
		{benchmark.RuleForwardIndex, "repeated", sampleOf(1, func(_, s m) { s["forward_index"] = s["forward_index"].(int) - 1 }), everything, ".forward_index", nil},
		{benchmark.RuleTimingBasis, "gpu", timeSet("basis", "cuda_event"), everything, ".timing.basis", nil},
		{benchmark.RuleTimingInterval, "not the wall time", sampleOf(1, func(_, s m) {
			tm := s["timing"].(m)
			tm["start_monotonic"] = tm["start_monotonic"].(float64) - 2e-9 // beyond 1e-9
		}), everything, ".timing", nil},
		{benchmark.RuleTimingInterval, "backwards", timeSet("start_monotonic", 1e9), everything, ".start_monotonic", nil},
		{benchmark.RuleTimingInterval, "no end", timeSet("end_monotonic", nil), everything, ".end_monotonic", nil},
		{benchmark.RuleGraphStatus, "absent", graphOf(del("status")), everything, ".cudagraph.status", nil},
		{benchmark.RuleGraphObserved, "null mode is not NONE", graphOf(set("runtime_mode", nil)), everything, ".runtime_mode", nil},
		{benchmark.RuleGraphObserved, "unknown mode", graphOf(set("runtime_mode", "PARTIAL")), everything, ".runtime_mode", nil},
		{benchmark.RuleGraphObserved, "no count", graphOf(set("num_padded_tokens", nil)), everything, ".num_padded_tokens", nil},
		{benchmark.RuleGraphPadding, "difference", graphOf(set("num_paddings", 1)), everything, ".num_paddings", nil},
		{benchmark.RuleGraphPadding, "less than unpadded", graphOf(set("num_unpadded_tokens", 1000)), everything, ".num_padded_tokens", nil},
		{benchmark.RuleGraphUnavailable, "NONE for not observed", graphOf(func(g m) {
			for k := range g {
				g[k] = nil
			}
			g["status"], g["runtime_mode"] = "unavailable", "NONE"
		}), everything, ".runtime_mode", nil},
		{benchmark.RuleEstimateMethod, "mean", estimate("method", "mean"), everything, ".estimate.method", nil},
		{benchmark.RuleEstimateMethod, "single of five", estimate("method", "single_step"), everything, ".estimate.method", nil},
		{benchmark.RuleEstimateIndices, "with the admission step", estimate("raw_sample_indices", l{0, 1, 2, 3, 4}), everything, ".raw_sample_indices", nil},
		{benchmark.RuleEstimateIndices, "one left out", estimate("raw_sample_indices", l{1, 2, 4}), everything, ".raw_sample_indices", nil},
		{benchmark.RuleEstimateValue, "lower median", benchmarktest.Options{FPM: fpmOf(0, 4, func(f m) {
			f["wall_time"] = at(f, "benchmark_measurement", "raw_fpms", 3, "wall_time")
		})}, everything, "fpms[0].wall_time", nil},

		{benchmark.RuleWarmup, "status", warmupOf(func(w, _ m) { w["status"] = "lost" }), ranksOnly, "$.warmup_evidence.status", nil},
		{benchmark.RuleWarmup, "unavailable with records", warmupOf(func(w, _ m) { w["status"] = "unavailable" }), ranksOnly, "$.warmup_evidence.records", nil},
		{benchmark.RuleWarmupWithout, "no contract", benchmarktest.Options{NoExecution: true, Rank: func(_ int, root m) { root["warmup_evidence"] = m{} }}, ranksOnly, "$.warmup_evidence", nil},
		{benchmark.RuleWarmupRecord, "kind", record("kind", "coffee"), ranksOnly, ".kind", nil},
		{benchmark.RuleWarmupRecord, "status", warmupOf(func(_, r m) { r["status"], r["validation"] = "paused", m{"status": "not_performed"} }), ranksOnly, ".status", nil},
		{benchmark.RuleWarmupValidation, "passed but failed", record("status", "failed"), ranksOnly, ".validation.status", nil},
		{benchmark.RuleWarmupValidation, "unknown", record("validation", m{"status": "maybe"}), ranksOnly, ".validation.status", nil},
		{benchmark.RuleWarmupRange, "backwards", record("forward_index_end", 1), ranksOnly, ".forward_index_end", nil},
		{benchmark.RuleWarmupRange, "completed without end", record("forward_index_end", nil), ranksOnly, ".forward_index_end", nil},
		{benchmark.RuleWarmupCount, "another", record("observed_forward_count", 1), ranksOnly, ".observed_forward_count", nil},
		{benchmark.RuleWarmupOrder, "before the one before", rankOf(1, func(root m) { at(root, "warmup_evidence", "records", 0).(m)["completed_points_before"] = 3 }), ranksOnly, ".completed_points_before", nil},
		{benchmark.RuleWarmupReference, "more than there are", prep("warmup_records_before", 4), everything, ".warmup_records_before", nil},
		{benchmark.RuleWarmupReference, "null", prep("warmup_records_before", nil), everything, ".warmup_records_before", nil},
		{benchmark.RuleWarmupReference, "a count of nothing", rankOf(1, set("warmup_evidence", m{"status": "unavailable", "records": l{}})), ranksOnly, ".warmup_records_before", nil},
		{benchmark.RuleWarmupOverlap, "ends later", warmupOf(func(_, r m) { r["forward_index_end"], r["observed_forward_count"] = 8+1, 3 }), ranksOnly, ".warmup_records_before", nil},
		{benchmark.RuleWarmupOverlap, "still running", warmupOf(func(_, r m) {
			r["status"], r["forward_index_end"], r["validation"] = "running", nil, m{"status": "not_performed"}
		}), ranksOnly, ".warmup_records_before", nil},

		{benchmark.RuleEngine, "shape", rankOf(-1, func(r m) { r["engine"].(m)["model"] = "a model" }), everything, "$.engine.model", nil},
		{benchmark.RuleEngine, "resolved in the artifact", engine(set("resolution", "worker_probe")), ranksOnly, "$.engine.resolution", nil},
		{benchmark.RuleEngine, "graph resolution", benchmarktest.Options{Rank: func(_ int, r m) { at(r, "engine", "graph").(m)["resolution"] = "final" }}, ranksOnly, "$.engine.graph.resolution", nil},
		{benchmark.RuleEngineIdentity, "block size", engine(func(e m) { e["kv_cache"].(m)["block_size"] = 16 }), ranksOnly, "$.engine.kv_cache.block_size", nil},
		{benchmark.RuleEngineIdentity, "null is not absent", engine(set("speculative2", nil)), ranksOnly, "$.engine.speculative2", nil},
		{benchmark.RuleEngineDegraded, "capture error", engine(func(e m) { e["capture_error"] = "boom"; delete(e, "graph") }), ranksOnly, "$.engine.capture_error", nil},
		{benchmark.RuleEngineDegraded, "missing", rankOf(1, del("engine")), ranksOnly, "$.engine", nil},
		{benchmark.RuleEngineAbsent, "nobody", benchmarktest.Options{NoEngine: true}, everything, "$.engine", nil},
		{benchmark.RuleEngineRank, "dense models", engine(func(e m) { e["parallel"].(m)["data_parallel_rank"] = 0 }), ranksOnly, ".data_parallel_rank", nil},

		{benchmark.RuleMergedDP, "ranks", mergedOf(func(r m) { r["dp"].(m)["ranks"] = l{1, 0} }), mergedOnly, "$.dp.ranks", also(benchmark.RuleProbeCoverage)},
		{benchmark.RuleMergedDP, "managed size", mergedOf(func(r m) { r["dp"].(m)["managed_size"] = 1 }), mergedOnly, "$.dp.managed_size", nil},
		{benchmark.RuleMergedResults, "order", mergedOf(func(r m) { x := r["results"].(l); x[0], x[1] = x[1], x[0] }), mergedOnly, "$.results", nil},
		{benchmark.RuleMergedResults, "wall time", mergedOf(func(r m) { at(r, "results", 1, "fpms", 0).(m)["wall_time"] = 1.0 }), mergedOnly, "$.results[1].fpms[0].wall_time", nil},
		{benchmark.RuleMergedWarmup, "a rank without", mergedOf(func(r m) { delete(r["rank_warmup_evidence"].(m), "1") }), mergedOnly, `$.rank_warmup_evidence["1"]`, nil},
		{benchmark.RuleMergedWarmup, "a rank's own left over", mergedOf(func(r m) { r["warmup_evidence"] = at(r, "rank_warmup_evidence", "0") }), mergedOnly, "$.warmup_evidence", nil},
		{benchmark.RuleMergedTiming, "not the slowest", mergedOf(func(r m) { r["timing"].(m)["benchmark_elapsed_seconds"] = 90.25 }), mergedOnly, "$.timing.benchmark_elapsed_seconds", nil},
		{benchmark.RuleMergedTiming, "a rank without", mergedOf(func(r m) { delete(at(r, "timing", "rank_benchmark_elapsed_seconds").(m), "0") }), mergedOnly, "$.timing.rank_benchmark_elapsed_seconds", nil},
		{benchmark.RuleMergedEngine, "a rank's number", mergedOf(func(r m) { at(r, "engine", "parallel").(m)["data_parallel_rank"] = 0 }), mergedOnly, ".data_parallel_rank", nil},
		{benchmark.RuleMergedPaths, "rank files", mergedOf(func(r m) { r["rank_files"] = l{"/tmp/a.json"} }), mergedOnly, "$.rank_files", nil},
		{benchmark.RuleMergedPaths, "sidecar without engine", benchmarktest.Options{NoEngine: true, Merged: set("worker_probe_path", "/tmp/x.json")}, mergedOnly, "$.worker_probe_path", also(benchmark.RuleEngineAbsent, benchmark.RuleSidecarMissing)},
		{benchmark.RuleMergedDiffers, "unknown member", mergedOf(func(r m) { r["x_future"].(m)["kept"] = "changed" }), everything, "$.x_future.kept", nil},
		{benchmark.RuleMergedDiffers, "engine", mergedOf(func(r m) { at(r, "engine", "kv_cache").(m)["block_size"] = 16 }), everything, "$.engine.kv_cache.block_size", nil},

		{benchmark.RuleSidecar, "version", sidecarOf(set("schema_version", 2)), mergedOnly, "$.schema_version", nil},
		{benchmark.RuleSidecarRunID, "stale", sidecarOf(set("run_id", "yesterday")), mergedOnly, "$.run_id", nil},
		{benchmark.RuleSidecarRanks, "a rank without", sidecarOf(func(r m) { delete(r["ranks"].(m), "1") }), mergedOnly, `$.ranks["1"]`, nil},
		{benchmark.RuleSidecarRanks, "a rank too many", sidecarOf(func(r m) { r["ranks"].(m)["7"] = at(r, "ranks", "1") }), mergedOnly, `$.ranks["7"]`, nil},
		{benchmark.RuleSidecarRanks, "rank file", sidecarOf(func(r m) { at(r, "ranks", "1").(m)["rank_file"] = "/tmp/x.json" }), mergedOnly, ".rank_file", nil},
		{benchmark.RuleProbeEvidence, "no replies kept", sidecarOf(func(r m) { delete(at(r, "ranks", "1").(m), "worker_probe") }), mergedOnly, ".worker_probe", nil},
		{benchmark.RuleProbeResponses, "index", probeOf(func(_, p m) { at(p, "responses", 1).(m)["rpc_index"] = 0 }), mergedOnly, ".rpc_index", nil},
		{benchmark.RuleProbeResponses, "scope", probeOf(func(_, p m) { p["scope"] = "all" }), mergedOnly, ".scope", nil},
		{benchmark.RuleProbeResponses, "another reply for a rank", sidecarOf(func(r m) {
			at(r, "ranks", "1", "worker_probe", "responses", 0, "response").(m)["extra"] = 1
		}), mergedOnly, `$.ranks["1"].worker_probe.responses[0].response`, nil},
		{benchmark.RuleProbeIssues, "invented", probeOf(func(_, p m) { at(p, "responses", 1).(m)["issues"] = l{"odd"} }), mergedOnly, ".issues", nil},
		{benchmark.RuleProbeObserved, "left out", probeOf(func(_, p m) { p["coverage"].(m)["observed_workers"] = l{} }), mergedOnly, ".observed_workers", nil},
		{benchmark.RuleProbeCoverage, "complete", probeOf(func(_, p m) { p["coverage"].(m)["complete"] = false }), mergedOnly, ".complete", nil},
		{benchmark.RuleProbeCoverage, "missing ranks", probeOf(func(_, p m) { p["coverage"].(m)["missing_dp_ranks"] = l{0} }), mergedOnly, ".missing_dp_ranks", nil},
		{benchmark.RuleProbeDisagree, "invented", probeOf(func(_, p m) { p["disagreements"] = l{"attention_backends"} }), mergedOnly, ".disagreements", nil},
		{benchmark.RuleProbeError, "no such text", probeOf(func(_, p m) { p["error"] = "it broke" }), mergedOnly, ".error", nil},
		{benchmark.RuleProbeResolution, "overstated", benchmarktest.Options{
			Replies: func(r l) l { return r[:1] }, Sidecar: func(r m) { r["merged"].(m)["resolution"] = "worker_probe" },
		}, mergedOnly, "$.merged.resolution", also(benchmark.RuleProbeIncomplete)},
		{benchmark.RuleProbeResolved, "no representative", probeOf(func(r, _ m) { r["resolved"] = nil }), mergedOnly, ".resolved", nil},
		{benchmark.RuleProbeAttention, "another backend", probeOf(func(r, _ m) { r["attention"].(m)["backend_resolved"] = "FLASHINFER" }), mergedOnly, ".backend_resolved", nil},
		{benchmark.RuleProbeIncomplete, "rank 1 did not answer", benchmarktest.Options{Replies: func(r l) l { return r[:1] }}, mergedOnly, ".worker_probe", nil},
		{benchmark.RuleSidecarMissing, "not given", none, func(t *testing.T, s *benchmarktest.Set) []*benchmark.File { return mergedFiles(t, s)[:1] }, "$.worker_probe_path", nil},
		{benchmark.RuleSidecarAlone, "alone", none, func(t *testing.T, s *benchmarktest.Set) []*benchmark.File { return mergedFiles(t, s)[1:] }, "$", nil},
	}
}

func also(rules ...benchmark.Rule) []benchmark.Rule { return rules }

var benchmarkLimits = doc.Limits{Bytes: 1 << 20}

// TestEachRuleAlone breaks one rule at a time and wants findings of that rule, and of no other.
func TestEachRuleAlone(t *testing.T) {
	for _, b := range brokenRules() {
		t.Run(string(b.rule)+"/"+b.name, func(t *testing.T) {
			r := benchmark.Verify(b.pick(t, benchmarktest.New(t, b.o)))
			rules := ruleSet(r)
			if !rules[b.rule] {
				t.Fatalf("no finding of %s:\n%s", b.rule, show(r))
			}
			for _, rule := range append(b.also, b.rule) {
				delete(rules, rule)
			}
			if len(rules) > 0 {
				t.Errorf("other findings:\n%s", show(r))
			}
			hasError := false
			for _, f := range r.Findings {
				hasError = hasError || f.Severity == benchmark.SeverityError
				if f.Rule == b.rule && !strings.Contains(f.Path, b.path) {
					t.Errorf("path %s has no %s in it", f.Path, b.path)
				}
				if f.File == "" || f.Found == "" || f.Expected == "" || strings.Contains(f.Expected, "%!") {
					t.Errorf("incomplete: %+v", f)
				}
			}
			if r.Valid == hasError {
				t.Errorf("valid %v with findings:\n%s", r.Valid, show(r))
			}
		})
	}
}

// TestEveryRuleIsShown goes through the constants of rules.go.
func TestEveryRuleIsShown(t *testing.T) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "rules.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[benchmark.Rule]bool{}
	for _, b := range brokenRules() {
		shown[b.rule] = true
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		if !shown[benchmark.Rule(value)] {
			t.Errorf("no set that breaks %s", value)
		}
		return true
	})
}
