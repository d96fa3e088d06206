//go:build integration

package events

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const pythonExamples = "../../examples/python"

// python runs a program with the client on its path and returns its output.
func python(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "python3", append([]string{"-B"}, args...)...)
	command.Dir = pythonExamples
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("python3: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// client runs lines of Python with a client `e` of the endpoint at url, closes
// it and returns what it counted.
func client(t *testing.T, url, options string, lines ...string) string {
	t.Helper()
	return python(t, "-c", strings.Join(append(append([]string{
		"import sys",
		"from omni_events import OmniEvents",
		"e = OmniEvents(sys.argv[1], model_name='m'" + options + ")",
	}, lines...),
		"e.close()",
		"print(e.sent, e.rejected, e.dropped)"), "\n"), url)
}

func TestPythonPipeline(t *testing.T) {
	e := newEndpoint(t, endpointOptions{})
	// 20 requests, one of which is cancelled before it starts: 19 have 8 events.
	if got := python(t, "two_stage_pipeline.py", e.url, "20"); got != "sent=152 rejected=0 dropped=0" {
		t.Errorf("got %q", got)
	}
	e.want(
		`vllm:omni_requests_success_total{finished_reason="stop",model_name="two-stage"} 19`,
		`vllm:omni_num_requests_running{model_name="two-stage"} 0`,
		`vllm:omni_num_requests_waiting{model_name="two-stage"} 0`,
		`vllm:omni_audio_ttfp_s_count{model_name="two-stage",replica="0",stage="1"} 10`,
		`vllm:omni_audio_underrun_s_count{model_name="two-stage",replica="1",stage="1"} 9`,
		`vllm:omni_audio_frames_total{model_name="two-stage",replica="1",stage="1"} 64800`,
		`vllm:omni_transfer_in_flight_s_count{from_replica="0",from_stage="0",model_name="two-stage",to_replica="0",to_stage="1"} 10`)
}

func TestPythonClient(t *testing.T) {
	for _, options := range []string{"", ", compress=False", ", pipeline='p'"} {
		e := newEndpoint(t, endpointOptions{})
		got := client(t, e.url, options+", max_batch=100",
			"for i in range(1000): e.request_started(i)",
			"e.request_failed('nobody', model_name=None)",
			"e.request_finished(1, e2e_s=float('nan'))", // is no JSON
			"e.request_finished(2, e2e_s=object())",
			"e.request_finished(3, e2e_s=-1)",
			"e.transfer_tx(0, 0, 1, 1, size_bytes=5, tx_ms=2)",
			"e.transfer_rx(0, 0, 1, None, rx_ms=2)",
			"e.audio_finished(4, 2, 0, audio_frames=0)")
		if got != "1003 4 0" {
			t.Errorf("%s: got %q", options, got)
		}
		e.want(receivedLine("request_started", 1000), rejectedLine("invalid_value", 1), rejectedLine("unknown_request", 1),
			ignoredLine("replica_unknown", 1))
	}
}

func TestPythonClientWithoutExporter(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	got := client(t, url, ", max_queue=10, max_batch=5", "for i in range(1000): e.request_started(i)")
	if got != "0 0 1000" {
		t.Errorf("got %q", got)
	}
}

// An exporter that takes connections and never answers holds nobody up.
func TestPythonClientOfASilentExporter(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	got := client(t, "http://"+listener.Addr().String(), ", max_queue=10, max_batch=5, timeout_s=0.2",
		"for i in range(1000): e.request_started(i)")
	if got != "0 0 1000" {
		t.Errorf("got %q", got)
	}
}
