package collector

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// fpmFamily is the name and help text of a family.
type fpmFamily struct{ name, help string }

// The families of forward passes, beside the gauges below.
var (
	fpmUp         = fpmFamily{"dynamo_fpm_up", "Whether the rank sent a record, heartbeats included, within stale_after."}
	fpmLastRecord = fpmFamily{"dynamo_fpm_last_record_timestamp_seconds", "Unix time of the rank's last record, heartbeats included."}
	fpmLastPass   = fpmFamily{"dynamo_fpm_last_forward_pass_seconds", "Wall time of the last timed forward pass; timing_scope says what was timed."}
	fpmWorkerInfo = fpmFamily{"dynamo_fpm_worker_info", "Always 1; joins worker_id with the hexadecimal form that Dynamo's component metrics use."}

	fpmPasses          = fpmFamily{"dynamo_fpm_forward_passes_total", "Forward passes by what they ran."}
	fpmHeartbeats      = fpmFamily{"dynamo_fpm_heartbeats_total", "Records of an idle scheduler."}
	fpmSeconds         = fpmFamily{"dynamo_fpm_forward_pass_seconds_total", "Summed wall time of forward passes; timing_scope says what was timed."}
	fpmPrefillTokens   = fpmFamily{"dynamo_fpm_prefill_tokens_total", "Prompt tokens computed, without cached prefixes."}
	fpmPrefillKVTokens = fpmFamily{"dynamo_fpm_prefill_kv_tokens_total", "KV tokens read by prefills: prefix cache hits and earlier chunks."}
	fpmDecodeRequests  = fpmFamily{"dynamo_fpm_decode_requests_total", "Decode requests run, summed over passes; without speculation the tokens generated."}
	fpmDecodeKVTokens  = fpmFamily{"dynamo_fpm_decode_kv_tokens_total", "KV tokens read by decodes, summed over passes."}

	fpmDuration     = fpmFamily{"dynamo_fpm_forward_pass_duration_seconds", "Wall time of forward passes; timing_scope says what was timed."}
	fpmBatchSize    = fpmFamily{"dynamo_fpm_decode_batch_size", "Decode requests per forward pass, of passes with decodes."}
	fpmPrefillBatch = fpmFamily{"dynamo_fpm_prefill_batch_tokens", "Prompt tokens per forward pass, of passes with prefills."}

	fpmRecords  = fpmFamily{"dynamo_fpm_records_total", "Records accepted, heartbeats included."}
	fpmLost     = fpmFamily{"dynamo_fpm_records_lost_total", "Records missing from the publisher's sequence numbers."}
	fpmGaps     = fpmFamily{"dynamo_fpm_sequence_gaps_total", "Gaps in the publisher's sequence numbers."}
	fpmRestarts = fpmFamily{"dynamo_fpm_publisher_restarts_total", "Times the publisher began to count anew."}
	fpmRejected = fpmFamily{"dynamo_fpm_records_rejected_total", "Messages that held no usable record, by reason."}

	fpmMismatches = fpmFamily{"omni_exporter_fpm_rank_mismatches_total", "Records of another data-parallel rank than the endpoint's port or path stands for."}
	fpmConflicts  = fpmFamily{"omni_exporter_fpm_identity_conflicts_total", "Records whose worker and rank another endpoint published just before."}
)

// fpmGauge is a figure of the last active record.
type fpmGauge struct {
	family fpmFamily
	value  func(*fpm.Record) float64
}

// fpmGauges are the gauges in the order of fpmIdentity.gauges.
var fpmGauges = [...]fpmGauge{
	{
		fpmFamily{"dynamo_fpm_scheduled_prefill_requests", "Requests with prefill work in the last active forward pass."},
		func(r *fpm.Record) float64 { return float64(r.Scheduled.NumPrefillRequests) },
	},
	{
		fpmFamily{"dynamo_fpm_scheduled_prefill_tokens", "Prompt tokens computed in the last active forward pass."},
		func(r *fpm.Record) float64 { return float64(r.Scheduled.SumPrefillTokens) },
	},
	{
		fpmFamily{"dynamo_fpm_scheduled_prefill_kv_tokens", "KV tokens read by prefills in the last active forward pass."},
		func(r *fpm.Record) float64 { return float64(r.Scheduled.SumPrefillKVTokens) },
	},
	{
		fpmFamily{"dynamo_fpm_scheduled_prefill_length_stddev", "Standard deviation of prompt lengths in the last active forward pass, in tokens."},
		func(r *fpm.Record) float64 { return math.Sqrt(r.Scheduled.VarPrefillLength) },
	},
	{
		fpmFamily{"dynamo_fpm_scheduled_decode_requests", "Decode requests in the last active forward pass."},
		func(r *fpm.Record) float64 { return float64(r.Scheduled.NumDecodeRequests) },
	},
	{
		fpmFamily{"dynamo_fpm_scheduled_decode_kv_tokens", "Summed context length of the decodes in the last active forward pass, in tokens."},
		func(r *fpm.Record) float64 { return float64(r.Scheduled.SumDecodeKVTokens) },
	},
	{
		fpmFamily{"dynamo_fpm_scheduled_decode_kv_tokens_stddev", "Standard deviation of the decodes' context lengths in the last active forward pass, in tokens."},
		func(r *fpm.Record) float64 { return math.Sqrt(r.Scheduled.VarDecodeKVTokens) },
	},
	{
		fpmFamily{"dynamo_fpm_queued_prefill_requests", "Requests waiting for prefill at the last active forward pass."},
		func(r *fpm.Record) float64 { return float64(r.Queued.NumPrefillRequests) },
	},
	{
		fpmFamily{"dynamo_fpm_queued_prefill_tokens", "Prompt tokens waiting at the last active forward pass, cached prefixes included."},
		func(r *fpm.Record) float64 { return float64(r.Queued.SumPrefillTokens) },
	},
	{
		fpmFamily{"dynamo_fpm_queued_prefill_length_stddev", "Standard deviation of the waiting prompts' lengths at the last active forward pass, in tokens."},
		func(r *fpm.Record) float64 { return math.Sqrt(r.Queued.VarPrefillLength) },
	},
	{
		fpmFamily{"dynamo_fpm_queued_decode_requests", "Preempted requests and those waiting for remote KV blocks at the last active forward pass."},
		func(r *fpm.Record) float64 { return float64(r.Queued.NumDecodeRequests) },
	},
	{
		fpmFamily{"dynamo_fpm_queued_decode_kv_tokens", "Summed context length of the waiting decodes at the last active forward pass, in tokens."},
		func(r *fpm.Record) float64 { return float64(r.Queued.SumDecodeKVTokens) },
	},
	{
		fpmFamily{"dynamo_fpm_queued_decode_kv_tokens_stddev", "Standard deviation of the waiting decodes' context lengths at the last active forward pass, in tokens."},
		func(r *fpm.Record) float64 { return math.Sqrt(r.Queued.VarDecodeKVTokens) },
	},
}

// fpmDurationBuckets span a decode step of a small model to a long prefill.
func fpmDurationBuckets() []float64 {
	return []float64{.001, .002, .005, .01, .015, .02, .03, .05, .075, .1, .15, .25, .5, 1, 2.5, 5, 10}
}

// fpmBatchBuckets are powers of two, as the batch sizes that engines capture graphs for.
func fpmBatchBuckets() []float64 { return prometheus.ExponentialBuckets(1, 2, 12) }

// fpmPrefillBuckets end beyond the usual limits of tokens per batch.
func fpmPrefillBuckets() []float64 { return prometheus.ExponentialBuckets(16, 2, 14) }

func newFPMOrigin(endpoint string) *fpmOrigin {
	counter := func(f fpmFamily) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{
			Name: f.name, Help: f.help, ConstLabels: prometheus.Labels{"endpoint": valid(endpoint)},
		})
	}
	return &fpmOrigin{mismatches: counter(fpmMismatches), conflicts: counter(fpmConflicts)}
}
