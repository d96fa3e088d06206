package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/omni-exporter/omni_exporter/collector"
)

// newTestHandler returns an endpoint with all collectors on, and what they
// share.
func newTestHandler(tb testing.TB, maxSeries int, table collector.RequestTableOptions) (*Handler, *collector.RequestTable) {
	tb.Helper()
	requests := collector.NewRequestTable(table)
	options := collector.OmniOptions{Budget: collector.NewSeriesBudget(maxSeries), Requests: requests}
	pipeline, err := collector.NewPipelineCollector(options)
	if err != nil {
		tb.Fatal(err)
	}
	audio, err := collector.NewAudioCollector(options)
	if err != nil {
		tb.Fatal(err)
	}
	transfer, err := collector.NewTransferCollector(options)
	if err != nil {
		tb.Fatal(err)
	}
	return NewHandler(Options{Pipeline: pipeline, Audio: audio, Transfer: transfer, Budget: options.Budget}), requests
}

// requestLines are all events of one request of a three-stage pipeline.
func requestLines(id int) []string {
	at := `"model_name":"Qwen/Qwen3-Omni-30B-A3B-Instruct","stage":"2","replica":"` + fmt.Sprint(id%2) + `"`
	hop := func(from, to int) string {
		return fmt.Sprintf(`"model_name":"Qwen/Qwen3-Omni-30B-A3B-Instruct","from_stage":"%d","from_replica":"0","to_stage":"%d","to_replica":"%d"`, from, to, id%2)
	}
	return []string{
		fmt.Sprintf(`{"type":"request_started","request_id":"chatcmpl-%d","model_name":"Qwen/Qwen3-Omni-30B-A3B-Instruct"}`, id),
		fmt.Sprintf(`{"type":"request_scheduled","request_id":"chatcmpl-%d"}`, id),
		fmt.Sprintf(`{"type":"transfer_tx",%s,"size_bytes":65536,"tx_ms":1.8}`, hop(0, 1)),
		fmt.Sprintf(`{"type":"transfer_rx",%s,"rx_ms":0.9,"in_flight_ms":0.4}`, hop(0, 1)),
		fmt.Sprintf(`{"type":"transfer_tx",%s,"size_bytes":16384,"tx_ms":0.8}`, hop(1, 2)),
		fmt.Sprintf(`{"type":"transfer_rx",%s,"rx_ms":0.3,"in_flight_ms":0.2}`, hop(1, 2)),
		fmt.Sprintf(`{"type":"audio_first_packet","request_id":"chatcmpl-%d",%s,"ttfp_s":0.62}`, id, at),
		fmt.Sprintf(`{"type":"audio_finished","request_id":"chatcmpl-%d",%s,"audio_frames":96000,"sample_rate":24000,"stage_gen_time_s":1.9}`, id, at),
		fmt.Sprintf(`{"type":"audio_stream_finished","request_id":"chatcmpl-%d",%s,"sample_rate":24000,"channels":1,"bytes_per_sample":2,"arrivals_s":[0.62,1.1,1.4,1.9],"chunk_bytes":[24000,24000,24000,24000]}`, id, at),
		fmt.Sprintf(`{"type":"request_finished","request_id":"chatcmpl-%d","finished_reason":"stop","e2e_s":2.41}`, id),
	}
}

// requestBody is the events of n requests, the first of which has the number id.
func requestBody(id, n int) (body []byte, lines int) {
	var b bytes.Buffer
	for i := range n {
		for _, l := range requestLines(id + i) {
			b.WriteString(l)
			b.WriteByte('\n')
			lines++
		}
	}
	return b.Bytes(), lines
}

// BenchmarkIntake compares what an event costs: its JSON alone, the whole
// judgement of a body, and a POST over loopback. The ratio that matters is
// endpoint to decode.
func BenchmarkIntake(b *testing.B) {
	const requestsPerBody = 100
	perEvent := func(b *testing.B, lines int) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*lines), "ns/event")
		b.ReportMetric(float64(b.N*lines)/b.Elapsed().Seconds(), "events/s")
	}
	b.Run("decode", func(b *testing.B) {
		body, n := requestBody(0, requestsPerBody)
		lines := bytes.Split(bytes.TrimSpace(body), []byte("\n"))
		for b.Loop() {
			for _, l := range lines {
				var e event
				if err := json.Unmarshal(l, &e); err != nil {
					b.Fatal(err)
				}
			}
		}
		perEvent(b, n)
	})
	// Bodies of new requests are written outside the measured time.
	b.Run("judge", func(b *testing.B) {
		h, _ := newTestHandler(b, 0, collector.RequestTableOptions{})
		id, n := 0, 0
		for b.Loop() {
			b.StopTimer()
			var body []byte
			body, n = requestBody(id, requestsPerBody)
			id += requestsPerBody
			b.StartTimer()
			if _, rejected := h.judge(body); rejected != 0 {
				b.Fatal("rejected")
			}
		}
		perEvent(b, n)
	})
	b.Run("endpoint", func(b *testing.B) {
		h, _ := newTestHandler(b, 0, collector.RequestTableOptions{})
		server := httptest.NewServer(h)
		defer server.Close()
		id, n := 0, 0
		for b.Loop() {
			b.StopTimer()
			var body []byte
			body, n = requestBody(id, requestsPerBody)
			id += requestsPerBody
			b.StartTimer()
			response, err := http.Post(server.URL, "application/x-ndjson", bytes.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if response.StatusCode != http.StatusAccepted {
				b.Fatal(response.Status)
			}
		}
		perEvent(b, n)
	})
}
