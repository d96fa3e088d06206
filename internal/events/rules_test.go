package events

import (
	"fmt"
	"strings"
	"testing"

	"github.com/omni-exporter/omni_exporter/collector"
)

const (
	started   = `{"type":"request_started","request_id":"r1","model_name":"m"}`
	scheduled = `{"type":"request_scheduled","request_id":"r1"}`
	finished  = `{"type":"request_finished","request_id":"r1","finished_reason":"length","e2e_s":2.41}`
	failed    = `{"type":"request_failed","request_id":"r1"}`
)

// audio gives an audio event of request id at stage 2.
func audio(eventType, id, replica, rest string) string {
	return fmt.Sprintf(`{"type":%q,"request_id":%q,"model_name":"m","stage":"2","replica":%q,%s}`, eventType, id, replica, rest)
}

func hop(eventType, rest string) string {
	return fmt.Sprintf(`{"type":%q,"model_name":"m","from_stage":"0","from_replica":"0","to_stage":"1","to_replica":"1",%s}`, eventType, rest)
}

// TestRules has the guards and rules of the families, one by one, from the
// events posted to the page scraped.
func TestRules(t *testing.T) {
	const (
		r0    = `model_name="m",replica="0",stage="2"`
		edge  = `from_replica="0",from_stage="0",model_name="m",to_replica="1",to_stage="1"`
		empty = `"audio_frames":0,"sample_rate":24000,"stage_gen_time_s":1`
	)
	for _, c := range []struct {
		name  string
		lines []string
		want  []string
		none  []string
	}{
		{
			name: "a request from start to end", lines: []string{started, scheduled, finished},
			want: []string{
				`vllm:omni_requests_success_total{finished_reason="length",model_name="m"} 1`,
				`vllm:omni_e2e_request_latency_s_sum{model_name="m"} 2.41`,
				`vllm:omni_num_requests_running{model_name="m"} 0`,
				`vllm:omni_num_requests_waiting{model_name="m"} 0`,
			},
		},
		{
			name: "the reason is stop unless given", lines: []string{started, `{"type":"request_finished","request_id":"r1","e2e_s":1}`},
			want: []string{`vllm:omni_requests_success_total{finished_reason="stop",model_name="m"} 1`},
		},
		{
			name: "failure is an abort without latency, counted once", lines: []string{started, failed, failed, finished},
			want: []string{`vllm:omni_requests_success_total{finished_reason="abort",model_name="m"} 1`, ignoredLine("duplicate", 2)},
			none: []string{"omni_e2e_request_latency_s", `finished_reason="length"`},
		},
		{
			name: "finished with abort is the same", lines: []string{started, `{"type":"request_finished","request_id":"r1","finished_reason":"abort","e2e_s":1}`},
			want: []string{`vllm:omni_requests_success_total{finished_reason="abort",model_name="m"} 1`},
			none: []string{"omni_e2e_request_latency_s"},
		},
		{
			name: "failure after the end changes nothing", lines: []string{started, finished, failed},
			want: []string{ignoredLine("duplicate", 1)},
			none: []string{`finished_reason="abort"`},
		},
		{
			name:  "an end before its start counts once and leaves nothing running",
			lines: []string{`{"type":"request_finished","request_id":"r1","model_name":"m","e2e_s":1}`, started, scheduled},
			want:  []string{`vllm:omni_requests_success_total{finished_reason="stop",model_name="m"} 1`, ignoredLine("duplicate", 2)},
			none:  []string{"omni_num_requests"},
		},
		{
			name: "first packet counts once", lines: []string{
				audio("audio_first_packet", "r1", "0", `"ttfp_s":0.62`), audio("audio_first_packet", "r1", "0", `"ttfp_s":9`),
			},
			want: []string{"vllm:omni_audio_ttfp_s_sum{" + r0 + "} 0.62", "vllm:omni_audio_ttfp_s_count{" + r0 + "} 1"},
		},
		{
			name: "first packet waits for its replica and keeps its time", lines: []string{
				audio("audio_first_packet", "r1", "", `"ttfp_s":0.5`), audio("audio_first_packet", "r1", "", `"ttfp_s":0.7`),
				audio("audio_first_packet", "r1", "0", `"ttfp_s":0.9`), audio("audio_first_packet", "r1", "0", `"ttfp_s":1`),
			},
			want: []string{
				"vllm:omni_audio_ttfp_s_sum{" + r0 + "} 0.5", "vllm:omni_audio_ttfp_s_count{" + r0 + "} 1",
				ignoredLine("replica_unknown", 2), ignoredLine("duplicate", 1),
			},
		},
		{
			name: "first packet before the request is clock skew", lines: []string{audio("audio_first_packet", "r1", "0", `"ttfp_s":-0.02`)},
			want: []string{"vllm:omni_audio_ttfp_s_sum{" + r0 + "} 0", "vllm:omni_audio_ttfp_s_count{" + r0 + "} 1"},
		},
		{
			name: "frames, duration and real-time factor", lines: []string{
				audio("audio_finished", "r1", "0", `"audio_frames":24000,"sample_rate":24000,"stage_gen_time_s":0.5`),
				audio("audio_finished", "r2", "0", `"audio_frames":16000,"sample_rate":16000,"stage_gen_time_s":2`),
			},
			want: []string{
				"vllm:omni_audio_frames_total{" + r0 + "} 40000", "vllm:omni_audio_duration_s_sum{" + r0 + "} 2",
				"vllm:omni_audio_rtf_sum{" + r0 + "} 2.5", "vllm:omni_audio_rtf_bucket{" + r0 + `,le="0.5"} 1`,
			},
		},
		{
			name: "audio counts once per request and stage", lines: []string{
				audio("audio_finished", "r1", "0", `"audio_frames":10`), audio("audio_finished", "r1", "1", `"audio_frames":10`),
				strings.Replace(audio("audio_finished", "r1", "0", `"audio_frames":7`), `"stage":"2"`, `"stage":"3"`, 1),
			},
			want: []string{
				"vllm:omni_audio_frames_total{" + r0 + "} 10", `vllm:omni_audio_frames_total{model_name="m",replica="0",stage="3"} 7`,
				ignoredLine("duplicate", 1),
			},
			none: []string{`replica="1"`, "omni_audio_rtf"},
		},
		{
			name: "no audio is skipped, with neither duration nor factor", lines: []string{
				audio("audio_finished", "r1", "0", empty), audio("audio_finished", "r1", "0", empty),
				audio("audio_finished", "r2", "0", empty+`,"reason":"malformed_codec"`), audio("audio_finished", "r3", "0", empty+`,"reason":""`),
			},
			want: []string{
				`vllm:omni_audio_skipped_requests_total{model_name="m",reason="no_audio_data",replica="0",stage="2"} 1`,
				`vllm:omni_audio_skipped_requests_total{model_name="m",reason="malformed_codec",replica="0",stage="2"} 1`,
				`vllm:omni_audio_skipped_requests_total{model_name="m",reason="unknown",replica="0",stage="2"} 1`,
			},
			none: []string{"omni_audio_frames", "omni_audio_duration", "omni_audio_rtf"},
		},
		{
			name: "audio of an unknown replica is not counted", lines: []string{
				audio("audio_finished", "r1", "", `"audio_frames":10`), audio("audio_finished", "r1", "0", `"audio_frames":10`),
				audio("audio_stream_finished", "r1", "", `"arrivals_s":[1],"chunk_bytes":[1]`),
			},
			want: []string{"vllm:omni_audio_frames_total{" + r0 + "} 10", ignoredLine("replica_unknown", 2)},
			none: []string{"omni_audio_underrun", `replica=""`},
		},
		{
			name: "a stream that broke off is no sample", lines: []string{
				started, failed, audio("audio_stream_finished", "r1", "0", `"arrivals_s":[0,9],"chunk_bytes":[1,1]`),
				audio("audio_stream_finished", "r2", "0", `"arrivals_s":[0,9],"chunk_bytes":[1,1],"finished_reason":"abort"`),
			},
			want: []string{ignoredLine("stream_unfinished", 2)},
			none: []string{"omni_audio_underrun", "omni_audio_continuity"},
		},
		{
			name: "a stream without audio is no sample", lines: []string{
				audio("audio_stream_finished", "r1", "0", `"arrivals_s":[],"chunk_bytes":[]`),
				audio("audio_stream_finished", "r2", "0", `"arrivals_s":[0.1,0.2],"chunk_bytes":[0,0]`),
			},
			want: []string{ignoredLine("stream_empty", 2)},
			none: []string{"omni_audio_underrun", "omni_audio_continuity"},
		},
		{
			name: "a stream counts once", lines: []string{
				audio("audio_stream_finished", "r1", "0", `"arrivals_s":[0.1],"chunk_bytes":[10],"finished_reason":"stop"`),
				audio("audio_stream_finished", "r1", "0", `"arrivals_s":[0.1],"chunk_bytes":[10]`),
			},
			want: []string{"vllm:omni_audio_underrun_s_count{" + r0 + "} 1", ignoredLine("duplicate", 1)},
		},
		{
			name: "chunks without bytes are left out", lines: []string{
				audio("audio_stream_finished", "r1", "0", `"arrivals_s":[0,1,1.4],"chunk_bytes":[0,24000,24000]`),
			},
			want: []string{"vllm:omni_audio_underrun_s_sum{" + r0 + "} 0"},
		},
		{
			name: "a transfer, each side", lines: []string{
				hop("transfer_tx", `"size_bytes":65536,"tx_ms":2`), hop("transfer_rx", `"rx_ms":1,"in_flight_ms":-0.3`), hop("transfer_rx", `"rx_ms":1`),
			},
			want: []string{
				"vllm:omni_transfer_size_bytes_sum{" + edge + "} 65536", "vllm:omni_transfer_tx_s_sum{" + edge + "} 0.002",
				"vllm:omni_transfer_rx_s_sum{" + edge + "} 0.002", "vllm:omni_transfer_in_flight_s_sum{" + edge + "} 0",
				"vllm:omni_transfer_in_flight_s_count{" + edge + "} 1",
			},
		},
		{
			name: "a transfer with an unknown replica is left out", lines: []string{
				strings.Replace(hop("transfer_tx", `"size_bytes":1,"tx_ms":1`), `"to_replica":"1"`, `"to_replica":null`, 1),
				strings.Replace(hop("transfer_rx", `"rx_ms":1`), `"from_replica":"0",`, ``, 1),
			},
			want: []string{ignoredLine("replica_unknown", 2)},
			none: []string{"omni_transfer"},
		},
		{
			name: "a named pipeline", lines: []string{`{"type":"request_started","request_id":"r1","model_name":"m","pipeline":"p"}`, started},
			want: []string{`vllm:omni_num_requests_waiting{model_name="m",pipeline="p"} 1`, `vllm:omni_num_requests_waiting{model_name="m"} 1`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEndpoint(t, endpointOptions{})
			e.good(c.lines...)
			e.want(c.want...)
			e.wantNothingOf(c.none...)
		})
	}
}

// The worked values of the continuity algorithm, through the endpoint.
func TestContinuityFromThePage(t *testing.T) {
	for _, c := range []struct {
		arrivals, bytes string
		underrun        string
		ok              int
	}{
		{"0.5,1.0,1.5", "24000,24000,24000", "0", 1},
		{"0,2.0", "24000,24000", "1.5", 0},
		{"0.25,0.5", "4800,4800", "0.15", 0},
		{"0.5", "4800", "0", 1},
		{"0,0.6", "24000,24000", "0.1", 1},
		{"0,1,2", "24000,24000,24000", "1", 0},
		{"-0.2,0.4", "24000,24000", "0", 1}, // arrival before the request: skew, so 0 and 0.4
	} {
		t.Run(c.arrivals, func(t *testing.T) {
			e := newEndpoint(t, endpointOptions{})
			e.good(audio("audio_stream_finished", "r1", "0",
				`"sample_rate":24000,"channels":1,"bytes_per_sample":2,"arrivals_s":[`+c.arrivals+`],"chunk_bytes":[`+c.bytes+`]`))
			e.want(
				`vllm:omni_audio_underrun_s_sum{model_name="m",replica="0",stage="2"} `+c.underrun,
				fmt.Sprintf(`vllm:omni_audio_continuity_ok_total{model_name="m",replica="0",stage="2",threshold_ms="100"} %d`, c.ok))
		})
	}
}

// Frame bytes and sample rate decide how long a chunk lasts.
func TestStreamFormat(t *testing.T) {
	for _, c := range []struct{ format, underrun string }{
		{`"sample_rate":24000,"channels":2,"bytes_per_sample":2`, "0.75"},
		{`"sample_rate":24000,"channels":1,"bytes_per_sample":4`, "0.75"},
		{`"sr":48000`, "0.75"},
		{`"sr":48000,"output_sample_rate":24000`, "0.5"},
		{`"sampling_rate":"48000","sample_rate":"abc","audio_sample_rate":-1,"output_sample_rate":0`, "0.75"},
		{`"sample_rate":null,"channels":null`, "0.5"},
		{`"sample_rate":true,"sr":[1]`, "0.5"},
	} {
		e := newEndpoint(t, endpointOptions{})
		e.good(audio("audio_stream_finished", "r1", "0", c.format+`,"arrivals_s":[0,1],"chunk_bytes":[24000,1]`))
		e.want(`vllm:omni_audio_underrun_s_sum{model_name="m",replica="0",stage="2"} ` + c.underrun)
	}
}

// Every bucket list, from the page.
func TestBuckets(t *testing.T) {
	const (
		seconds = "0.05 0.1 0.25 0.5 1 2 5 10 20 30 60 120 300 +Inf"
		fast    = "0.001 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 60 +Inf"
		rtf     = "0.1 0.25 0.5 0.75 0.9 1 1.25 1.5 2 5 10 +Inf"
		size    = "1024 4096 16384 65536 262144 1.048576e+06 4.194304e+06 1.6777216e+07 6.7108864e+07 2.68435456e+08 +Inf"
	)
	e := newEndpoint(t, endpointOptions{})
	e.good(started, finished,
		audio("audio_first_packet", "r1", "0", `"ttfp_s":1`),
		audio("audio_finished", "r1", "0", `"audio_frames":1,"stage_gen_time_s":1`),
		audio("audio_stream_finished", "r1", "0", `"arrivals_s":[1],"chunk_bytes":[1]`),
		hop("transfer_tx", `"size_bytes":1,"tx_ms":1`), hop("transfer_rx", `"rx_ms":1,"in_flight_ms":1`))
	page := e.page()
	for family, want := range map[string]string{
		"e2e_request_latency_s": seconds, "audio_ttfp_s": seconds, "audio_duration_s": seconds,
		"audio_rtf": rtf, "audio_underrun_s": fast,
		"transfer_size_bytes": size, "transfer_tx_s": fast, "transfer_rx_s": fast, "transfer_in_flight_s": fast,
	} {
		var got []string
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "vllm:omni_"+family+"_bucket{") {
				_, rest, _ := strings.Cut(line, `le="`)
				le, _, _ := strings.Cut(rest, `"`)
				got = append(got, le)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: buckets %v, want %s", family, got, want)
		}
	}
	if n := strings.Count(page, "# TYPE vllm:omni_"); n != 14 { // all but skipped, which this request is not
		t.Errorf("%d omni families, want 14", n)
	}
}

// A body delivered again counts nothing again where requests are named.
func TestDeliveryTwice(t *testing.T) {
	e := newEndpoint(t, endpointOptions{})
	body := []string{
		started, scheduled,
		audio("audio_first_packet", "r1", "0", `"ttfp_s":0.62`),
		audio("audio_finished", "r1", "0", `"audio_frames":96000,"sample_rate":24000,"stage_gen_time_s":1.9`),
		audio("audio_stream_finished", "r1", "0", `"arrivals_s":[0.62,1.1],"chunk_bytes":[24000,24000]`),
		finished,
		`{"type":"request_started","request_id":"r2","model_name":"m"}`,
		`{"type":"request_failed","request_id":"r2"}`,
	}
	e.good(body...)
	omni := func() string {
		var b strings.Builder
		for line := range strings.Lines(e.page()) {
			if strings.Contains(line, "vllm:omni_") {
				b.WriteString(line)
			}
		}
		return b.String()
	}
	before := omni()
	e.good(body...)
	if after := omni(); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	e.want(ignoredLine("duplicate", len(body)), receivedLine("request_started", 4))
}

// The first usable key of the five holds, whatever the later ones say.
func TestSampleRateKeys(t *testing.T) {
	keys := collector.SampleRateKeys()
	for i, key := range keys {
		e := newEndpoint(t, endpointOptions{})
		fields := []string{`"audio_frames":48000`, fmt.Sprintf(`%q:48000`, key)}
		for _, later := range keys[i+1:] {
			fields = append(fields, fmt.Sprintf(`%q:16000`, later))
		}
		e.good(audio("audio_finished", "r1", "0", strings.Join(fields, ",")))
		e.want(`vllm:omni_audio_duration_s_sum{model_name="m",replica="0",stage="2"} 1`)
	}
	e := newEndpoint(t, endpointOptions{})
	e.good(audio("audio_finished", "r1", "0", `"audio_frames":48000`))
	e.want(`vllm:omni_audio_duration_s_sum{model_name="m",replica="0",stage="2"} 2`)
}
