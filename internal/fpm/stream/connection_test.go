package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// say describes deliveries in short.
func say(deliveries []fpm.Delivery) (out []string) {
	for _, d := range deliveries {
		text := fmt.Sprintf("record %d", d.Record.CounterID)
		if d.Rejected != nil {
			text = string(d.Rejected.Reason)
		}
		if d.Lost > 0 {
			text += fmt.Sprintf(" lost %d", d.Lost)
		}
		if d.Restarted {
			text += " restarted"
		}
		out = append(out, text)
	}
	return out
}

// TestDeliveries covers what becomes of messages, over two connections.
func TestDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := func(seq uint64) []byte { return message(seq, []byte{0xc1}) }
		write := func(conn net.Conn, raw ...[]byte) {
			if _, err := conn.Write(bytes.Join(raw, nil)); err != nil {
				t.Error(err)
			}
		}
		var got collected
		start(t, Options{Sink: got.sink, Dial: pipes(func(attempt int, conn net.Conn) {
			if !handshake(conn, "PUB") {
				t.Error("no subscription")
				return
			}
			if attempt > 0 {
				send(t, conn, 20, 0, 1)
				drain(conn, true)
				return
			}
			send(t, conn, 5, 6, 9)
			write(conn, bad(10), bad(12))
			write(conn, frame(0, nil), frame(flagMore, nil), frame(0, nil))                                                                           // one and two frames
			write(conn, frame(flagMore, []byte("t")), frame(flagMore, make([]byte, 8)), frame(0, nil))                                                // a topic
			write(conn, frame(flagMore, nil), frame(flagMore, make([]byte, 4)), frame(0, nil))                                                        // a short number
			write(conn, bytes.Repeat(frame(flagMore, nil), maxParts-1), frame(0, nil))                                                                // as many as allowed
			write(conn, message(13, make([]byte, maxFrame)))                                                                                          // as large as allowed
			write(conn, frame(flagCommand, []byte("\x09SUBSCRIBE")), message(14, encode(t, record(14))), message(14, encode(t, record(14))), bad(16)) // twice
		})}, "tcp://publisher:20380")
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		want := []string{
			"record 5", "record 6", "record 9 lost 2",
			"malformed", "malformed lost 1",
			"framing", "framing", "framing", "framing", "framing", "malformed",
			"record 14", "duplicate", "malformed lost 1",
			"record 20 lost 3", "record 0 restarted", "record 1",
		}
		if diff := cmp.Diff(want, say(got.list())); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSilentPublisherThatAnswersStaysConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pings atomic.Int64
		var got collected
		s := start(t, Options{Sink: got.sink, Dial: pipes(func(_ int, conn net.Conn) {
			if handshake(conn, "XPUB") {
				send(t, conn, 1)
				pings.Add(int64(drain(conn, true)))
			}
		})}, "tcp://publisher:20380")
		time.Sleep(time.Hour) // as in a publisher's self-benchmark
		synctest.Wait()
		st := s.State()[0]
		if !st.Connected() || st.Failures != 0 || st.Messages != 1 || st.WorkerID != "4192" || st.Rank != 0 {
			t.Errorf("state %+v", st)
		}
		s.Close()
		synctest.Wait()
		if n := pings.Load(); n != 719 && n != 720 {
			t.Errorf("%d pings in an hour, want one each %v", n, DefaultTiming().Ping)
		}
	})
}

// TestPartition drops the connection's bytes without a reset, as a firewall or a lost host does.
func TestPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got collected
		s := start(t, Options{Sink: got.sink, Dial: pipes(func(attempt int, conn net.Conn) {
			if !handshake(conn, "PUB") {
				return
			}
			if attempt == 0 {
				send(t, conn, 0, 1, 2)
				drain(conn, false)
				return
			}
			send(t, conn, 40)
			drain(conn, true)
		})}, "tcp://publisher:20380")
		timing := DefaultTiming()
		time.Sleep(timing.Idle - time.Millisecond)
		synctest.Wait()
		if st := s.State()[0]; !st.Connected() {
			t.Fatalf("given up too early: %+v", st)
		}
		time.Sleep(2*time.Millisecond + timing.BackoffMin)
		synctest.Wait()
		st := s.State()[0]
		if !st.Connected() || st.Reconnects != 1 || st.Failures != 1 || st.LastReason != ReasonIdle {
			t.Errorf("not back after one backoff: %+v", st)
		}
		want := []string{"record 0", "record 1", "record 2", "record 40 lost 37"}
		if diff := cmp.Diff(want, say(got.list())); diff != "" {
			t.Error(diff)
		}
	})
}

// TestDripFed lets bytes come often enough for a naive idle timer and too slow for a frame.
func TestDripFed(t *testing.T) {
	most := string(make([]byte, 10_000))
	greeted := func(c net.Conn) bool {
		_, err := io.ReadFull(c, make([]byte, greetingSize))
		return err == nil
	}
	published := func(c net.Conn) bool { return handshake(c, "PUB") }
	for _, tc := range []struct {
		reason Reason
		ready  func(net.Conn) bool
		drip   string
		pause  time.Duration
	}{
		{ReasonIdle, published, "\x02\x00\x00\x00\x00\x00\x00\xff\xff" + most, time.Second},
		{ReasonIdle, published, "\x02\x00\x00\x00\x00\x00\x00\xff\xff" + most, minWait / 2},
		{ReasonHandshakeTimeout, greeted, "\xff" + most, time.Second},
		{ReasonHandshakeTimeout, greeted, "\xff" + most, 3 * minWait},
	} {
		t.Run(fmt.Sprint(tc.reason, tc.pause), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timing := DefaultTiming()
				s := start(t, Options{Sink: func(*fpm.Delivery) {}, Dial: pipes(func(_ int, conn net.Conn) {
					if !tc.ready(conn) {
						return
					}
					go drain(conn, false)
					for i := range tc.drip {
						if _, err := conn.Write([]byte{tc.drip[i]}); err != nil {
							return
						}
						time.Sleep(tc.pause)
					}
				})}, "tcp://publisher:20380")
				limit := timing.Handshake
				if tc.reason == ReasonIdle {
					limit = timing.Idle
				}
				time.Sleep(limit + 2*minWait)
				synctest.Wait()
				if st := s.State()[0]; st.LastReason != tc.reason {
					t.Errorf("state %+v", st)
				}
				s.Close()
				time.Sleep(time.Second) // for the peer to see it
			})
		})
	}
}

// TestBackoff measures the waits between refused attempts and that a record, not a mere connection, starts them over.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts []time.Time
		var mu sync.Mutex
		begin := time.Now()
		deliver := pipes(func(_ int, conn net.Conn) {
			if handshake(conn, "PUB") {
				send(t, conn, 1)
			}
		})
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			attempts = append(attempts, time.Now())
			if len(attempts) == 9 {
				return deliver(ctx, network, address)
			}
			return nil, errors.New("connection refused")
		}
		s := start(t, Options{Sink: func(*fpm.Delivery) {}, Dial: dial}, "tcp://publisher:20380")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		s.Close()
		timing := DefaultTiming()
		if !attempts[0].Equal(begin) {
			t.Errorf("first attempt after %v", attempts[0].Sub(begin))
		}
		most := timing.BackoffMin
		for i := 1; i < 20; i++ {
			if i == 9 {
				most = timing.BackoffMin
			}
			if wait := attempts[i].Sub(attempts[i-1]); wait < most/2 || wait > most {
				t.Errorf("attempt %d after %v, want %v to %v", i, wait, most/2, most)
			}
			most = min(most+most/2, timing.BackoffMax)
		}
	})
}

func TestDialTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{Sink: func(*fpm.Delivery) {}, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, "tcp://publisher:20380")
		time.Sleep(DefaultTiming().Dial + time.Millisecond)
		synctest.Wait()
		if st := s.State()[0]; st.LastReason != ReasonDialTimeout || st.Phase != PhaseWaiting {
			t.Errorf("state %+v", st)
		}
	})
}

// TestPanicIsContained stands for what the guard does not know of: it must cost a connection and not the process.
func TestPanicIsContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{Sink: func(*fpm.Delivery) { panic("unforeseen") }, Dial: pipes(func(_ int, conn net.Conn) {
			if handshake(conn, "PUB") {
				send(t, conn, 1)
				drain(conn, true)
			}
		})}, "tcp://publisher:20380")
		time.Sleep(time.Second)
		synctest.Wait()
		if st := s.State()[0]; st.LastReason != ReasonPanic || st.Reconnects == 0 {
			t.Errorf("state %+v", st)
		}
	})
}

// TestLogs: a peer that fails alike a hundred times is one line at level warning, and so are its refused messages.
func TestLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf bytes.Buffer
		s := NewSupervisor(Options{
			Sink:   func(*fpm.Delivery) {},
			Logger: slog.New(slog.NewTextHandler(&buf, nil)),
			Dial: pipes(func(attempt int, conn net.Conn) {
				if attempt > 0 {
					_, _ = io.ReadFull(conn, make([]byte, greetingSize))
					_, _ = conn.Write([]byte("HTTP/1.1\r\n\x1b[31m"))
					return
				}
				if handshake(conn, "PUB") {
					for seq := range uint64(50) {
						_, _ = conn.Write(message(seq, encode(t, fpm.Record{Version: 99})))
					}
					send(t, conn, 50)
				}
			}),
		})
		defer s.Close()
		if err := s.Apply([]Endpoint{{Address: "tcp://publisher:20381", Rank: 1}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		s.Close()
		out := buf.String()
		for text, times := range map[string]int{
			"Message refused": 1, "unsupported version 99": 1, "Another data-parallel rank": 1,
			"Forward-pass records arrive": 1, "is not connected": 2, "does not speak ZMTP": 1, "tcp://publisher:20381": 5, "\x1b": 0,
		} {
			if n := strings.Count(out, text); n != times {
				t.Errorf("%q comes %d times, want %d", text, n, times)
			}
		}
		if t.Failed() {
			t.Log(out)
		}
	})
}

// TestLogsOfPeersWithoutRecords: such a peer is one line, however often it is connected to.
func TestLogsOfPeersWithoutRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf bytes.Buffer
		s := start(t, Options{
			Sink: func(*fpm.Delivery) {}, Logger: slog.New(slog.NewTextHandler(&buf, nil)),
			Dial: pipes(func(_ int, conn net.Conn) { afterHandshake([]byte{0x80, 1, 0})(conn) }),
		}, "tcp://publisher:20380")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		s.Close()
		if n := strings.Count(buf.String(), "\n"); n != 1 || !strings.Contains(buf.String(), "reserved flags") {
			t.Errorf("%d lines:\n%s", n, buf.String())
		}
	})
}

// TestApply changes the set of endpoints and looks at who is dialled.
func TestApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		dialled := map[string]int{}
		inner := pipes(func(_ int, conn net.Conn) {
			if handshake(conn, "PUB") {
				drain(conn, true)
			}
		})
		s := NewSupervisor(Options{Logger: quiet(), Sink: func(*fpm.Delivery) {}, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			dialled[address]++
			return inner(ctx, network, address)
		}})
		defer s.Close()
		a, b, c := Endpoint{Address: "tcp://a:1"}, Endpoint{Address: "tcp://b:1"}, Endpoint{Address: "tcp://c:1"}
		relabelled := Endpoint{Address: "tcp://b:1", Labels: fpm.Labels{Stage: "1"}}
		apply := func(want map[string]int, endpoints ...Endpoint) {
			t.Helper()
			if err := s.Apply(endpoints); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if diff := cmp.Diff(want, dialled); diff != "" {
				t.Error(diff)
			}
			var got []Endpoint
			for _, st := range s.State() {
				if !st.Connected() {
					t.Errorf("%+v", st)
				}
				got = append(got, st.Endpoint)
			}
			if diff := cmp.Diff(endpoints, got); diff != "" {
				t.Error(diff)
			}
		}
		apply(map[string]int{"a:1": 1, "b:1": 1}, a, b)
		apply(map[string]int{"a:1": 1, "b:1": 1}, b, a)
		apply(map[string]int{"a:1": 1, "b:1": 1, "c:1": 1}, c, b)
		apply(map[string]int{"a:1": 1, "b:1": 2, "c:1": 1}, c, relabelled)
		apply(map[string]int{"a:1": 2, "b:1": 2, "c:1": 1}, a)
		apply(map[string]int{"a:1": 2, "b:1": 2, "c:1": 1})

		err := s.Apply([]Endpoint{{Address: "tcp://*:1"}, a, {Address: "tcp://a:1", Rank: 3}})
		if err == nil || !strings.Contains(err.Error(), "tcp://*:1") || !strings.Contains(err.Error(), "listed twice") {
			t.Errorf("error %v", err)
		}
		if st := s.State(); len(st) != 1 || st[0].Endpoint != a {
			t.Errorf("state %+v", st)
		}
		s.Close()
		if err := s.Apply([]Endpoint{b}); err != nil || len(s.State()) != 1 {
			t.Errorf("after Close: %v, %+v", err, s.State())
		}
	})
}

// TestLateStartAndRestart: nobody listens at first, then a publisher comes, goes and comes again, on TCP and IPC.
func TestLateStartAndRestart(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			listen, address := "127.0.0.1:0", ""
			if network == "unix" {
				listen = filepath.Join(t.TempDir(), "fpm.0")
				address = "ipc://" + listen
			} else {
				l, err := net.Listen(network, listen)
				if err != nil {
					t.Fatal(err)
				}
				listen, address = l.Addr().String(), "tcp://"+l.Addr().String()
				l.Close()
			}
			var got collected
			s := start(t, Options{Sink: got.sink, Timing: impatient()}, address)
			await(t, "a refused attempt", func() bool { return s.State()[0].LastReason == ReasonDial })
			for round := range 2 {
				l, err := net.Listen(network, listen)
				if err != nil {
					t.Fatal(err)
				}
				stop := serveOn(t, l, func(conn net.Conn) {
					if handshake(conn, "PUB") {
						send(t, conn, 0, 1)
						drain(conn, true)
					}
				})
				await(t, "records", func() bool { return len(got.list()) == 2*(round+1) })
				stop()
				await(t, "the end", func() bool { st := s.State()[0]; return !st.Connected() })
			}
			want := []string{"record 0", "record 1", "record 0 restarted", "record 1"}
			if diff := cmp.Diff(want, say(got.list())); diff != "" {
				t.Error(diff)
			}
			if st := s.State()[0]; st.Reconnects != 1 {
				t.Errorf("%d reconnects, want 1", st.Reconnects)
			}
		})
	}
}
