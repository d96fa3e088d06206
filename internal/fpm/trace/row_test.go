package trace

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// exampleRow is the example of "Record Schema" in Dynamo's FPM reference, with the variances that its writer adds.
const exampleRow = `{"timestamp":1250,"event":{"schema":"dynamo.fpm.trace.v1","source":{"namespace":"default","component":"backend","producer_id":"4192"},` +
	`"capture_mode":"full","observed_at_unix_ms":1782777601670,"fpm":{"version":1,"worker_id":"4192","dp_rank":0,"counter_id":42,"wall_time":0.025,` +
	`"scheduled_requests":{"num_prefill_requests":2,"sum_prefill_tokens":256,"var_prefill_length":100.0,"sum_prefill_kv_tokens":64,` +
	`"num_decode_requests":3,"sum_decode_kv_tokens":1024,"var_decode_kv_tokens":22.5},` +
	`"queued_requests":{"num_prefill_requests":1,"sum_prefill_tokens":128,"var_prefill_length":0.0,"num_decode_requests":0,"sum_decode_kv_tokens":0,"var_decode_kv_tokens":0.0}}}}`

func TestRowEncoding(t *testing.T) {
	row := testRow(42, 0)
	if diff := cmp.Diff(exampleRow+"\n", string(row.AppendJSON(nil))); diff != "" {
		t.Error(diff)
	}
	if !json.Valid(row.AppendJSON(nil)) {
		t.Error("no JSON")
	}
	if got := string(row.AppendJSON([]byte("before "))); got != "before "+exampleRow+"\n" {
		t.Errorf("appended: %s", got)
	}
}

func TestRowRoundTrip(t *testing.T) {
	rows := map[string]func(*Row){
		"example":      func(*Row) {},
		"sampled":      func(r *Row) { r.Capture = fpm.CaptureSampled },
		"timing scope": func(r *Row) { r.Record.TimingScope = "model_step_cuda" },
		"odd texts":    func(r *Row) { r.Namespace, r.Record.WorkerID, r.Producer = `a"b\`, "ü\n\u2028", "" },
		"large":        func(r *Row) { r.Record.CounterID, r.Record.WallTime = 1<<63+1, 3600 },
		"small":        func(r *Row) { r.Record.WallTime, r.Record.Scheduled.VarPrefillLength = 5e-324, 1e300 },
		"heartbeat": func(r *Row) {
			r.Record = fpm.Record{Version: 1, WorkerID: "4192", CounterID: 9}
		},
	}
	var d rowDecoder
	for name, change := range rows {
		t.Run(name, func(t *testing.T) {
			want := testRow(7, 3)
			change(&want)
			line := strings.TrimSuffix(string(want.AppendJSON(nil)), "\n")
			var got Row
			if why := d.decode([]byte(line), &got); why != nil {
				t.Fatal(why)
			}
			want.Line = []byte(line)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", line, diff)
			}
		})
	}
}

func TestRowDecoding(t *testing.T) {
	change := func(old, other string) string {
		if !strings.Contains(exampleRow, old) {
			t.Fatalf("%q is not in the example", old)
		}
		return strings.Replace(exampleRow, old, other, 1)
	}
	cases := map[string]struct {
		line string
		want fpm.Reason // "" for a row that is well
	}{
		"example":             {exampleRow, ""},
		"no variances":        {change(`"var_prefill_length":100.0,`, ""), ""},
		"unknown keys":        {change(`"event":{`, `"x":[1,{"y":null}],"event":{"z":true,`), ""},
		"spaces":              {strings.ReplaceAll(exampleRow, `:`, " :\t"), ""},
		"integral float":      {change(`"counter_id":42`, `"counter_id":42.0`), ""},
		"integer for float":   {change(`"wall_time":0.025`, `"wall_time":1`), ""},
		"no version":          {change(`"version":1,`, ""), ""},
		"no source":           {change(`"source":{"namespace":"default","component":"backend","producer_id":"4192"},`, ""), ""},
		"truncated":           {exampleRow[:len(exampleRow)-5], fpm.ReasonMalformed},
		"trailing":            {exampleRow + "x", fpm.ReasonMalformed},
		"two objects":         {exampleRow + exampleRow, fpm.ReasonMalformed},
		"no object":           {"[]", fpm.ReasonMalformed},
		"empty object":        {"{}", ReasonSchema},
		"not UTF-8":           {change("default", "\xff"), fpm.ReasonMalformed},
		"other schema":        {change("trace.v1", "trace.v2"), ReasonSchema},
		"no mode":             {change(`"capture_mode":"full",`, ""), fpm.ReasonMalformed},
		"other mode":          {change(`"full"`, `"half"`), fpm.ReasonValue},
		"no time":             {change(`"observed_at_unix_ms":1782777601670,`, ""), fpm.ReasonMalformed},
		"late time":           {change("1782777601670", "1782777601670000"), fpm.ReasonValue},
		"no record":           {change(`,"fpm":`, `,"other":`), fpm.ReasonMalformed},
		"record is no object": {change(`"queued_requests":{`, `"queued_requests":0,"x":{`), fpm.ReasonMalformed},
		"version":             {change(`"version":1`, `"version":3`), fpm.ReasonVersion},
		"negative":            {change(`"counter_id":42`, `"counter_id":-1`), fpm.ReasonValue},
		"fraction":            {change(`"counter_id":42`, `"counter_id":4.2`), fpm.ReasonValue},
		"text for number":     {change(`"counter_id":42`, `"counter_id":"42"`), fpm.ReasonMalformed},
		"null for number":     {change(`"counter_id":42`, `"counter_id":null`), fpm.ReasonMalformed},
		"number for text":     {change(`"worker_id":"4192"`, `"worker_id":4192`), fpm.ReasonMalformed},
		"large count":         {change(`"sum_decode_kv_tokens":1024`, `"sum_decode_kv_tokens":9007199254740993`), fpm.ReasonValue},
		"infinite":            {change(`"wall_time":0.025`, `"wall_time":1e999`), fpm.ReasonValue},
		"NaN":                 {change(`"wall_time":0.025`, `"wall_time":NaN`), fpm.ReasonMalformed},
		"long wall time":      {change(`"wall_time":0.025`, `"wall_time":1782777601.25`), fpm.ReasonValue},
		"long text":           {change(`"worker_id":"4192"`, `"worker_id":"`+strings.Repeat("4", 257)+`"`), fpm.ReasonLimit},
		"long row":            {change("default", strings.Repeat(" ", MaxLine)), fpm.ReasonLimit},
		"deep":                {change(`"event":{`, `"x":`+strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)+`,"event":{`), fpm.ReasonMalformed},
	}
	var d rowDecoder
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var row Row
			why := d.decode([]byte(c.line), &row)
			switch {
			case c.want == "" && why != nil:
				t.Error(why)
			case c.want != "" && (why == nil || why.Reason != c.want):
				t.Errorf("%v, want %s", why, c.want)
			case c.want == "" && row.Record.CounterID != 42:
				t.Errorf("counter %d", row.Record.CounterID)
			}
		})
	}
}

func TestRowDecodingAllocates(t *testing.T) {
	var d rowDecoder
	var row Row
	line := []byte(exampleRow)
	if n := testing.AllocsPerRun(100, func() {
		if why := d.decode(line, &row); why != nil {
			t.Fatal(why)
		}
	}); n > 0 {
		t.Errorf("%v allocations a row", n)
	}
}

func FuzzRow(f *testing.F) {
	f.Add([]byte(exampleRow))
	f.Add([]byte(testLine(1<<63, 65535)))
	f.Add([]byte(`{"timestamp":-1,"event":{"schema":"dynamo.fpm.trace.v1","fpm":{}}}`))
	f.Add([]byte(`{"event":{"schema":"dynamo.fpm.trace.v1","capture_mode":"sampled","observed_at_unix_ms":1,"fpm":{"worker_id":"\ud800","wall_time":1e-400}}}`))
	var d, again rowDecoder
	f.Fuzz(func(t *testing.T, line []byte) {
		var row Row
		if why := d.decode(line, &row); why != nil {
			if why.Reason == "" {
				t.Error("refused without a reason")
			}
			return
		}
		if err := row.Record.Validate(); err != nil {
			t.Errorf("accepted %s: %v", line, err)
		}
		if row.Elapsed < 0 || row.Observed.Before(time.UnixMilli(0)) {
			t.Errorf("accepted %s: times %v %v", line, row.Elapsed, row.Observed)
		}
		// What was accepted can be written, and is then the same.
		written := row.AppendJSON(nil)
		var reread Row
		if why := again.decode(written[:len(written)-1], &reread); why != nil {
			t.Fatalf("wrote %s: %v", written, why)
		}
		row.Line, reread.Line = nil, nil
		if diff := cmp.Diff(row, reread); diff != "" {
			t.Errorf("wrote %s: %s", written, diff)
		}
	})
}

func BenchmarkRowDecoding(b *testing.B) {
	var d rowDecoder
	var row Row
	line := []byte(exampleRow)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if why := d.decode(line, &row); why != nil {
			b.Fatal(why)
		}
	}
}

func BenchmarkRowEncoding(b *testing.B) {
	row := testRow(42, 0)
	var buf []byte
	b.SetBytes(int64(len(exampleRow)))
	b.ReportAllocs()
	for b.Loop() {
		buf = row.AppendJSON(buf[:0])
	}
}
