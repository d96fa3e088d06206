package events

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/omni-exporter/omni_exporter/collector"
)

// FuzzLine judges one line: whatever it says, it is either accepted or refused,
// counted once, and the page stays one that can be gathered.
func FuzzLine(f *testing.F) {
	for _, line := range documentedEvents(f) {
		f.Add([]byte(line))
	}
	for _, line := range []string{
		"", "null", "[]", "{}", `{"type":null}`, `{"type":"request_started","request_id":"\ud800","model_name":"\u0000"}`,
		`{"type":"audio_stream_finished","request_id":"r","model_name":"m","stage":"2","replica":"0","arrivals_s":[ 1 , -0.5,1e2 ],"chunk_bytes":[1,0,3]}`,
		`{"type":"audio_finished","request_id":"r","model_name":"m","stage":"2","replica":"0","audio_frames":1e12,"sr":"0x10"}`,
		`{"type":"audio_finished","type":"transfer_tx","TYPE":"x"}`, strings.Repeat(`{"a":`, 100),
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.ContainsRune(line, '\n') {
			t.Skip("more than one line")
		}
		shared := collector.OmniOptions{Budget: collector.NewSeriesBudget(5)}
		pipeline, _ := collector.NewPipelineCollector(shared)
		audio, _ := collector.NewAudioCollector(shared)
		transfer, _ := collector.NewTransferCollector(shared)
		h := NewHandler(Options{Pipeline: pipeline, Audio: audio, Transfer: transfer})
		rejections, rejected := h.judge(line)
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(pipeline, audio, transfer, h)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		lines := 1
		if len(bytes.TrimSpace(line)) == 0 {
			lines = 0
		}
		received := sum(families, "omni_exporter_events_received_total")
		if int(received)+rejected != lines || rejected != len(rejections) {
			t.Errorf("%d lines: %v received, %d rejected", lines, received, rejected)
		}
		for _, r := range rejections {
			if r.Line != 1 || r.Reason == "" || len(r.Message) > maxMessageLength+3 || !utf8.ValidString(r.Message) {
				t.Errorf("bad rejection %+v", r)
			}
		}
	})
}

func sum(families []*dto.MetricFamily, name string) (total float64) {
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				total += m.GetCounter().GetValue()
			}
		}
	}
	return total
}
