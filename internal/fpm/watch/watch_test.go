package watch

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zeromq/zmq4"
	"go.uber.org/goleak"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/stream"
)

func TestMain(m *testing.M) {
	// Package zmq4's publisher, a mere peer here, leaves this one behind when it is closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/go-zeromq/zmq4.(*pubMWriter).run"))
}

func pass(counter uint64, wall float64) fpm.Record {
	return fpm.Record{
		Version: 1, WorkerID: "w\x1b", DPRank: 3, CounterID: counter, WallTime: wall,
		Scheduled: fpm.Scheduled{NumPrefillRequests: 1, SumPrefillTokens: 100, NumDecodeRequests: 4},
		Queued:    fpm.Queued{NumPrefillRequests: 2, NumDecodeRequests: 5},
	}
}

// fill delivers 100 passes of 1 to 100 ms over ten seconds, and what else is counted.
func fill(m *monitor) (states []stream.EndpointState) {
	a := &fpm.Origin{Name: "tcp://a:1"}
	for i := range 100 {
		time.Sleep(100 * time.Millisecond)
		m.deliver(&fpm.Delivery{Origin: a, Received: time.Now(), Record: pass(uint64(i), float64(i+1)/1000)})
	}
	m.deliver(&fpm.Delivery{Origin: a, Received: time.Now(), Record: pass(103, 0), Lost: 3, Restarted: true})
	m.deliver(&fpm.Delivery{Origin: a, Received: time.Now(), Rejected: &fpm.RejectError{Reason: fpm.ReasonLimit}})
	time.Sleep(500 * time.Millisecond)
	return []stream.EndpointState{
		{Endpoint: stream.Endpoint{Address: "tcp://a:1"}, Phase: stream.PhaseConnected, LastReason: stream.ReasonIdle},
		{Endpoint: stream.Endpoint{Address: "tcp://b:1"}, Phase: stream.PhaseWaiting, LastReason: stream.ReasonSocketType},
	}
}

func TestRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMonitor([]stream.Endpoint{{Address: "tcp://a:1"}, {Address: "tcp://b:1"}})
		rows := m.rows(fill(m), time.Now())
		// Of the five seconds, 46 timed passes (55 to 100 ms) are left, and the one without a time.
		want := row{
			endpoint: "tcp://a:1", worker: "w\x1b", state: "connected", rank: 3,
			passes: 47.0 / 5, prefill: 4700.0 / 5, decode: 188.0 / 5, batch: 5, queue: 7,
			p50: 77 * time.Millisecond, p99: 100 * time.Millisecond, lost: 3, rejected: 1, restarts: 1, age: 500 * time.Millisecond,
		}
		if rows[0] != want {
			t.Errorf("got  %+v\nwant %+v", rows[0], want)
		}
		if want := (row{endpoint: "tcp://b:1", state: "wrong_socket_type", rank: fpm.UnknownRank, age: -1}); rows[1] != want {
			t.Errorf("got  %+v\nwant %+v", rows[1], want)
		}

		var lines, table bytes.Buffer
		if err := errors.Join(writeLines(&lines, rows), writeTable(&table, rows)); err != nil {
			t.Fatal(err)
		}
		wantLines := `endpoint=tcp://a:1 state=connected rank=3 worker_id="w\x1b" passes_per_second=9.4 prefill_tokens_per_second=940 ` +
			"decode_tokens_per_second=37.6 batch=5 queue=7 wall_p50=77ms wall_p99=100ms lost=3 refused=1 restarts=1 age=500ms\n" +
			`endpoint=tcp://b:1 state=wrong_socket_type rank=- worker_id="" passes_per_second=0 prefill_tokens_per_second=0 ` +
			"decode_tokens_per_second=0 batch=0 queue=0 wall_p50=- wall_p99=- lost=0 refused=0 restarts=0 age=-\n"
		if lines.String() != wantLines {
			t.Errorf("got\n%swant\n%s", lines.String(), wantLines)
		}
		shown := strings.Split(table.String(), clearLine)
		if len(shown) != 4 || !strings.HasPrefix(shown[0], home) || shown[3] != clearBelow {
			t.Fatalf("table %q", shown)
		}
		if got := strings.Join(strings.Fields(shown[1]), " "); got != "3 tcp://a:1 connected 9.4 940 37.6 5 7 77ms 100ms 500ms 3 1" {
			t.Errorf("row %q", got)
		}
		for _, line := range shown[1:3] {
			if strings.Contains(strings.TrimPrefix(line, home), "\x1b") {
				t.Errorf("foreign escape in %q", line)
			}
		}
	})
}

func TestSamplesAreBounded(t *testing.T) {
	m := newMonitor([]stream.Endpoint{{Address: "tcp://a:1"}})
	for i := range 3 * maxSamples {
		m.deliver(&fpm.Delivery{Origin: &fpm.Origin{Name: "tcp://a:1"}, Received: time.Now(), Record: pass(uint64(i), 1)})
	}
	if n := len(m.endpoints["tcp://a:1"].samples); n > maxSamples {
		t.Errorf("%d samples", n)
	}
}

// lockedBuffer hands over what was written each time.
type lockedBuffer struct {
	mu   sync.Mutex
	text string
	ch   chan string
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text += string(p)
	select {
	case b.ch <- b.text:
	default:
	}
	return len(p), nil
}

// TestRun watches a publisher of package zmq4 and an endpoint where nobody listens.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pub := zmq4.NewPub(ctx)
	defer pub.Close()
	if err := pub.Listen("tcp://127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	endpoints := []stream.Endpoint{{Address: "tcp://" + pub.Addr().String()}, {Address: "tcp://" + free.Addr().String()}}

	out := &lockedBuffer{ch: make(chan string, 1)}
	done := make(chan error, 1)
	go func() { done <- Run(ctx, endpoints, out, true) }()
	stop := make(chan struct{})
	var publishing sync.WaitGroup
	publishing.Go(func() {
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for seq := uint64(0); ; seq++ {
			select {
			case <-stop:
				return
			case <-ticker.C:
				payload, err := (&fpm.Record{Version: 1, WallTime: 0.02, Scheduled: fpm.Scheduled{NumDecodeRequests: 7}}).AppendMsgpack(nil)
				if err == nil {
					err = pub.SendMulti(zmq4.NewMsgFrom(nil, binary.BigEndian.AppendUint64(nil, seq), payload))
				}
				if err != nil {
					t.Error(err)
				}
			}
		}
	})
	deadline := time.After(30 * time.Second)
	for shown := false; !shown; {
		select {
		case text := <-out.ch:
			last := text[max(strings.LastIndex(text, home), 0):]
			shown = strings.Contains(last, "connected") && strings.Contains(last, "20ms") && strings.Contains(last, "dial")
		case <-deadline:
			t.Fatalf("not shown: %q", out.text)
		}
	}
	close(stop)
	publishing.Wait()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// failing is a pipe whose reader is gone.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, fmt.Errorf("broken pipe") }

func TestRunErrors(t *testing.T) {
	var out bytes.Buffer
	if err := Run(t.Context(), []stream.Endpoint{{Address: "nonsense"}}, &out, false); err == nil || out.Len() != 0 {
		t.Errorf("bad endpoint: %v, wrote %q", err, out.String())
	}
	if err := Run(t.Context(), nil, failing{}, true); err == nil {
		t.Error("no error from an output that is gone")
	}
}
