package scrape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

const (
	// accept names both formats. Their weights decide nothing at vLLM: the Python client
	// answers with OpenMetrics as soon as it is named (in about the same time as text),
	// the Rust front end whatever it is asked.
	accept = "text/plain;version=0.0.4;q=1,text/plain;version=1.0.0;q=0.9,application/openmetrics-text;version=1.0.0;q=0.8,*/*;q=0.1"

	// timeoutHeader tells a target how long its caller waits, in seconds.
	timeoutHeader = "X-Prometheus-Scrape-Timeout-Seconds"

	// HopHeader lists the exporters that a scrape has passed through, so that one
	// which would scrape itself can refuse.
	HopHeader = "X-Omni-Exporter-Hop"

	// maxDrain bounds what is read of a body that is not wanted.
	maxDrain = 64 << 10

	// maxRedirects bounds redirects within one host. vLLM answers /metrics with
	// one, to /metrics/, in some versions.
	maxRedirects = 3
)

// fetched is a page as it came.
type fetched struct {
	body   []byte
	format exposition.Format
}

// fetch asks the target for its page and reads it whole. The deadline is what the
// target is told; the context is what ends the scrape.
func (t *Target) fetch(ctx context.Context, deadline time.Time, hops string) (fetched, *Failure) {
	req := t.request.Clone(ctx)
	seconds := max(time.Until(deadline).Seconds(), 0)
	req.Header.Set(timeoutHeader, strconv.FormatFloat(seconds, 'f', 3, 64))
	req.Header.Set(HopHeader, hops)
	resp, err := t.options.Client.Do(req)
	if err != nil {
		return fetched{}, requestFailure(ctx, withoutURL(err))
	}
	defer closeBody(resp)
	if resp.StatusCode != http.StatusOK {
		return fetched{}, failed(ReasonStatus, statusError(resp))
	}
	format, err := exposition.FormatOf(resp.Header.Get("Content-Type"))
	if err != nil {
		return fetched{}, failed(ReasonContentType, err)
	}
	var body io.Reader = resp.Body
	switch encoding := resp.Header.Get("Content-Encoding"); {
	case encoding == "" || strings.EqualFold(encoding, "identity"):
		if limit := t.options.BodySizeLimit; limit > 0 && resp.ContentLength > limit {
			return fetched{}, failed(ReasonBodySize, t.tooLarge(resp.ContentLength))
		}
	case strings.EqualFold(encoding, "gzip"):
		unzipped, err := gzip.NewReader(resp.Body)
		if err != nil {
			return fetched{}, bodyFailure(ctx, fmt.Errorf("read gzip header: %w", err))
		}
		defer func() { _ = unzipped.Close() }()
		body = unzipped
	default:
		return fetched{}, failed(ReasonContentType, fmt.Errorf("unusable Content-Encoding %q: the server must send identity or gzip", encoding))
	}
	// Only now is a buffer taken: a target that is slow to answer holds none.
	buf := t.buffers.Get(t.expectedSize(resp))
	read, failure := t.readBody(ctx, body, buf)
	if failure != nil {
		if cap(read) == cap(buf) { // one that grew, up to the limit maybe, is worth less than its room
			t.buffers.Put(read)
		}
		return fetched{}, failure
	}
	return fetched{body: read, format: format}, nil
}

// trustedSize is how much of a declared length is believed before a byte has come.
const trustedSize = 1 << 20

// expectedSize returns about how many bytes the page will have.
func (t *Target) expectedSize(resp *http.Response) int {
	if resp.ContentLength > 0 && resp.Header.Get("Content-Encoding") == "" {
		return int(min(resp.ContentLength, int64(max(trustedSize, 2*t.lastSize))))
	}
	return t.lastSize
}

// closeBody ends a response. A short rest of known length is read, to keep the
// connection; else the connection is closed with it. Of a 101 nothing is read: its
// body is the connection itself, which no deadline of the request ends.
func closeBody(resp *http.Response) {
	switching := resp.StatusCode == http.StatusSwitchingProtocols
	if !switching && resp.ContentLength >= 0 && resp.ContentLength <= maxDrain {
		_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
	}
	_ = resp.Body.Close()
}

// readBody reads up to one byte more than the limit, so that a page of exactly
// the limit is good, and counts decompressed bytes (vmagent #9481 counts
// compressed ones). It returns the buffer in every case.
func (t *Target) readBody(ctx context.Context, body io.Reader, buf []byte) ([]byte, *Failure) {
	buf = buf[:0]
	limit := t.options.BodySizeLimit
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		free := buf[len(buf):cap(buf)]
		if limit > 0 {
			free = free[:min(int64(len(free)), limit+1-int64(len(buf)))]
		}
		n, err := body.Read(free)
		buf = buf[:len(buf)+n]
		if limit > 0 && int64(len(buf)) > limit {
			return buf, failed(ReasonBodySize, t.tooLarge(0))
		}
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return buf, bodyFailure(ctx, err)
		}
	}
}

func (t *Target) tooLarge(size int64) error {
	what := "page"
	if size > 0 {
		what = fmt.Sprintf("page of %d bytes", size)
	}
	return fmt.Errorf("%s exceeds body_size_limit of %d bytes: raise it or have the server send less", what, t.options.BodySizeLimit)
}

func statusError(resp *http.Response) error {
	if location := resp.Header.Get("Location"); location != "" && resp.StatusCode/100 == 3 {
		return fmt.Errorf("HTTP status %d, and its redirect is not followed: set metrics_path to the path that answers", resp.StatusCode)
	}
	return fmt.Errorf("HTTP status %d", resp.StatusCode)
}

// withoutURL strips the URL that net/http puts into its errors: it may carry
// secrets in its query.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// sameHost lets the client follow a redirect within the same scheme and host: the
// client adds its credentials to every request, and no answer may say where they
// are sent.
func sameHost(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	if len(via) > maxRedirects || req.URL.Scheme != first.Scheme ||
		!strings.EqualFold(hostPort(req.URL.Host, req.URL.Scheme), hostPort(first.Host, first.Scheme)) {
		return http.ErrUseLastResponse
	}
	return nil
}
