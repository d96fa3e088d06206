//go:build integration

package integration

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/exporter"
	"github.com/omni-exporter/omni_exporter/internal/simulator"
)

// rig is an exporter over simulated pipelines, in this process. Unlike the demo it can have several, of any shape.
type rig struct {
	omniPrefix string
	pipelines  []simulator.Options
	idle       bool // no traffic after the first minutes
}

// warmUp is how much simulated traffic has passed when a rig is ready.
const warmUp = 3 * time.Minute

// start runs the rig until the test ends and returns its exporter's host:port.
func (r rig) start(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })

	var yaml strings.Builder
	if r.omniPrefix != "" {
		fmt.Fprintf(&yaml, "omni_prefix: %q\n", r.omniPrefix)
	}
	yaml.WriteString("pipelines:\n")
	var streams []string
	var handler http.Handler // set before the first event
	var pipelines []*simulator.Pipeline
	for _, o := range r.pipelines {
		o.Start = time.Now().Add(-warmUp)
		o.Ranks = 2
		publishers := newPublishers(t, o.Ranks)
		o.Events = func(events []simulator.Event) { postEvents(t, handler, events) }
		o.ForwardPasses = func(pass simulator.ForwardPass) { publish(t, publishers[pass.DPRank], pass) }
		p, err := simulator.New(o)
		if err == nil {
			err = p.Listen()
		}
		if err != nil {
			t.Fatal(err)
		}
		pipelines = append(pipelines, p)
		running.Go(func() { _ = p.Serve(ctx) })

		fmt.Fprintf(&yaml, "  - {upstreams: [{static_configs: [{targets: [%s]}]}], stages: [", strings.Join(p.Upstreams(), ", "))
		for _, s := range p.Stages() {
			fmt.Fprintf(&yaml, "{name: %s, replicas: %d}, ", s.Name, s.Replicas)
		}
		yaml.WriteString("]")
		if o.Pipeline != "" {
			fmt.Fprintf(&yaml, ", name: %s", o.Pipeline)
		}
		yaml.WriteString("}\n")
		labels := fmt.Sprintf("{dynamo_namespace: rig, stage: %q, replica: %q", "0", "0")
		if o.Pipeline != "" {
			labels += ", pipeline: " + o.Pipeline
		}
		for _, socket := range publishers {
			streams = append(streams, fmt.Sprintf("{targets: [\"tcp://%s\"], labels: %s}}", socket.Addr(), labels))
		}
	}
	fmt.Fprintf(&yaml, "forward_pass_metrics: {streams: [{static_configs: [%s]}]}\n", strings.Join(streams, ", "))

	c, err := config.Parse("rig.yml", []byte(yaml.String()))
	if err != nil {
		t.Fatalf("%v in\n%s", err, yaml.String())
	}
	e, err := exporter.New(c, exporter.Options{
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})), TelemetryPath: "/metrics", TimeoutOffset: 500 * time.Millisecond, MaxRequests: 40,
		Pipeline: true, Audio: true, Transfer: true, ForwardPasses: true, OwnProcess: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	handler = e.Handler()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)

	for _, p := range pipelines {
		p.Step(warmUp)
		if r.idle {
			p.SetArrivalRate(0)
			p.Step(2 * time.Minute) // what is under way runs out
		}
		running.Go(func() { _ = p.Run(ctx) })
	}
	return strings.TrimPrefix(server.URL, "http://")
}

func newPublishers(t *testing.T, ranks int) []zmq4.Socket {
	t.Helper()
	var out []zmq4.Socket
	for range ranks {
		socket := zmq4.NewPub(context.WithoutCancel(t.Context()))
		t.Cleanup(func() { _ = socket.Close() })
		if err := socket.Listen("tcp://127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		out = append(out, socket)
	}
	return out
}

func publish(t *testing.T, socket zmq4.Socket, pass simulator.ForwardPass) {
	var payload bytes.Buffer
	encoder := msgpack.NewEncoder(&payload)
	encoder.SetCustomStructTag("json")
	encoder.UseCompactInts(true)
	if err := encoder.Encode(pass); err != nil {
		t.Errorf("forward pass: %v", err)
		return
	}
	sequence := binary.BigEndian.AppendUint64(nil, pass.Sequence)
	if err := socket.SendMulti(zmq4.NewMsgFrom(nil, sequence, payload.Bytes())); err != nil && t.Context().Err() == nil {
		t.Errorf("forward pass: %v", err)
	}
}

// postEvents hands events to the exporter in bodies of a few hundred.
func postEvents(t *testing.T, handler http.Handler, events []simulator.Event) {
	const batch = 400
	for len(events) > 0 {
		n := min(batch, len(events))
		var body bytes.Buffer
		lines := json.NewEncoder(&body)
		for i := range events[:n] {
			if err := lines.Encode(&events[i]); err != nil {
				t.Errorf("event: %v", err)
			}
		}
		events = events[n:]
		request := httptest.NewRequest(http.MethodPost, "/api/v1/events", &body)
		request.Header.Set("Content-Type", "application/x-ndjson")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if answer.Code != http.StatusAccepted {
			t.Errorf("events: %d %s", answer.Code, answer.Body)
		}
	}
}
