// Package omnievents sends pipeline events to omni_exporter. It needs the
// standard library alone, so that it can be copied into another module.
package omnievents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Event is the fields of one event by name; "type" is required. The exporter's
// docs/events.md has them all.
type Event map[string]any

const (
	maxBatch   = 500 // events per request
	interval   = 500 * time.Millisecond
	timeout    = 5 * time.Second
	minBackoff = 250 * time.Millisecond
	maxBackoff = 10 * time.Second
)

// Client queues events and posts them in the background. It never blocks or
// fails into its caller: an event that finds the queue full, or whose delivery
// fails, is gone and counted. It is safe for concurrent use.
type Client struct {
	url     string
	http    *http.Client
	queue   chan Event
	closing chan struct{}
	done    chan struct{}
	once    sync.Once

	sent, rejected, dropped atomic.Int64
}

// New returns a client of the exporter at base, such as
// http://127.0.0.1:10380, that holds up to queueSize events. Close it.
func New(base string, queueSize int) *Client {
	c := &Client{
		url:     strings.TrimRight(base, "/") + "/api/v1/events",
		http:    &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}},
		queue:   make(chan Event, queueSize),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
	}
	go c.run()
	return c
}

// Send queues an event. The map must not be changed afterwards.
func (c *Client) Send(e Event) {
	select {
	case <-c.closing:
		c.dropped.Add(1)
		return
	default:
	}
	select {
	case c.queue <- e:
	default:
		c.dropped.Add(1)
	}
}

// Sent returns how many events the exporter accepted.
func (c *Client) Sent() int64 { return c.sent.Load() }

// Rejected returns how many events the exporter refused.
func (c *Client) Rejected() int64 { return c.rejected.Load() }

// Dropped returns how many events did not reach the exporter, or maybe not.
func (c *Client) Dropped() int64 { return c.dropped.Load() }

// Close sends what is queued and stops; it returns when that is done or ctx is.
func (c *Client) Close(ctx context.Context) error {
	c.once.Do(func() { close(c.closing) })
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) run() {
	defer close(c.done)
	for {
		body, n, more := c.batch()
		for backoff := minBackoff; n > 0 && !c.post(body, n); backoff = min(2*backoff, maxBackoff) {
			select {
			case <-c.closing:
				c.dropped.Add(int64(n + len(c.queue)))
				return
			case <-time.After(backoff):
			}
		}
		if !more {
			return
		}
	}
}

// batch waits for events and encodes them. more is false when the client is
// closed and the queue empty.
func (c *Client) batch() (body []byte, n int, more bool) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	add := func(e Event) {
		if err := encoder.Encode(e); err != nil {
			c.rejected.Add(1) // it is no JSON, such as NaN
			return
		}
		n++
	}
	var late <-chan time.Time
	for n < maxBatch {
		select {
		case e := <-c.queue:
			add(e)
			if late == nil {
				late = time.After(interval)
			}
			continue
		case <-late:
			return b.Bytes(), n, true
		case <-c.closing:
		}
		select { // closing: only what is queued
		case e := <-c.queue:
			add(e)
		default:
			return b.Bytes(), n, false
		}
	}
	return b.Bytes(), n, true
}

// post sends a body and counts it; false if it certainly did not arrive. One
// that may have arrived is not sent again, or it could count twice.
func (c *Client) post(body []byte, n int) bool {
	response, err := c.http.Post(c.url, "application/x-ndjson", bytes.NewReader(body))
	var operation *net.OpError
	if errors.As(err, &operation) && operation.Op == "dial" {
		return false
	}
	if err != nil {
		c.dropped.Add(int64(n))
		return true
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20)) // only the status and a header matter
	switch response.StatusCode {
	case http.StatusAccepted:
		c.sent.Add(int64(n))
	case http.StatusServiceUnavailable:
		return false
	case http.StatusBadRequest:
		bad, err := strconv.Atoi(response.Header.Get("Omni-Rejected-Lines"))
		if err != nil {
			c.dropped.Add(int64(n))
			break
		}
		bad = min(bad, n)
		c.rejected.Add(int64(bad))
		c.sent.Add(int64(n - bad))
	default:
		c.dropped.Add(int64(n))
	}
	return true
}
