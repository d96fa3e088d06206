package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
	"unicode/utf8"

	"github.com/go-faster/jx"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// ReasonSchema says that the row is of another schema than [Schema]. The other reasons for refusing a row are those of records.
const ReasonSchema fpm.Reason = "schema"

// RowReasons returns every reason for which a row can be refused, in stable order.
func RowReasons() []fpm.Reason {
	return []fpm.Reason{
		fpm.ReasonDuplicate, fpm.ReasonValue, fpm.ReasonLimit, fpm.ReasonMalformed, ReasonSchema, fpm.ReasonVersion,
	}
}

const (
	// MaxLine bounds a row, in bytes. Rows are 500 to 800 bytes long.
	MaxLine = 1 << 20
	// maxText bounds the texts of a row, which become label values.
	maxText = 256
	// maxUnixMilli is the end of the year 9999.
	maxUnixMilli = 253402300799999
)

// rowDecoder reads rows. It keeps the texts it saw last, so that the rows of one producer allocate next to nothing.
type rowDecoder struct {
	json  jx.Decoder
	known [8]string
	next  int
}

// present says which parts of a row were there.
type present struct{ schema, mode, observed, fpm bool }

// decode reads one line into r, but for Series. Unknown keys are passed over, absent parts of the record are zero
// (version: 1); the envelope must be whole. It returns nil or the reason for refusing the row.
func (d *rowDecoder) decode(line []byte, r *Row) *fpm.RejectError {
	*r = Row{Line: line, Record: fpm.Record{Version: 1}}
	switch {
	case len(line) > MaxLine:
		return reject(fpm.ReasonLimit, "", "row of %d bytes, at most %d", len(line), MaxLine)
	case !utf8.Valid(line):
		return reject(fpm.ReasonMalformed, "", "the row is not UTF-8")
	}
	d.json.ResetBytes(line)
	var has present
	err := d.json.ObjBytes(func(_ *jx.Decoder, key []byte) error {
		switch string(key) {
		case "timestamp":
			ms, err := d.count("timestamp")
			r.Elapsed = time.Duration(min(ms, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
			return err
		case "event":
			return d.event(r, &has)
		default:
			return d.json.Skip()
		}
	})
	if err != nil {
		return refusal(err)
	}
	if err := d.json.Skip(); !errors.Is(err, io.EOF) {
		return reject(fpm.ReasonMalformed, "", "more follows the row's object")
	}
	return check(r, has)
}

// refusal makes any error the reason for refusing a row.
func refusal(err error) *fpm.RejectError {
	if rejected, ok := errors.AsType[*fpm.RejectError](err); ok {
		return rejected
	}
	return reject(fpm.ReasonMalformed, "", "%v", err)
}

func check(r *Row, has present) *fpm.RejectError {
	switch {
	case !has.schema:
		return reject(ReasonSchema, "event.schema", "absent")
	case !has.mode:
		return reject(fpm.ReasonMalformed, "event.capture_mode", "absent")
	case !has.observed:
		return reject(fpm.ReasonMalformed, "event.observed_at_unix_ms", "absent")
	case !has.fpm:
		return reject(fpm.ReasonMalformed, "event.fpm", "absent")
	}
	if err := r.Record.Validate(); err != nil {
		return refusal(err)
	}
	return nil
}

func (d *rowDecoder) event(r *Row, has *present) error {
	return d.json.ObjBytes(func(_ *jx.Decoder, key []byte) error {
		switch string(key) {
		case "schema":
			schema, err := d.text("event.schema")
			if err == nil && schema != Schema {
				return reject(ReasonSchema, "event.schema", "%q is not %q", schema, Schema)
			}
			has.schema = true
			return err
		case "source":
			return d.source(r)
		case "capture_mode":
			mode, err := d.text("event.capture_mode")
			has.mode = true
			switch {
			case err != nil:
				return err
			case mode == fpm.CaptureFull.String():
				r.Capture = fpm.CaptureFull
			case mode == fpm.CaptureSampled.String():
				r.Capture = fpm.CaptureSampled
			default:
				return reject(fpm.ReasonValue, "event.capture_mode", "%q is neither sampled nor full", mode)
			}
			return nil
		case "observed_at_unix_ms":
			ms, err := d.count("event.observed_at_unix_ms")
			if err == nil && ms > maxUnixMilli {
				return reject(fpm.ReasonValue, "event.observed_at_unix_ms", "%d is after the year 9999", ms)
			}
			r.Observed, has.observed = time.UnixMilli(int64(ms)), true
			return err
		case "fpm":
			has.fpm = true
			return d.record(&r.Record)
		default:
			return d.json.Skip()
		}
	})
}

func (d *rowDecoder) source(r *Row) error {
	return d.json.ObjBytes(func(_ *jx.Decoder, key []byte) (err error) {
		switch string(key) {
		case "namespace":
			r.Namespace, err = d.text("event.source.namespace")
		case "component":
			r.Component, err = d.text("event.source.component")
		case "producer_id":
			r.Producer, err = d.text("event.source.producer_id")
		default:
			err = d.json.Skip()
		}
		return err
	})
}

func (d *rowDecoder) record(r *fpm.Record) error {
	return d.json.ObjBytes(func(_ *jx.Decoder, key []byte) (err error) {
		switch string(key) {
		case "version":
			r.Version, err = d.count("version")
		case "worker_id":
			r.WorkerID, err = d.text("worker_id")
		case "dp_rank":
			r.DPRank, err = d.count("dp_rank")
		case "counter_id":
			r.CounterID, err = d.count("counter_id")
		case "timing_scope":
			r.TimingScope, err = d.text("timing_scope")
		case "wall_time":
			r.WallTime, err = d.number("wall_time")
		case "scheduled_requests":
			err = d.scheduled(&r.Scheduled)
		case "queued_requests":
			err = d.queued(&r.Queued)
		default:
			err = d.json.Skip()
		}
		return err
	})
}

func (d *rowDecoder) scheduled(s *fpm.Scheduled) error {
	return d.json.ObjBytes(func(_ *jx.Decoder, key []byte) (err error) {
		switch string(key) {
		case "num_prefill_requests":
			s.NumPrefillRequests, err = d.count("scheduled_requests.num_prefill_requests")
		case "sum_prefill_tokens":
			s.SumPrefillTokens, err = d.count("scheduled_requests.sum_prefill_tokens")
		case "var_prefill_length":
			s.VarPrefillLength, err = d.number("scheduled_requests.var_prefill_length")
		case "sum_prefill_kv_tokens":
			s.SumPrefillKVTokens, err = d.count("scheduled_requests.sum_prefill_kv_tokens")
		case "num_decode_requests":
			s.NumDecodeRequests, err = d.count("scheduled_requests.num_decode_requests")
		case "sum_decode_kv_tokens":
			s.SumDecodeKVTokens, err = d.count("scheduled_requests.sum_decode_kv_tokens")
		case "var_decode_kv_tokens":
			s.VarDecodeKVTokens, err = d.number("scheduled_requests.var_decode_kv_tokens")
		default:
			err = d.json.Skip()
		}
		return err
	})
}

func (d *rowDecoder) queued(q *fpm.Queued) error {
	return d.json.ObjBytes(func(_ *jx.Decoder, key []byte) (err error) {
		switch string(key) {
		case "num_prefill_requests":
			q.NumPrefillRequests, err = d.count("queued_requests.num_prefill_requests")
		case "sum_prefill_tokens":
			q.SumPrefillTokens, err = d.count("queued_requests.sum_prefill_tokens")
		case "var_prefill_length":
			q.VarPrefillLength, err = d.number("queued_requests.var_prefill_length")
		case "num_decode_requests":
			q.NumDecodeRequests, err = d.count("queued_requests.num_decode_requests")
		case "sum_decode_kv_tokens":
			q.SumDecodeKVTokens, err = d.count("queued_requests.sum_decode_kv_tokens")
		case "var_decode_kv_tokens":
			q.VarDecodeKVTokens, err = d.number("queued_requests.var_decode_kv_tokens")
		default:
			err = d.json.Skip()
		}
		return err
	})
}

// count reads a whole number from 0. Integral floats are taken, as they are from streams.
func (d *rowDecoder) count(name string) (uint64, error) {
	num, err := d.jsonNumber(name)
	if err != nil {
		return 0, err
	}
	if n, ok := digits(num); ok {
		return n, nil
	}
	v, err := num.Float64()
	if err != nil || !(v >= 0 && v <= fpm.MaxCount) || v != math.Trunc(v) {
		return 0, reject(fpm.ReasonValue, name, "%.40s is no count", num)
	}
	return uint64(v), nil
}

// digits returns the value of a plain number of up to 19 digits.
func digits(num jx.Num) (n uint64, ok bool) {
	if len(num) > 19 {
		return 0, false
	}
	for _, c := range num {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}

func (d *rowDecoder) number(name string) (float64, error) {
	num, err := d.jsonNumber(name)
	if err != nil {
		return 0, err
	}
	v, err := num.Float64()
	if err != nil {
		return 0, reject(fpm.ReasonValue, name, "%.40s is no float64", num)
	}
	return v, nil
}

func (d *rowDecoder) jsonNumber(name string) (jx.Num, error) {
	if kind := d.json.Next(); kind != jx.Number {
		return nil, reject(fpm.ReasonMalformed, name, "a number is needed, %s found", kind)
	}
	num, err := d.json.Num()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return num, nil
}

func (d *rowDecoder) text(name string) (string, error) {
	b, err := d.json.StrBytes()
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if len(b) > maxText {
		return "", reject(fpm.ReasonLimit, name, "text of %d bytes, at most %d", len(b), maxText)
	}
	for _, s := range d.known {
		if s == string(b) {
			return s, nil
		}
	}
	s := string(bytes.ToValidUTF8(b, []byte("\uFFFD"))) // an escape may spell half a surrogate pair
	d.known[d.next] = s
	d.next = (d.next + 1) % len(d.known)
	return s, nil
}

func reject(reason fpm.Reason, field, format string, args ...any) *fpm.RejectError {
	return &fpm.RejectError{Reason: reason, Field: field, Detail: fmt.Sprintf(format, args...)}
}
