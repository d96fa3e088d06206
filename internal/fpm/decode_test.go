package fpm

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"
)

// The wire forms were packed byte by byte from the rules of the FPM struct, not with this package's encoder.
const (
	heartbeatHex = "87a776657273696f6e01a9776f726b65725f6964a434313932a764705f72616e6b00aa636f756e7465725f696407a977616c6c5f74696d65cb00000000000000" +
		"00b27363686564756c65645f726571756573747387b46e756d5f70726566696c6c5f726571756573747300b273756d5f70726566696c6c5f746f6b656e7300b2" +
		"7661725f70726566696c6c5f6c656e677468cb0000000000000000b573756d5f70726566696c6c5f6b765f746f6b656e7300b36e756d5f6465636f64655f7265" +
		"71756573747300b473756d5f6465636f64655f6b765f746f6b656e7300b47661725f6465636f64655f6b765f746f6b656e73cb0000000000000000af71756575" +
		"65645f726571756573747386b46e756d5f70726566696c6c5f726571756573747300b273756d5f70726566696c6c5f746f6b656e7300b27661725f7072656669" +
		"6c6c5f6c656e677468cb0000000000000000b36e756d5f6465636f64655f726571756573747300b473756d5f6465636f64655f6b765f746f6b656e7300b47661" +
		"725f6465636f64655f6b765f746f6b656e73cb0000000000000000"
	activeHex = "87a776657273696f6e01a9776f726b65725f6964a434313932a764705f72616e6b00aa636f756e7465725f69642aa977616c6c5f74696d65cb3f999999999999" +
		"9ab27363686564756c65645f726571756573747387b46e756d5f70726566696c6c5f726571756573747302b273756d5f70726566696c6c5f746f6b656e73cd01" +
		"00b27661725f70726566696c6c5f6c656e677468cb4059000000000000b573756d5f70726566696c6c5f6b765f746f6b656e7340b36e756d5f6465636f64655f" +
		"726571756573747303b473756d5f6465636f64655f6b765f746f6b656e73cd0400b47661725f6465636f64655f6b765f746f6b656e73cb4036800000000000af" +
		"7175657565645f726571756573747386b46e756d5f70726566696c6c5f726571756573747301b273756d5f70726566696c6c5f746f6b656e73cc80b27661725f" +
		"70726566696c6c5f6c656e677468cb0000000000000000b36e756d5f6465636f64655f726571756573747300b473756d5f6465636f64655f6b765f746f6b656e" +
		"7300b47661725f6465636f64655f6b765f746f6b656e73cb0000000000000000"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func heartbeat() Record { return Record{Version: 1, WorkerID: "4192", CounterID: 7} }

func active() Record {
	return Record{
		Version: 1, WorkerID: "4192", CounterID: 42, WallTime: 0.025,
		Scheduled: Scheduled{
			NumPrefillRequests: 2, SumPrefillTokens: 256, VarPrefillLength: 100, SumPrefillKVTokens: 64,
			NumDecodeRequests: 3, SumDecodeKVTokens: 1024, VarDecodeKVTokens: 22.5,
		},
		Queued: Queued{NumPrefillRequests: 1, SumPrefillTokens: 128},
	}
}

func TestVectors(t *testing.T) {
	native, long := active(), heartbeat()
	native.WorkerID, native.TimingScope = "worker-a", "model_step_cuda"
	long.WorkerID, long.CounterID = "7587888736726549301", 0
	for _, tc := range []struct {
		name   string
		record Record
		wire   string // the whole form or its beginning
		size   int
	}{
		{"heartbeat", heartbeat(), heartbeatHex, 411},
		{"active", active(), activeHex, 416},
		{"native vLLM", native, "88a776657273696f6e01a9776f726b65725f6964a8776f726b65722d61", 449},
		{"heartbeat of a long worker id", long, "87a776657273696f6e01a9776f726b65725f6964b337353837", 426},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wire, err := tc.record.AppendMsgpack([]byte("before"))
			if err != nil {
				t.Fatal(err)
			}
			wire = bytes.TrimPrefix(wire, []byte("before"))
			if len(wire) != tc.size || !strings.HasPrefix(hex.EncodeToString(wire), tc.wire) {
				t.Errorf("encoded to %d bytes %x, want %d bytes %s", len(wire), wire, tc.size, tc.wire)
			}
			var got Record
			if rej := NewDecoder().Decode(wire, &got); rej != nil {
				t.Fatal(rej)
			}
			if diff := cmp.Diff(tc.record, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	var got Record
	if rej := NewDecoder().Decode(unhex(t, activeHex), &got); rej != nil {
		t.Fatal(rej)
	}
	if diff := cmp.Diff(active(), got); diff != "" {
		t.Error(diff)
	}
}

// fields builds a payload from keys and values in the given order, in whatever spelling msgpack gives the Go values.
func fields(t testing.TB, kv ...any) []byte {
	t.Helper()
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	if err := enc.EncodeMapLen(len(kv) / 2); err != nil {
		t.Fatal(err)
	}
	for _, v := range kv {
		if raw, ok := v.(msgpack.RawMessage); ok {
			buf.Write(raw)
		} else if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	return buf.Bytes()
}

func TestAccepted(t *testing.T) {
	raw := func(h string) msgpack.RawMessage { return unhex(t, h) }
	scheduled := func(kv ...any) []byte {
		return fields(t, "scheduled_requests", msgpack.RawMessage(fields(t, kv...)))
	}
	want := func(edit func(*Record)) Record { r := Record{Version: 1}; edit(&r); return r }
	for _, tc := range []struct {
		name    string
		payload []byte
		want    Record
	}{
		{"empty map", fields(t), Record{Version: 1}},
		{"version 2", fields(t, "version", 2), Record{Version: 2}},
		{"first publishers: no version", fields(t, "wall_time", 0.5), want(func(r *Record) { r.WallTime = 0.5 })},
		{"map16", raw("de0001a764705f72616e6b05"), want(func(r *Record) { r.DPRank = 5 })},
		{"signed integer", fields(t, "dp_rank", int16(300)), want(func(r *Record) { r.DPRank = 300 })},
		{"wide integer", fields(t, "dp_rank", raw("cf0000000000000003")), want(func(r *Record) { r.DPRank = 3 })},
		{"whole counter", fields(t, "counter_id", uint64(math.MaxUint64)), want(func(r *Record) { r.CounterID = math.MaxUint64 })},
		{"float for integer", scheduled("sum_prefill_tokens", 256.0), want(func(r *Record) { r.Scheduled.SumPrefillTokens = 256 })},
		{"integer for float", scheduled("var_decode_kv_tokens", 4), want(func(r *Record) { r.Scheduled.VarDecodeKVTokens = 4 })},
		{"float32", fields(t, "wall_time", float32(0.25)), want(func(r *Record) { r.WallTime = 0.25 })},
		{"str8 key", raw("81d909776f726b65725f6964a178"), want(func(r *Record) { r.WorkerID = "x" })},
		{"any order", fields(t, "wall_time", 1.5, "dp_rank", 1, "version", 1), want(func(r *Record) { r.WallTime, r.DPRank = 1.5, 1 })},
		{
			"unknown fields of every type",
			fields(t, "a", nil, "b", true, "c", []any{1, "x", map[string]any{"y": 2}}, "d", []byte{1, 2, 3}, "e", -5,
				"f", raw("d50100ff"), "g", raw("c70301000102"), "h", strings.Repeat("long", 1000), "i", 1.5, "dp_rank", 9),
			want(func(r *Record) { r.DPRank = 9 }),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got Record
			if rej := NewDecoder().Decode(tc.payload, &got); rej != nil {
				t.Fatal(rej)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	raw := func(h string) msgpack.RawMessage { return unhex(t, h) }
	deep := bytes.Repeat([]byte{0x91}, 1000)
	many := append([]byte{0xde, 0x03, 0xe8}, bytes.Repeat([]byte{0xa1, 'x', 0x01}, 1000)...)
	for _, tc := range []struct {
		name    string
		payload []byte
		reason  Reason
		field   string
	}{
		{"nothing", nil, ReasonMalformed, ""},
		{"array instead of map", raw("97010203040506c0"), ReasonMalformed, ""},
		{"nil", raw("c0"), ReasonMalformed, ""},
		{"extension before the map", raw("d40100" + heartbeatHex), ReasonMalformed, ""},
		{"JSON", []byte(`{"version":1}`), ReasonMalformed, ""},
		{"trailing bytes", append(unhex(t, activeHex), 0), ReasonMalformed, ""},
		{"integer key", raw("810101"), ReasonMalformed, ""},
		{"binary key", raw("81c403646f6701"), ReasonMalformed, ""},
		{"nil count", fields(t, "dp_rank", nil), ReasonMalformed, "dp_rank"},
		{"text count", fields(t, "dp_rank", "0"), ReasonMalformed, "dp_rank"},
		{"numeric worker", fields(t, "worker_id", 4192), ReasonMalformed, "worker_id"},
		{"worker with a NUL byte", fields(t, "worker_id", "w\x00"), ReasonMalformed, "worker_id"},
		{"worker that is no UTF-8", fields(t, "worker_id", "\xff\xfe"), ReasonMalformed, "worker_id"},
		{"map that is a number", fields(t, "queued_requests", 1), ReasonMalformed, "queued_requests"},
		{"reserved code", fields(t, "x", raw("c1")), ReasonMalformed, ""},
		{"text of 4 GiB announced", fields(t, "x", raw("dbffffffff")), ReasonMalformed, ""},
		{"array of 4 G announced", fields(t, "x", raw("ddffffffff")), ReasonMalformed, ""},
		{"extension of 4 GiB announced", fields(t, "x", raw("c9ffffffff01")), ReasonMalformed, ""},
		{"map of 4 G announced", raw("dfffffffff"), ReasonLimit, ""},
		{"version 0", fields(t, "version", 0), ReasonVersion, "version"},
		{"version 99 before fields of another type", fields(t, "version", 99, "dp_rank", "x"), ReasonVersion, "version"},
		{"negative version", fields(t, "version", -1), ReasonValue, "version"},
		{"negative count", fields(t, "dp_rank", -1), ReasonValue, "dp_rank"},
		{"negative float count", fields(t, "dp_rank", -1.0), ReasonValue, "dp_rank"},
		{"half a count", fields(t, "dp_rank", 0.5), ReasonValue, "dp_rank"},
		{"NaN count", fields(t, "dp_rank", math.NaN()), ReasonValue, "dp_rank"},
		{"rank beyond ports", fields(t, "dp_rank", 65536), ReasonValue, "dp_rank"},
		{"NaN time", fields(t, "wall_time", math.NaN()), ReasonValue, "wall_time"},
		{"infinite time", fields(t, "wall_time", math.Inf(1)), ReasonValue, "wall_time"},
		{"negative time", fields(t, "wall_time", -0.001), ReasonValue, "wall_time"},
		{"time that is a date", fields(t, "wall_time", 1.78e9), ReasonValue, "wall_time"},
		{"negative variance", fields(t, "queued_requests", raw("81b27661725f70726566696c6c5f6c656e677468ff")), ReasonValue, "queued_requests.var_prefill_length"},
		{"infinite variance", fields(t, "scheduled_requests", raw("81b47661725f6465636f64655f6b765f746f6b656e73cb7ff0000000000000")), ReasonValue, "scheduled_requests.var_decode_kv_tokens"},
		{"count beyond 2^53", fields(t, "scheduled_requests", raw("81b36e756d5f6465636f64655f7265717565737473cf0020000000000001")), ReasonValue, "scheduled_requests.num_decode_requests"},
		{"long worker", fields(t, "worker_id", strings.Repeat("w", 257)), ReasonLimit, "worker_id"},
		{"long key", fields(t, strings.Repeat("k", 257), 1), ReasonLimit, ""},
		{"deep nesting", fields(t, "x", msgpack.RawMessage(deep)), ReasonLimit, ""},
		{"many fields", many, ReasonLimit, ""},
		{"large payload", make([]byte, MaxPayload+1), ReasonLimit, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var r Record
			rej := NewDecoder().Decode(tc.payload, &r)
			if rej == nil {
				t.Fatalf("accepted as %+v", r)
			}
			if rej.Reason != tc.reason || rej.Field != tc.field {
				t.Errorf("refused with %s at %q (%v), want %s at %q", rej.Reason, rej.Field, rej, tc.reason, tc.field)
			}
			if tc.field != "" && !strings.Contains(rej.Error(), tc.field) {
				t.Errorf("%q does not name %s", rej, tc.field)
			}
		})
	}
}

func TestTruncatedAtEveryByte(t *testing.T) {
	dec, whole := NewDecoder(), unhex(t, activeHex)
	var r Record
	for n := range whole {
		if rej := dec.Decode(whole[:n], &r); rej == nil || rej.Reason != ReasonMalformed {
			t.Fatalf("%d of %d bytes: %v", n, len(whole), rej)
		}
	}
	// A refusal leaves nothing behind that the next payload could trip over.
	if rej := dec.Decode(whole, &r); rej != nil || r != active() {
		t.Fatalf("after refusals: %v %+v", rej, r)
	}
}

func TestValidateErrorIsRejectError(t *testing.T) {
	r := active()
	r.WallTime = -1
	if rej, ok := errors.AsType[*RejectError](r.Validate()); !ok || rej.Field != "wall_time" {
		t.Errorf("Validate() = %v", r.Validate())
	}
}

func TestKindAndHeartbeat(t *testing.T) {
	for _, tc := range []struct {
		name      string
		edit      func(*Record)
		kind      Kind
		heartbeat bool
	}{
		{"heartbeat", func(*Record) {}, KindNone, true},
		{"native heartbeat", func(r *Record) { r.TimingScope = "model_step_cuda" }, KindNone, true},
		{"prefill", func(r *Record) { r.Scheduled.NumPrefillRequests, r.WallTime = 1, 1 }, KindPrefill, false},
		{"decode", func(r *Record) { r.Scheduled.NumDecodeRequests, r.WallTime = 1, 1 }, KindDecode, false},
		{"mixed without a time", func(r *Record) { *r = active(); r.WallTime = 0 }, KindMixed, false},
		{"queue alone", func(r *Record) { r.Queued.NumDecodeRequests = 1 }, KindNone, false},
		{"time alone", func(r *Record) { r.WallTime = 0.01 }, KindNone, false},
	} {
		r := heartbeat()
		tc.edit(&r)
		if r.Kind() != tc.kind || r.Heartbeat() != tc.heartbeat {
			t.Errorf("%s: kind %v, heartbeat %v", tc.name, r.Kind(), r.Heartbeat())
		}
	}
	if KindMixed.String() != "mixed" || KindNone.String() != "" {
		t.Error("kinds have wrong names")
	}
	native := Record{TimingScope: "model_step_cuda"}
	if (&Record{}).Scope() != DefaultTimingScope || native.Scope() != "model_step_cuda" {
		t.Error("scopes are mixed up")
	}
}

func TestJSONNames(t *testing.T) {
	got, err := json.Marshal(active())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"version":1,"worker_id":"4192","dp_rank":0,"counter_id":42,"wall_time":0.025,"scheduled_requests":` +
		`{"num_prefill_requests":2,"sum_prefill_tokens":256,"var_prefill_length":100,"sum_prefill_kv_tokens":64,` +
		`"num_decode_requests":3,"sum_decode_kv_tokens":1024,"var_decode_kv_tokens":22.5},"queued_requests":` +
		`{"num_prefill_requests":1,"sum_prefill_tokens":128,"var_prefill_length":0,"num_decode_requests":0,` +
		`"sum_decode_kv_tokens":0,"var_decode_kv_tokens":0}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(unhex(f, heartbeatHex))
	f.Add(unhex(f, activeHex))
	f.Add(fields(f, "version", 99))
	f.Add(fields(f, "a", []any{1, map[string]any{"b": []byte{1}}}, "dp_rank", 1.0, "wall_time", float32(1)))
	f.Add([]byte{0x81, 0xa1, 'x', 0xdb, 0xff, 0xff, 0xff, 0xff})
	dec := NewDecoder()
	f.Fuzz(func(t *testing.T, payload []byte) {
		var r Record
		if dec.Decode(payload, &r) != nil {
			return
		}
		if err := r.Validate(); err != nil {
			t.Fatalf("accepted what does not validate: %v", err)
		}
		wire, err := r.AppendMsgpack(nil)
		if err != nil {
			t.Fatal(err)
		}
		var again Record
		if rej := dec.Decode(wire, &again); rej != nil || again != r {
			t.Fatalf("%+v came back as %+v, %v", r, again, rej)
		}
	})
}

func TestDecodeAllocatesNothing(t *testing.T) {
	dec, payload := NewDecoder(), unhex(t, activeHex)
	var r Record
	decode := func() {
		if rej := dec.Decode(payload, &r); rej != nil {
			t.Fatal(rej)
		}
	}
	decode() // the first takes in the worker id
	if n := testing.AllocsPerRun(100, decode); n > 0 {
		t.Errorf("%v allocations per record", n)
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, h := range map[string]string{"active": activeHex, "heartbeat": heartbeatHex} {
		b.Run(name, func(b *testing.B) {
			dec, payload := NewDecoder(), unhex(b, h)
			var r Record
			b.ReportAllocs()
			b.SetBytes(int64(len(payload)))
			for b.Loop() {
				if rej := dec.Decode(payload, &r); rej != nil {
					b.Fatal(rej)
				}
			}
		})
	}
}
