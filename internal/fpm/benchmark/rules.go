package benchmark

// Rule names one rule of the artifacts. Where a comment gives a place, it is a section of Dynamo's "Forward Pass Metrics
// Trace Reference"; "merge" stands for what Dynamo's merger of rank artifacts refuses.
type Rule string

// Rules of a file as such.
const (
	RuleReadable     Rule = "readable"      // the file can be opened and read
	RuleJSON         Rule = "json"          // it is one JSON document within the limits of size, depth and number of values
	RuleDuplicateKey Rule = "duplicate_key" // no key occurs twice in one object; readers disagree on which one counts
	RuleArtifactType Rule = "artifact_type" // a rank artifact, a merged artifact or a worker-probe sidecar
	RuleSchema       Rule = "schema"        // schema_version 2: Measurement Protocol, first paragraph
)

// Rules of identity: what makes files parts of one run (merge).
const (
	RuleRunID         Rule = "run_id"
	RuleGridDigest    Rule = "grid_digest"
	RuleDPRank        Rule = "dp_rank"        // dp.rank is a rank of 0..dp.size-1
	RuleDPSize        Rule = "dp_size"        // dp.size >= 1 and the same in every file
	RuleDuplicateRank Rule = "duplicate_rank" // one file per rank
	RuleMissingRank   Rule = "missing_rank"   // a note: a rank file that was not given
)

// Rules of status and coverage (merge).
const (
	RuleStatus             Rule = "status"              // complete or partial; a failed run has no trustworthy numbers
	RuleStatusConsistency  Rule = "status_consistency"  // valid, usable, stop_reason, error and counts fit the status
	RuleStatusMismatch     Rule = "status_mismatch"     // the ranks of one run ended alike
	RuleCoverageArithmetic Rule = "coverage_arithmetic" // counts >= 0, completed + skipped <= expected
	RuleCoverageCounts     Rule = "coverage_counts"     // lengths of results, iteration_groups, skipped_points
	RuleCoverageMismatch   Rule = "coverage_mismatch"   // the same for every rank
	RuleSkippedPoint       Rule = "skipped_point"       // a skipped point says which point and why
)

// Rules of points, iteration groups and retained FPMs (merge).
const (
	RulePoint          Rule = "point"           // point_type, batch_size and token counts
	RulePointPhase     Rule = "point_phase"     // the benchmark's mode covers the point's phase
	RulePointIDs       Rule = "point_ids"       // benchmark ids are 1..N without gaps or repeats
	RuleGroupComplete  Rule = "group_complete"  // every expected rank measured: complete true
	RuleGroupRanks     Rule = "group_ranks"     // expected_dp_ranks and rank_results are ranks 0..size-1 in order
	RuleFPMCount       Rule = "fpm_count"       // exactly one retained FPM per rank and point
	RuleFPMCounter     Rule = "fpm_counter"     // its counter_id is the benchmark id
	RuleFPMRank        Rule = "fpm_rank"        // its dp_rank is the rank it stands under
	RuleFPMWallTime    Rule = "fpm_wall_time"   // its wall_time is finite and >= 0
	RuleFPMShape       Rule = "fpm_shape"       // a note: its scheduled counts are the point's
	RuleGroupWallTime  Rule = "group_wall_time" // the group's wall_time is the slowest rank's
	RuleGroupsDiffer   Rule = "groups_differ"   // every rank file holds the same groups
	RuleResultMismatch Rule = "result_mismatch" // results repeat the rank's part of the groups
)

// Rules of the run's timing (merge).
const (
	RuleTiming            Rule = "timing"              // present, timestamps in RFC 3339, finite seconds >= 0
	RuleTimingMeasuredSum Rule = "timing_measured_sum" // measured_iteration_seconds is the sum over the groups
	RuleTimingElapsed     Rule = "timing_elapsed"      // measured <= elapsed
)

// Rules of the measurement protocol: Measurement Protocol, first table.
const (
	RuleProtocol          Rule = "protocol"           // its fixed values
	RuleProtocolSettings  Rule = "protocol_settings"  // content seed, mode, pool tag, preparation, unobserved
	RuleExecutionContract Rule = "execution_contract" // execution_evidence: Per-Sample Timing, Warmup Completion Evidence
	RuleProtocolMixed     Rule = "protocol_mixed"     // legacy artifacts and artifacts with a protocol do not mix
	RuleProtocolMismatch  Rule = "protocol_mismatch"  // all ranks of a run record the same protocol
	RuleProtocolAbsent    Rule = "protocol_absent"    // a note: a legacy run, without measurement evidence
)

// Rules of the benchmark_measurement of a retained FPM: Measurement Protocol, second table.
const (
	RuleMeasurement       Rule = "measurement"           // present with a protocol, absent without, schema_version 1
	RuleMeasurementRank   Rule = "measurement_rank"      // dp_rank
	RuleMeasurementGrid   Rule = "measurement_grid"      // preparation.grid_digest
	RuleMeasurementOrder  Rule = "measurement_order"     // preparation.completed_points_before
	RuleMeasurementRegime Rule = "measurement_regime"    // preparation.kv_seed_regime is the result's
	RulePointKey          Rule = "point_key"             // SHA-256 of the point's coordinates
	RulePromptEvidence    Rule = "prompt_evidence"       // status and what it allows; slots in order; hex digests
	RulePromptDigest      Rule = "prompt_digest"         // a note: the combined digest follows from the requests
	RulePromptUnavailable Rule = "prompt_unavailable"    // a note: missing evidence is not a match
	RuleRawSamples        Rule = "raw_samples"           // 1..expected_internal_samples observations
	RuleRawIdentity       Rule = "raw_identity"          // each of the same point, rank and worker
	RuleRawWallTime       Rule = "raw_wall_time"         // finite, >= 0
	RuleRetainedSample    Rule = "retained_sample"       // the retained FPM has no benchmark_sample: it may be a median
	RuleSampleWithout     Rule = "sample_without"        // no benchmark_sample without an execution contract
	RuleEstimateMethod    Rule = "estimate_method"       // single_step, last_step or adjacent_upper_median
	RuleEstimateIndices   Rule = "estimate_indices"      // the samples that the method takes
	RuleEstimateValue     Rule = "estimate_value"        // the retained wall_time is their reduction
	RuleSampleIndex       Rule = "sample_index"          // position in raw_fpms: Per-Sample Timing
	RuleForwardIndex      Rule = "forward_index"         // rises strictly within a rank
	RuleTimingBasis       Rule = "timing_basis"          // schedule_to_output or inter_output
	RuleTimingInterval    Rule = "timing_interval"       // end - start is wall_time; a null start is unknown
	RuleGraphStatus       Rule = "cudagraph_status"      // observed or unavailable
	RuleGraphObserved     Rule = "cudagraph_observed"    // NONE, PIECEWISE or FULL, with token counts
	RuleGraphPadding      Rule = "cudagraph_padding"     // padded >= unpadded, and paddings is their difference
	RuleGraphUnavailable  Rule = "cudagraph_unavailable" // every value null: missing evidence never means NONE
)

// Rules of warm-up evidence: Warmup Completion Evidence.
const (
	RuleWarmup           Rule = "warmup"            // status and records, and what unavailable allows
	RuleWarmupWithout    Rule = "warmup_without"    // none without an execution contract
	RuleWarmupRecord     Rule = "warmup_record"     // kind, status
	RuleWarmupValidation Rule = "warmup_validation" // passed only when completed, failed only when failed
	RuleWarmupRange      Rule = "warmup_range"      // start <= end; a completed attempt has an end
	RuleWarmupCount      Rule = "warmup_count"      // observed_forward_count is end - start
	RuleWarmupOrder      Rule = "warmup_order"      // records are in order of completed points
	RuleWarmupReference  Rule = "warmup_reference"  // warmup_records_before counts existing records
	RuleWarmupOverlap    Rule = "warmup_overlap"    // they ended before the point's first forward
)

// Rules of the engine block: Engine Provenance.
const (
	RuleEngine         Rule = "engine"          // objects where objects belong; placeholders where the capture ended
	RuleEngineIdentity Rule = "engine_identity" // ranks share one engine configuration
	RuleEngineDegraded Rule = "engine_degraded" // a note: capture_error, or no block while other ranks have one
	RuleEngineAbsent   Rule = "engine_absent"   // a note: nobody captured the engine
	RuleEngineRank     Rule = "engine_rank"     // a note: parallel.data_parallel_rank is another rank than dp.rank
)

// Rules of the merged artifact: Measurement Protocol, Warmup Completion Evidence, Engine Provenance, last paragraphs.
const (
	RuleMergedDP      Rule = "merged_dp"      // ranks, source_ranks, managed_size, global_size
	RuleMergedResults Rule = "merged_results" // results are the groups laid flat, rank by rank
	RuleMergedWarmup  Rule = "merged_warmup"  // rank_warmup_evidence has every rank
	RuleMergedTiming  Rule = "merged_timing"  // elapsed is the slowest rank's
	RuleMergedEngine  Rule = "merged_engine"  // parallel.data_parallel_rank null, capture_errors by rank
	RuleMergedPaths   Rule = "merged_paths"   // worker_probe_path only with an engine block
	RuleMergedDiffers Rule = "merged_differs" // it is what its rank files merge to
)

// Rules of the worker-probe sidecar: Worker Probe Sidecar, Worker Probe Coverage.
const (
	RuleSidecar         Rule = "sidecar"          // schema, schema_version, objects where objects belong
	RuleSidecarRunID    Rule = "sidecar_run_id"   // of the merged artifact's run; otherwise it is stale
	RuleSidecarRanks    Rule = "sidecar_ranks"    // one result per contributing rank, with its rank_file
	RuleSidecarMissing  Rule = "sidecar_missing"  // a note: the artifact names a sidecar that was not given
	RuleSidecarAlone    Rule = "sidecar_alone"    // a note: without its merged artifact nothing can be recomputed
	RuleProbeEvidence   Rule = "probe_evidence"   // a note: no replies kept, so the result cannot be recomputed
	RuleProbeResponses  Rule = "probe_responses"  // schema, scope, rpc_index, every result keeps every reply
	RuleProbeIssues     Rule = "probe_issues"     // issues follow from the replies
	RuleProbeObserved   Rule = "probe_observed"   // coverage.observed_workers
	RuleProbeCoverage   Rule = "probe_coverage"   // the other coverage fields
	RuleProbeDisagree   Rule = "probe_disagree"   // disagreements
	RuleProbeError      Rule = "probe_error"      // error
	RuleProbeResolution Rule = "probe_resolution" // resolution
	RuleProbeResolved   Rule = "probe_resolved"   // resolved and resolved_scope
	RuleProbeAttention  Rule = "probe_attention"  // the attention summaries
	RuleProbeIncomplete Rule = "probe_incomplete" // a note: not every worker was seen, or they disagree
)
