//go:build integration

package stream_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/omni-exporter/omni_exporter/collector"
	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/stream"
)

const (
	python   = "/usr/bin/python3" // the one that Debian's python3-zmq and python3-msgpack are for
	workerID = "7587888736726549301"
)

// peer is a running testdata/fpm_peer.py.
type peer struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

func startPeer(t *testing.T, args ...string) *peer {
	t.Helper()
	p := &peer{t: t, cmd: exec.Command(python, append([]string{"testdata/fpm_peer.py"}, args...)...), lines: make(chan string, 16)}
	var errs strings.Builder
	p.cmd.Stderr = &errs
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in = in
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(p.lines)
		s := bufio.NewScanner(out)
		s.Buffer(nil, 1<<20) // the totals of hundreds of ranks are one line
		for s.Scan() {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		in.Close()
		_ = p.cmd.Process.Kill()
		for range p.lines {
		}
		<-done
		_ = p.cmd.Wait()
		if errs.Len() > 0 {
			t.Log(errs.String())
		}
	})
	p.expect("bound")
	return p
}

// expect reads a line with the given beginning and returns the rest.
func (p *peer) expect(begin string) string {
	p.t.Helper()
	select {
	case line, ok := <-p.lines:
		rest, found := strings.CutPrefix(line, begin)
		if !ok || !found {
			p.t.Fatalf("peer says %q (running: %v), want %q", line, ok, begin)
		}
		return rest
	case <-time.After(2 * time.Minute):
		p.t.Fatalf("peer does not say %q", begin)
	}
	return ""
}

func (p *peer) say(word string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, word); err != nil {
		p.t.Fatal(err)
	}
}

// totals ends the peer and returns what it sent, by rank.
func (p *peer) totals() (out []map[string]float64) {
	p.t.Helper()
	p.say("end")
	if err := json.Unmarshal([]byte(p.expect("")), &out); err != nil {
		p.t.Fatal(err)
	}
	return out
}

// freePorts returns the first of n consecutive ports that were free just now, below the usual ephemeral range.
func freePorts(t *testing.T, n int) int {
	t.Helper()
search:
	for base := 21000; base < 32000; base += n {
		for i := range n {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(base+i)))
			if err != nil {
				continue search
			}
			l.Close()
		}
		return base
	}
	t.Fatal("no free ports")
	return 0
}

// exporter is the part of the exporter that reads streams.
type exporter struct {
	t        *testing.T
	fpm      *collector.FPM
	streams  *stream.Supervisor
	registry *prometheus.Registry
}

func startExporter(t *testing.T, endpoints ...stream.Endpoint) *exporter {
	t.Helper()
	e := &exporter{t: t, fpm: collector.NewFPM(collector.FPMOptions{Logger: slog.New(slog.DiscardHandler)}), registry: prometheus.NewRegistry()}
	e.streams = stream.NewSupervisor(stream.Options{Sink: e.fpm.Deliver, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(e.streams.Close)
	e.registry.MustRegister(e.fpm, collector.NewFPMStreams(e.streams.State))
	if err := e.streams.Apply(endpoints); err != nil {
		t.Fatal(err)
	}
	return e
}

// sum adds up a family's series that have all the given labels.
func (e *exporter) sum(family string, labels ...string) float64 {
	e.t.Helper()
	families, err := e.registry.Gather()
	if err != nil {
		e.t.Fatal(err)
	}
	total := 0.0
	for _, f := range families {
		if f.GetName() != family {
			continue
		}
	metrics:
		for _, m := range f.Metric {
			have := map[string]string{}
			for _, l := range m.Label {
				have[l.GetName()] = l.GetValue()
			}
			for _, want := range labels {
				name, value, _ := strings.Cut(want, "=")
				if have[name] != value {
					continue metrics
				}
			}
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return total
}

// totals reads from the page what a peer counts of a rank.
func (e *exporter) totals(rank int) map[string]float64 {
	w, r := "worker_id="+workerID, fmt.Sprintf("dp_rank=%d", rank)
	return map[string]float64{
		"records":             e.sum("dynamo_fpm_records_total", w, r),
		"heartbeats":          e.sum("dynamo_fpm_heartbeats_total", w, r),
		"prefill":             e.sum("dynamo_fpm_forward_passes_total", w, r, "kind=prefill"),
		"decode":              e.sum("dynamo_fpm_forward_passes_total", w, r, "kind=decode"),
		"mixed":               e.sum("dynamo_fpm_forward_passes_total", w, r, "kind=mixed"),
		"prefill_tokens":      e.sum("dynamo_fpm_prefill_tokens_total", w, r),
		"prefill_kv_tokens":   e.sum("dynamo_fpm_prefill_kv_tokens_total", w, r),
		"decode_requests":     e.sum("dynamo_fpm_decode_requests_total", w, r),
		"decode_kv_tokens":    e.sum("dynamo_fpm_decode_kv_tokens_total", w, r),
		"lost":                e.sum("dynamo_fpm_records_lost_total", w, r),
		"gaps":                e.sum("dynamo_fpm_sequence_gaps_total", w, r),
		"malformed":           e.sum("dynamo_fpm_records_rejected_total", w, r, "reason=malformed"),
		"unsupported_version": e.sum("dynamo_fpm_records_rejected_total", w, r, "reason=unsupported_version"),
		"invalid_value":       e.sum("dynamo_fpm_records_rejected_total", w, r, "reason=invalid_value"),
		"wall_milliseconds":   1000 * e.sum("dynamo_fpm_forward_pass_seconds_total", w, r),
	}
}

// messages is how many messages of the worker were counted, in any way.
func (e *exporter) messages() float64 {
	return e.sum("dynamo_fpm_records_total", "worker_id="+workerID) + e.sum("dynamo_fpm_records_rejected_total", "worker_id="+workerID)
}

// awaitPriming waits until a priming record came from each rank since before.
func (e *exporter) awaitPriming(ranks int, before map[int]float64) map[int]float64 {
	e.t.Helper()
	now := map[int]float64{}
	awaitSlow(e.t, "priming records of all ranks", func() bool {
		for rank := range ranks {
			if now[rank] = e.sum("dynamo_fpm_records_total", "worker_id=0", fmt.Sprintf("dp_rank=%d", rank)); now[rank] <= before[rank] {
				return false
			}
		}
		return true
	})
	return now
}

func awaitSlow(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func ranks(t *testing.T, address string, n int) []stream.Endpoint {
	t.Helper()
	out, err := stream.ExpandRanks(stream.Endpoint{Address: address}, n)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (e *exporter) compare(want []map[string]float64) {
	e.t.Helper()
	for rank, totals := range want {
		if diff := cmp.Diff(totals, e.totals(rank), cmpopts.EquateApprox(0, 1e-6)); diff != "" {
			e.t.Errorf("rank %d: %s", rank, diff)
		}
	}
}

// TestLibzmqExact: two ranks with gaps, spoiled records and a restart; every counter equals the publisher's.
func TestLibzmqExact(t *testing.T) {
	const records = 500
	port := freePorts(t, 2)
	for transport, address := range map[string]string{
		"tcp": fmt.Sprintf("tcp://127.0.0.1:%d", port),
		"ipc": "ipc://" + filepath.Join(t.TempDir(), "fpm"),
	} {
		t.Run(transport, func(t *testing.T) {
			pattern := "tcp://127.0.0.1:%(port)d"
			if transport == "ipc" {
				pattern = address + ".%(rank)d"
			}
			e := startExporter(t, ranks(t, address, 2)...) // before there is anything to connect to
			p := startPeer(t, "--address", pattern, "--port", strconv.Itoa(port), "--ranks=2", fmt.Sprintf("--records=%d", records),
				"--gap-every=50", "--malformed-every=20", "--version-every=33", "--value-every=41")
			e.awaitPriming(2, nil)
			p.say("go")
			p.expect("sent")
			awaitSlow(t, "all messages", func() bool { return e.messages() == 2*records })
			primed := e.awaitPriming(2, nil) // as many as there will be until the restart
			p.say("again")
			p.expect("bound")
			e.awaitPriming(2, primed)
			p.say("go")
			p.expect("sent")
			awaitSlow(t, "all messages after the restart", func() bool { return e.messages() == 4*records })
			e.compare(p.totals())
			for _, s := range e.streams.State() {
				if s.Reconnects != 1 || int(s.Rank) != s.Endpoint.Rank {
					t.Errorf("%+v", s)
				}
			}
			for rank := range 2 {
				if n := e.sum("dynamo_fpm_publisher_restarts_total", "worker_id="+workerID, fmt.Sprintf("dp_rank=%d", rank)); n != 1 {
					t.Errorf("%v restarts of rank %d", n, rank)
				}
			}
		})
	}
}

// TestLibzmqBesideHostile: the good ranks stay exact and the process calm beside peers that are none.
func TestLibzmqBesideHostile(t *testing.T) {
	const records = 2000
	port := freePorts(t, 4)
	startPeer(t, "--port", strconv.Itoa(port+2), "--socket-type=ROUTER")
	startPeer(t, "--port", strconv.Itoa(port+3), "--heartbeat-ms=200")
	p := startPeer(t, "--port", strconv.Itoa(port), "--ranks=2", fmt.Sprintf("--records=%d", records),
		"--gap-every=50", "--malformed-every=20", "--version-every=33", "--value-every=41")
	bad := stream.ServeHostile(t, "frame of 2^62", "frame of 2^64-1", "endless multipart", "accepts and says nothing", "HTTP server", "random bytes")
	e := startExporter(t, append(ranks(t, fmt.Sprintf("tcp://127.0.0.1:%d", port), 4), bad...)...)
	e.awaitPriming(2, nil)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, goroutines, cpu, begin := heap(), runtime.NumGoroutine(), cpuTime(t), time.Now()
	p.say("go")
	p.expect("sent")
	used, took := cpuTime(t)-cpu, time.Since(begin)
	t.Logf("%.1f %% of a core; heap %d to %d kB, goroutines %d to %d", 100*used.Seconds()/took.Seconds(),
		before>>10, heap()>>10, goroutines, runtime.NumGoroutine())
	if now := runtime.NumGoroutine(); now > goroutines+20 {
		t.Errorf("%d goroutines grew to %d", goroutines, now)
	}
	awaitSlow(t, "all messages", func() bool { return e.messages() == 2*records })
	e.compare(p.totals())
	for i, s := range e.streams.State() {
		t.Logf("%-30s %-10s %3d failures %s: %s", s.Endpoint.Address, s.Phase, s.Failures, s.LastReason, s.LastError)
		if i == 3 && (!s.Connected() || s.Failures > 1) {
			t.Errorf("the publisher that pings was lost: %+v", s)
		}
		if (i == 2 || i > 3) && (s.LastReason == stream.ReasonNone || s.LastReason == stream.ReasonPanic || s.WorkerID != "") {
			t.Errorf("not recognised: %+v", s)
		}
	}
}

// TestLibzmqPingsAndRouter: publishers that ping us, and a ROUTER on the port after the ranks.
func TestLibzmqPingsAndRouter(t *testing.T) {
	const records = 400
	port := freePorts(t, 3)
	startPeer(t, "--port", strconv.Itoa(port+2), "--socket-type=ROUTER")
	p := startPeer(t, "--port", strconv.Itoa(port), "--ranks=2", fmt.Sprintf("--records=%d", records), "--heartbeat-ms=200")
	e := startExporter(t, ranks(t, fmt.Sprintf("tcp://127.0.0.1:%d", port), 3)...)
	e.awaitPriming(2, nil)
	p.say("go") // two seconds, ten pings
	p.expect("sent")
	awaitSlow(t, "all messages", func() bool { return e.messages() == 2*records })
	e.compare(p.totals())
	for rank, s := range e.streams.State() {
		if rank < 2 && (s.Failures != 0 && s.LastReason != stream.ReasonClosed && s.LastReason != stream.ReasonDial) {
			t.Errorf("ended a connection: %+v", s)
		}
		if rank == 2 && (s.Connected() || s.LastReason != stream.ReasonSocketType) {
			t.Errorf("the ROUTER was not recognised: %+v", s)
		}
	}
}

// TestLibzmqFrozen stops the publisher's process, so that the kernel still accepts but nothing answers.
func TestLibzmqFrozen(t *testing.T) {
	port := freePorts(t, 1)
	p := startPeer(t, "--port", strconv.Itoa(port), "--records=10")
	e := startExporter(t, ranks(t, fmt.Sprintf("tcp://127.0.0.1:%d", port), 1)...)
	e.awaitPriming(1, nil)
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awaitSlow(t, "the silence to be noticed", func() bool { return e.streams.State()[0].LastReason == stream.ReasonIdle })
	awaitSlow(t, "a handshake in vain", func() bool { return e.streams.State()[0].LastReason == stream.ReasonHandshakeTimeout })
	primed := e.awaitPriming(1, nil) // as many as there were
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	e.awaitPriming(1, primed)
	p.say("go")
	p.expect("sent")
	awaitSlow(t, "all messages", func() bool { return e.messages() == 10 })
	e.compare(p.totals())
}

// TestLibzmqManyRanks: 256 ranks at 100 records a second. Loss fails the test, the figures are for the log.
func TestLibzmqManyRanks(t *testing.T) {
	const (
		count   = 256
		records = 1000
	)
	port := freePorts(t, count)
	p := startPeer(t, "--port", strconv.Itoa(port), fmt.Sprintf("--ranks=%d", count), "--rate=100", fmt.Sprintf("--records=%d", records))
	e := startExporter(t, ranks(t, fmt.Sprintf("tcp://127.0.0.1:%d", port), count)...)
	e.awaitPriming(count, nil)
	idle := scrapeTimes(t, e, 5)
	cpu, begin := cpuTime(t), time.Now()
	p.say("go")
	rate := p.expect("sent")
	used, took := cpuTime(t)-cpu, time.Since(begin)
	awaitSlow(t, "all messages", func() bool { return e.messages() == count*records })
	t.Logf("%s records/s and rank, %d ranks: %.2f cores; goroutines %d", rate, count, used.Seconds()/took.Seconds(), runtime.NumGoroutine())
	t.Logf("gathering the page of idle ranks: %v", idle)
	p.say("go")
	awaitSlow(t, "the second run", func() bool { return e.messages() > count*records })
	t.Logf("gathering the page meanwhile: %v", scrapeTimes(t, e, 5))
	p.expect("sent")
	awaitSlow(t, "all messages again", func() bool { return e.messages() == 2*count*records })
	if lost := e.sum("dynamo_fpm_records_lost_total"); lost != 0 {
		t.Errorf("%v records lost", lost)
	}
	e.compare(p.totals()[:4])
	for _, s := range e.streams.State() {
		if s.Rank == fpm.UnknownRank || s.Rank != s.Endpoint.Rank {
			t.Errorf("%+v", s)
		}
	}
}

func scrapeTimes(t *testing.T, e *exporter, n int) (out []time.Duration) {
	t.Helper()
	for range n {
		begin := time.Now()
		if _, err := e.registry.Gather(); err != nil {
			t.Fatal(err)
		}
		out = append(out, time.Since(begin).Round(100*time.Microsecond))
	}
	return out
}

// cpuTime is what this process, without its children, has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
