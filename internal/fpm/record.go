// Package fpm holds the forward-pass-metrics record: what one step of an engine's scheduler did, as NVIDIA Dynamo,
// vLLM and SGLang publish it, and how it is read from and written to MessagePack.
//
// The package knows nothing of transports or of Prometheus. Package stream brings records from ZMQ publishers.
package fpm

import "math"

// DefaultTimingScope names what wall_time measures when a record carries no timing_scope: the interval between two
// model outputs as the scheduler sees it (Dynamo's scheduler for vLLM). Native vLLM sends a CUDA-event time and says
// so, e.g. "model_step_cuda". The two must never be mixed in one series.
const DefaultTimingScope = "scheduler_wall_time"

// Record is one ForwardPassMetrics message. The JSON form is the "fpm" object of dynamo.fpm.trace.v1 rows.
type Record struct {
	// Version is the schema version; records written before there was one read as 1.
	Version uint64 `json:"version"`
	// WorkerID identifies the engine: in Dynamo the decimal connection id, in native vLLM any text, possibly empty.
	WorkerID string `json:"worker_id"`
	// DPRank is the global data-parallel rank.
	DPRank uint64 `json:"dp_rank"`
	// CounterID is the publisher's sequence number; in benchmark artifacts the id of the benchmark point.
	CounterID uint64 `json:"counter_id"`
	// TimingScope says what WallTime measures; empty in all but native vLLM. See Scope.
	TimingScope string `json:"timing_scope,omitempty"`
	// WallTime is in seconds. 0 in heartbeats and, in old publishers, in the first pass after idling.
	WallTime float64 `json:"wall_time"`
	// Scheduled is what this forward pass ran.
	Scheduled Scheduled `json:"scheduled_requests"`
	// Queued is what was waiting meanwhile.
	Queued Queued `json:"queued_requests"`
}

// Scheduled describes the batch of one forward pass. Counts are per pass, variances are population variances.
type Scheduled struct {
	NumPrefillRequests uint64 `json:"num_prefill_requests"`
	// SumPrefillTokens counts the tokens computed in this pass, without cached prefixes and earlier chunks.
	SumPrefillTokens uint64 `json:"sum_prefill_tokens"`
	// VarPrefillLength is the variance of the full prompt lengths, in tokens squared.
	VarPrefillLength float64 `json:"var_prefill_length"`
	// SumPrefillKVTokens counts KV tokens that the prefills read: prefix-cache hits and earlier chunks.
	SumPrefillKVTokens uint64 `json:"sum_prefill_kv_tokens"`
	NumDecodeRequests  uint64 `json:"num_decode_requests"`
	// SumDecodeKVTokens is the summed context length of the decodes, in tokens.
	SumDecodeKVTokens uint64 `json:"sum_decode_kv_tokens"`
	// VarDecodeKVTokens is the variance of the decodes' context lengths, in tokens squared.
	VarDecodeKVTokens float64 `json:"var_decode_kv_tokens"`
}

// Queued describes the waiting requests: new prompts as prefills; preempted requests and those that wait for remote
// KV blocks as decodes. Prefill tokens are raw prompt lengths, cache hits not subtracted.
type Queued struct {
	NumPrefillRequests uint64  `json:"num_prefill_requests"`
	SumPrefillTokens   uint64  `json:"sum_prefill_tokens"`
	VarPrefillLength   float64 `json:"var_prefill_length"`
	NumDecodeRequests  uint64  `json:"num_decode_requests"`
	SumDecodeKVTokens  uint64  `json:"sum_decode_kv_tokens"`
	VarDecodeKVTokens  float64 `json:"var_decode_kv_tokens"`
}

// Kind classifies a forward pass by what it ran.
type Kind uint8

// The kinds of forward passes. KindNone is a record of no pass: a heartbeat, or a step that scheduled nothing.
const (
	KindNone Kind = iota
	KindPrefill
	KindDecode
	KindMixed
)

// String returns the kind as a label value, "" for KindNone.
func (k Kind) String() string {
	switch k {
	case KindPrefill:
		return "prefill"
	case KindDecode:
		return "decode"
	case KindMixed:
		return "mixed"
	default:
		return ""
	}
}

// Kind returns what the pass ran.
func (r *Record) Kind() Kind {
	prefill := r.Scheduled.NumPrefillRequests > 0 || r.Scheduled.SumPrefillTokens > 0
	decode := r.Scheduled.NumDecodeRequests > 0 || r.Scheduled.SumDecodeKVTokens > 0
	switch {
	case prefill && decode:
		return KindMixed
	case prefill:
		return KindPrefill
	case decode:
		return KindDecode
	default:
		return KindNone
	}
}

// Heartbeat reports whether the record is an idle publisher's sign of life: no time and not one count. A wall time of
// zero alone is not enough, old publishers send it with a real pass (ai-dynamo/dynamo#7779).
func (r *Record) Heartbeat() bool {
	return r.WallTime == 0 && r.Kind() == KindNone && r.Scheduled.SumPrefillKVTokens == 0 &&
		r.Queued.NumPrefillRequests == 0 && r.Queued.SumPrefillTokens == 0 &&
		r.Queued.NumDecodeRequests == 0 && r.Queued.SumDecodeKVTokens == 0
}

// Scope returns what WallTime measures, DefaultTimingScope when the record does not say.
func (r *Record) Scope() string {
	if r.TimingScope == "" {
		return DefaultTimingScope
	}
	return r.TimingScope
}

// Bounds of believable values. Beyond them a record is refused with ReasonValue.
const (
	// MaxWallTime is an hour in seconds: an early mocker sent Unix timestamps as wall time (ai-dynamo/dynamo#8032).
	MaxWallTime = 3600.0
	// MaxCount is where float64, and so every Prometheus counter, stops counting in ones.
	MaxCount = 1 << 53
	// MaxDPRank is the last port number: ranks bind base port + rank.
	MaxDPRank = 65535
)

// Validate checks the values that encodings cannot rule out. It returns nil or a *RejectError.
func (r *Record) Validate() error {
	if rej := r.validate(); rej != nil {
		return rej
	}
	return nil
}

func (r *Record) validate() *RejectError {
	if r.Version != 1 && r.Version != 2 {
		// 2 was sent by an early native vLLM publisher with the fields of 1 (vllm#52061).
		return rejectf(ReasonVersion, "version", "unsupported version %d", r.Version)
	}
	if r.DPRank > MaxDPRank {
		return rejectf(ReasonValue, "dp_rank", "%d is above %d", r.DPRank, MaxDPRank)
	}
	if math.IsNaN(r.WallTime) || r.WallTime < 0 || r.WallTime > MaxWallTime {
		return rejectf(ReasonValue, "wall_time", "%v is not between 0 and %v seconds", r.WallTime, MaxWallTime)
	}
	s, q := &r.Scheduled, &r.Queued
	for i, n := range [...]uint64{
		s.NumPrefillRequests, s.SumPrefillTokens, s.SumPrefillKVTokens, s.NumDecodeRequests, s.SumDecodeKVTokens,
		q.NumPrefillRequests, q.SumPrefillTokens, q.NumDecodeRequests, q.SumDecodeKVTokens,
	} {
		if n > MaxCount {
			return rejectf(ReasonValue, countField(i), "%d is above 2^53", n)
		}
	}
	for i, v := range [...]float64{s.VarPrefillLength, s.VarDecodeKVTokens, q.VarPrefillLength, q.VarDecodeKVTokens} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return rejectf(ReasonValue, varianceField(i), "%v is no variance", v)
		}
	}
	return nil
}

// countField names the i-th count that Validate looks at.
func countField(i int) string {
	return [...]string{
		"scheduled_requests.num_prefill_requests", "scheduled_requests.sum_prefill_tokens",
		"scheduled_requests.sum_prefill_kv_tokens", "scheduled_requests.num_decode_requests",
		"scheduled_requests.sum_decode_kv_tokens", "queued_requests.num_prefill_requests",
		"queued_requests.sum_prefill_tokens", "queued_requests.num_decode_requests",
		"queued_requests.sum_decode_kv_tokens",
	}[i]
}

// varianceField names the i-th variance that Validate looks at.
func varianceField(i int) string {
	return [...]string{
		"scheduled_requests.var_prefill_length", "scheduled_requests.var_decode_kv_tokens",
		"queued_requests.var_prefill_length", "queued_requests.var_decode_kv_tokens",
	}[i]
}
