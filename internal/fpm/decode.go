package fpm

import (
	"bytes"
	"errors"
	"io"
	"math"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// Bounds of one MessagePack payload. Records are 411 to some 500 bytes long, with 8 keys at most in a map and maps
// two deep; the bounds leave room for fields that are not yet known and none for an attack.
const (
	MaxPayload   = 64 << 10
	maxText      = 256
	maxMapFields = 64
	maxDepth     = 4
)

// Decoder reads records from MessagePack. It keeps its buffers and the texts it saw last, so that decoding the
// records of one publisher allocates nothing. It must not be used by two goroutines at once.
type Decoder struct {
	whole []byte // the payload being decoded
	in    bytes.Reader
	mp    *msgpack.Decoder
	text  [maxText]byte
	known [4]string // worker ids and scopes seen last
	next  int
}

// NewDecoder returns a ready Decoder.
func NewDecoder() *Decoder {
	d := &Decoder{}
	d.mp = msgpack.NewDecoder(&d.in)
	return d
}

// Decode reads one record from payload into r, whose former content is lost. Any integer width, integral floats for
// integers, integers for floats and any order of keys are accepted, unknown keys are skipped and absent ones are
// zero (version: 1). It returns nil or the reason for refusing the payload, and never keeps the payload.
func (d *Decoder) Decode(payload []byte, r *Record) *RejectError {
	*r = Record{Version: 1}
	if len(payload) > MaxPayload {
		return rejectf(ReasonLimit, "", "payload of %d bytes, at most %d", len(payload), MaxPayload)
	}
	d.whole = payload
	defer func() { d.whole = nil }()
	d.in.Reset(payload)
	d.mp.Reset(&d.in)
	if rej := d.record(r); rej != nil {
		return rej
	}
	if d.in.Len() > 0 {
		return rejectf(ReasonMalformed, "", "%d bytes follow the record", d.in.Len())
	}
	return r.validate()
}

func (d *Decoder) record(r *Record) *RejectError {
	return d.fields("", 1, func(key []byte) (bool, *RejectError) {
		var rej *RejectError
		switch string(key) {
		case "version":
			r.Version, rej = d.integer("version")
			if rej == nil && r.Version != 1 && r.Version != 2 {
				// At once: what the other fields mean in that version is not known.
				rej = r.validate()
			}
		case "worker_id":
			r.WorkerID, rej = d.string("worker_id")
		case "dp_rank":
			r.DPRank, rej = d.integer("dp_rank")
		case "counter_id":
			r.CounterID, rej = d.integer("counter_id")
		case "timing_scope":
			r.TimingScope, rej = d.string("timing_scope")
		case "wall_time":
			r.WallTime, rej = d.float("wall_time")
		case "scheduled_requests":
			rej = d.fields("scheduled_requests", 2, func(key []byte) (bool, *RejectError) {
				return d.scheduled(key, &r.Scheduled)
			})
		case "queued_requests":
			rej = d.fields("queued_requests", 2, func(key []byte) (bool, *RejectError) {
				return d.queued(key, &r.Queued)
			})
		default:
			return false, nil
		}
		return true, rej
	})
}

func (d *Decoder) scheduled(key []byte, s *Scheduled) (known bool, rej *RejectError) {
	switch string(key) {
	case "num_prefill_requests":
		s.NumPrefillRequests, rej = d.integer("scheduled_requests.num_prefill_requests")
	case "sum_prefill_tokens":
		s.SumPrefillTokens, rej = d.integer("scheduled_requests.sum_prefill_tokens")
	case "var_prefill_length":
		s.VarPrefillLength, rej = d.float("scheduled_requests.var_prefill_length")
	case "sum_prefill_kv_tokens":
		s.SumPrefillKVTokens, rej = d.integer("scheduled_requests.sum_prefill_kv_tokens")
	case "num_decode_requests":
		s.NumDecodeRequests, rej = d.integer("scheduled_requests.num_decode_requests")
	case "sum_decode_kv_tokens":
		s.SumDecodeKVTokens, rej = d.integer("scheduled_requests.sum_decode_kv_tokens")
	case "var_decode_kv_tokens":
		s.VarDecodeKVTokens, rej = d.float("scheduled_requests.var_decode_kv_tokens")
	default:
		return false, nil
	}
	return true, rej
}

func (d *Decoder) queued(key []byte, q *Queued) (known bool, rej *RejectError) {
	switch string(key) {
	case "num_prefill_requests":
		q.NumPrefillRequests, rej = d.integer("queued_requests.num_prefill_requests")
	case "sum_prefill_tokens":
		q.SumPrefillTokens, rej = d.integer("queued_requests.sum_prefill_tokens")
	case "var_prefill_length":
		q.VarPrefillLength, rej = d.float("queued_requests.var_prefill_length")
	case "num_decode_requests":
		q.NumDecodeRequests, rej = d.integer("queued_requests.num_decode_requests")
	case "sum_decode_kv_tokens":
		q.SumDecodeKVTokens, rej = d.integer("queued_requests.sum_decode_kv_tokens")
	case "var_decode_kv_tokens":
		q.VarDecodeKVTokens, rej = d.float("queued_requests.var_decode_kv_tokens")
	default:
		return false, nil
	}
	return true, rej
}

// fields reads the map called name and hands its keys to field, which reads the value and reports true, or reports
// false to have it skipped.
func (d *Decoder) fields(name string, depth int, field func(key []byte) (bool, *RejectError)) *RejectError {
	code, rej := d.peek(name)
	if rej != nil {
		return rej
	}
	if kindOf(code) != kindMap {
		return rejectf(ReasonMalformed, name, "a map is needed, code 0x%02x found", code)
	}
	n, err := d.mp.DecodeMapLen()
	if err != nil {
		return malformed(name, err)
	}
	if n > maxMapFields {
		return rejectf(ReasonLimit, name, "map of %d fields, at most %d", n, maxMapFields)
	}
	for range n {
		key, rej := d.bytes(name)
		if rej != nil {
			return rej
		}
		known, rej := field(key)
		if rej == nil && !known {
			rej = d.skip(name, depth)
		}
		if rej != nil {
			return rej
		}
	}
	return nil
}

// peek returns the next code. The library's own PeekCode costs two indirect calls.
func (d *Decoder) peek(name string) (byte, *RejectError) {
	if d.in.Len() == 0 {
		return 0, malformed(name, io.EOF)
	}
	return d.whole[len(d.whole)-d.in.Len()], nil
}

// integer reads a count in any of MessagePack's spellings.
func (d *Decoder) integer(name string) (uint64, *RejectError) {
	code, rej := d.peek(name)
	if rej != nil {
		return 0, rej
	}
	switch kindOf(code) {
	case kindUint:
		n, err := d.mp.DecodeUint64()
		if err != nil {
			return 0, malformed(name, err)
		}
		return n, nil
	case kindInt:
		n, err := d.mp.DecodeInt64()
		if err != nil {
			return 0, malformed(name, err)
		}
		if n < 0 {
			return 0, rejectf(ReasonValue, name, "%d is negative", n)
		}
		return uint64(n), nil
	case kindFloat:
		f, err := d.mp.DecodeFloat64()
		if err != nil {
			return 0, malformed(name, err)
		}
		if !(f >= 0 && f <= MaxCount) || f != math.Trunc(f) {
			return 0, rejectf(ReasonValue, name, "%v is no count", f)
		}
		return uint64(f), nil
	default:
		return 0, rejectf(ReasonMalformed, name, "an integer is needed, code 0x%02x found", code)
	}
}

// float reads a number; whether it is believable is for Validate to say.
func (d *Decoder) float(name string) (float64, *RejectError) {
	code, rej := d.peek(name)
	if rej != nil {
		return 0, rej
	}
	switch kindOf(code) {
	case kindFloat:
		f, err := d.mp.DecodeFloat64()
		if err != nil {
			return 0, malformed(name, err)
		}
		return f, nil
	case kindUint, kindInt:
		n, rej := d.integer(name)
		return float64(n), rej
	default:
		return 0, rejectf(ReasonMalformed, name, "a number is needed, code 0x%02x found", code)
	}
}

// bytes reads a text into the decoder's buffer. The result is valid until the next call.
func (d *Decoder) bytes(name string) ([]byte, *RejectError) {
	code, rej := d.peek(name)
	if rej != nil {
		return nil, rej
	}
	if kindOf(code) != kindText {
		return nil, rejectf(ReasonMalformed, name, "a text is needed, code 0x%02x found", code)
	}
	n, err := d.mp.DecodeBytesLen()
	if err != nil {
		return nil, malformed(name, err)
	}
	if n > maxText {
		return nil, rejectf(ReasonLimit, name, "text of %d bytes, at most %d", n, maxText)
	}
	// Not the library's ReadFull: it would cost an indirect call per key for the same copy.
	if m, _ := d.in.Read(d.text[:n]); m < n {
		return nil, malformed(name, io.ErrUnexpectedEOF)
	}
	return d.text[:n], nil
}

// string reads a text that will be a label value.
func (d *Decoder) string(name string) (string, *RejectError) {
	b, rej := d.bytes(name)
	if rej != nil {
		return "", rej
	}
	for _, s := range d.known {
		if s == string(b) {
			return s, nil
		}
	}
	if !utf8.Valid(b) {
		return "", rejectf(ReasonMalformed, name, "text is not UTF-8: %.64q", b)
	}
	if bytes.IndexByte(b, 0) >= 0 { // no metrics page can carry it
		return "", rejectf(ReasonMalformed, name, "text holds a NUL byte: %.64q", b)
	}
	s := string(b)
	d.known[d.next] = s
	d.next = (d.next + 1) % len(d.known)
	return s, nil
}

// skip passes over one value of an unknown field without trusting its lengths.
func (d *Decoder) skip(name string, depth int) *RejectError {
	code, rej := d.peek(name)
	if rej != nil {
		return rej
	}
	var (
		n   int
		err error
	)
	switch kindOf(code) {
	case kindMap, kindArray:
		if depth >= maxDepth {
			return rejectf(ReasonLimit, name, "nested more than %d deep", maxDepth)
		}
		if kindOf(code) == kindMap {
			n, err = d.mp.DecodeMapLen()
			n *= 2
		} else {
			n, err = d.mp.DecodeArrayLen()
		}
		for range n {
			if err != nil {
				break
			}
			if rej := d.skip(name, depth+1); rej != nil {
				return rej
			}
		}
	case kindText, kindBin:
		n, err = d.mp.DecodeBytesLen()
		err = d.discard(n, err)
	case kindExt:
		_, n, err = d.mp.DecodeExtHeader()
		err = d.discard(n, err)
	default:
		err = d.mp.Skip()
	}
	if err != nil {
		return malformed(name, err)
	}
	return nil
}

// discard moves past n bytes, all of which must be there.
func (d *Decoder) discard(n int, err error) error {
	if err != nil {
		return err
	}
	if n < 0 || n > d.in.Len() {
		return io.ErrUnexpectedEOF
	}
	_, err = d.in.Seek(int64(n), io.SeekCurrent)
	return err
}

func malformed(name string, err error) *RejectError {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &RejectError{Reason: ReasonMalformed, Field: name, Detail: "the payload ends too early"}
	}
	return &RejectError{Reason: ReasonMalformed, Field: name, Detail: err.Error()}
}

type valueKind uint8

const (
	kindOther valueKind = iota // nil, booleans, reserved codes
	kindUint
	kindInt
	kindFloat
	kindText
	kindBin
	kindMap
	kindArray
	kindExt
)

// kindOf sorts MessagePack's codes. The library's own number readers turn nil into 0 and negative numbers into huge
// ones, so the code is looked at first.
func kindOf(code byte) valueKind {
	switch {
	case code <= msgpcode.PosFixedNumHigh, code >= msgpcode.Uint8 && code <= msgpcode.Uint64:
		return kindUint
	case code >= msgpcode.NegFixedNumLow, code >= msgpcode.Int8 && code <= msgpcode.Int64:
		return kindInt
	case code == msgpcode.Float, code == msgpcode.Double:
		return kindFloat
	case msgpcode.IsFixedString(code), code >= msgpcode.Str8 && code <= msgpcode.Str32:
		return kindText
	case code >= msgpcode.Bin8 && code <= msgpcode.Bin32:
		return kindBin
	case msgpcode.IsFixedMap(code), code == msgpcode.Map16, code == msgpcode.Map32:
		return kindMap
	case msgpcode.IsFixedArray(code), code == msgpcode.Array16, code == msgpcode.Array32:
		return kindArray
	case msgpcode.IsExt(code):
		return kindExt
	default:
		return kindOther
	}
}
