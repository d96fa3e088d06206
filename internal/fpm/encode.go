package fpm

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

// AppendMsgpack appends the record's wire form to dst: a map of text keys in the publishers' order, the smallest
// unsigned integers, 64-bit floats. timing_scope is left out when empty, as Dynamo's own publishers do.
func (r *Record) AppendMsgpack(dst []byte) ([]byte, error) {
	buf := bytes.NewBuffer(dst)
	w := writer{enc: msgpack.NewEncoder(buf)}
	fields := 7
	if r.TimingScope != "" {
		fields++
	}
	w.open(fields)
	w.uint("version", r.Version)
	w.text("worker_id", r.WorkerID)
	w.uint("dp_rank", r.DPRank)
	w.uint("counter_id", r.CounterID)
	if r.TimingScope != "" {
		w.text("timing_scope", r.TimingScope)
	}
	w.float("wall_time", r.WallTime)

	s := &r.Scheduled
	w.key("scheduled_requests")
	w.open(7)
	w.uint("num_prefill_requests", s.NumPrefillRequests)
	w.uint("sum_prefill_tokens", s.SumPrefillTokens)
	w.float("var_prefill_length", s.VarPrefillLength)
	w.uint("sum_prefill_kv_tokens", s.SumPrefillKVTokens)
	w.uint("num_decode_requests", s.NumDecodeRequests)
	w.uint("sum_decode_kv_tokens", s.SumDecodeKVTokens)
	w.float("var_decode_kv_tokens", s.VarDecodeKVTokens)

	q := &r.Queued
	w.key("queued_requests")
	w.open(6)
	w.uint("num_prefill_requests", q.NumPrefillRequests)
	w.uint("sum_prefill_tokens", q.SumPrefillTokens)
	w.float("var_prefill_length", q.VarPrefillLength)
	w.uint("num_decode_requests", q.NumDecodeRequests)
	w.uint("sum_decode_kv_tokens", q.SumDecodeKVTokens)
	w.float("var_decode_kv_tokens", q.VarDecodeKVTokens)
	if w.err != nil {
		return dst, fmt.Errorf("encode forward-pass record: %w", w.err)
	}
	return buf.Bytes(), nil
}

// writer keeps the first error of a row of writes.
type writer struct {
	enc *msgpack.Encoder
	err error
}

func (w *writer) open(fields int) { w.err = errors.Join(w.err, w.enc.EncodeMapLen(fields)) }

func (w *writer) key(name string) { w.err = errors.Join(w.err, w.enc.EncodeString(name)) }

func (w *writer) uint(name string, v uint64) {
	w.key(name)
	w.err = errors.Join(w.err, w.enc.EncodeUint(v))
}

func (w *writer) float(name string, v float64) {
	w.key(name)
	w.err = errors.Join(w.err, w.enc.EncodeFloat64(v))
}

func (w *writer) text(name, v string) {
	w.key(name)
	w.err = errors.Join(w.err, w.enc.EncodeString(v))
}
