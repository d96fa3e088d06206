package omnievents

import (
	"bufio"
	"context"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// exporter answers every post with status and, for 400, that one line was bad;
// it counts lines.
func exporter(t *testing.T, status int) (url string, lines func() int) {
	t.Helper()
	n := make(chan int, 1)
	n <- 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := <-n
		defer func() { n <- got }()
		for s := bufio.NewScanner(r.Body); s.Scan(); got++ {
			continue
		}
		if status == http.StatusBadRequest {
			w.Header().Set("Omni-Rejected-Lines", "1")
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/", func() int { got := <-n; n <- got; return got }
}

func closeNow(t *testing.T, c *Client) {
	t.Helper()
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, c *Client, sent, rejected, dropped int64) {
	t.Helper()
	if c.Sent() != sent || c.Rejected() != rejected || c.Dropped() != dropped {
		t.Errorf("sent %d, rejected %d, dropped %d; want %d, %d, %d", c.Sent(), c.Rejected(), c.Dropped(), sent, rejected, dropped)
	}
}

func TestEventsArriveInBatches(t *testing.T) {
	url, lines := exporter(t, http.StatusAccepted)
	c := New(url, 10_000)
	for i := range 3*maxBatch + 7 {
		c.Send(Event{"type": "request_failed", "request_id": strconv.Itoa(i)})
	}
	closeNow(t, c)
	want(t, c, 3*maxBatch+7, 0, 0)
	if lines() != 3*maxBatch+7 {
		t.Errorf("%d lines arrived", lines())
	}
	c.Send(Event{"type": "request_failed"}) // after the end
	want(t, c, 3*maxBatch+7, 0, 1)
}

func TestRefusedEventsAreCounted(t *testing.T) {
	for status, counts := range map[int][3]int64{
		http.StatusBadRequest: {2, 2, 0}, http.StatusRequestEntityTooLarge: {0, 1, 3},
	} {
		url, _ := exporter(t, status)
		c := New(url, 10)
		for range 3 {
			c.Send(Event{"type": "x"})
		}
		c.Send(Event{"type": "x", "e2e_s": math.NaN()}) // is no JSON
		closeNow(t, c)
		want(t, c, counts[0], counts[1], counts[2])
	}
}

func TestExporterAway(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	c := New(url, 10)
	for range 1000 {
		c.Send(Event{"type": "x"}) // returns at once, queue full or not
	}
	closeNow(t, c)
	want(t, c, 0, 0, 1000)
}

func TestLoneEventIsSentAfterTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New("http://exporter.invalid", 10)
		posted := make(chan string, 1)
		c.http.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			posted <- r.URL.Path
			return &http.Response{StatusCode: http.StatusAccepted, Body: http.NoBody}, nil
		})
		c.Send(Event{"type": "x"})
		if path := <-posted; path != "/api/v1/events" {
			t.Errorf("posted to %s", path)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
		want(t, c, 1, 0, 0)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
