package trace

import (
	"strconv"
	"time"

	"github.com/go-faster/jx"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// Schema is the event.schema of the rows that are understood.
const Schema = "dynamo.fpm.trace.v1"

// Row is one line of a trace.
type Row struct {
	// Line is the row as it stands in the file, without the end of line. Rows that are to be written have none.
	Line []byte
	// Elapsed is how long the writer had been running.
	Elapsed time.Duration
	// Namespace, Component and Producer are the row's source. Producer is the raw id, not that of the file name.
	Namespace, Component, Producer string
	// Capture is fpm.CaptureSampled or fpm.CaptureFull.
	Capture fpm.Capture
	// Observed is when the record passed the writer, by its clock, in whole milliseconds.
	Observed time.Time
	Record   fpm.Record
	// Series is what the segments of the row's producer have in common, or the path of a file with another name.
	Series string
}

// AppendJSON appends the row and an end of line to dst: the keys in the order of Dynamo's FPM reference, variances
// included, floats with a fraction or exponent, as its writer does.
func (r *Row) AppendJSON(dst []byte) []byte {
	var e jx.Encoder
	e.SetBytes(dst)
	e.ObjStart()
	e.FieldStart("timestamp")
	e.Int64(r.Elapsed.Milliseconds())
	e.FieldStart("event")
	e.ObjStart()
	e.FieldStart("schema")
	e.Str(Schema)
	e.FieldStart("source")
	e.ObjStart()
	e.FieldStart("namespace")
	e.Str(r.Namespace)
	e.FieldStart("component")
	e.Str(r.Component)
	e.FieldStart("producer_id")
	e.Str(r.Producer)
	e.ObjEnd()
	e.FieldStart("capture_mode")
	e.Str(r.Capture.String())
	e.FieldStart("observed_at_unix_ms")
	e.Int64(r.Observed.UnixMilli())
	e.FieldStart("fpm")
	encodeRecord(&e, &r.Record)
	e.ObjEnd()
	e.ObjEnd()
	return append(e.Bytes(), '\n')
}

func encodeRecord(e *jx.Encoder, r *fpm.Record) {
	e.ObjStart()
	encodeCount(e, "version", r.Version)
	e.FieldStart("worker_id")
	e.Str(r.WorkerID)
	encodeCount(e, "dp_rank", r.DPRank)
	encodeCount(e, "counter_id", r.CounterID)
	if r.TimingScope != "" {
		e.FieldStart("timing_scope")
		e.Str(r.TimingScope)
	}
	encodeFloat(e, "wall_time", r.WallTime)

	s := &r.Scheduled
	e.FieldStart("scheduled_requests")
	e.ObjStart()
	encodeCount(e, "num_prefill_requests", s.NumPrefillRequests)
	encodeCount(e, "sum_prefill_tokens", s.SumPrefillTokens)
	encodeFloat(e, "var_prefill_length", s.VarPrefillLength)
	encodeCount(e, "sum_prefill_kv_tokens", s.SumPrefillKVTokens)
	encodeCount(e, "num_decode_requests", s.NumDecodeRequests)
	encodeCount(e, "sum_decode_kv_tokens", s.SumDecodeKVTokens)
	encodeFloat(e, "var_decode_kv_tokens", s.VarDecodeKVTokens)
	e.ObjEnd()

	q := &r.Queued
	e.FieldStart("queued_requests")
	e.ObjStart()
	encodeCount(e, "num_prefill_requests", q.NumPrefillRequests)
	encodeCount(e, "sum_prefill_tokens", q.SumPrefillTokens)
	encodeFloat(e, "var_prefill_length", q.VarPrefillLength)
	encodeCount(e, "num_decode_requests", q.NumDecodeRequests)
	encodeCount(e, "sum_decode_kv_tokens", q.SumDecodeKVTokens)
	encodeFloat(e, "var_decode_kv_tokens", q.VarDecodeKVTokens)
	e.ObjEnd()
	e.ObjEnd()
}

func encodeCount(e *jx.Encoder, name string, n uint64) {
	e.FieldStart(name)
	e.UInt64(n)
}

// encodeFloat writes 25 as 25.0: readers that tell floats from integers by their spelling then see a float.
func encodeFloat(e *jx.Encoder, name string, v float64) {
	e.FieldStart(name)
	var buf [32]byte
	text := strconv.AppendFloat(buf[:0], v, 'g', -1, 64)
	for _, c := range text {
		if c == '.' || c == 'e' {
			e.Raw(text)
			return
		}
	}
	e.Raw(append(text, '.', '0'))
}

// RowFunc takes a row, which is valid during the call. It returns nil, or why the row is refused after all.
type RowFunc func(*Row) *fpm.RejectError
