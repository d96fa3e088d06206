package scrape

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// goodPage is what the good neighbour of a bad target shows, and goodLine how it
// leaves.
const (
	goodPage = "# HELP vllm:good Good.\n# TYPE vllm:good gauge\nvllm:good{engine=\"1\"} 7\n"
	goodLine = `vllm:good{replica="1",stage="0"} 7`
	badPage  = "# TYPE vllm:bad gauge\nvllm:bad{engine=\"0\"} 1\n"
)

func zip(t *testing.T, body string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// zipped answers with these bytes as a body of gzip.
func zipped(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", textType)
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(body)
	}
}

func head(contentType, more string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: " + contentType + "\r\n" + more + "\r\n"
}

// TestBadTargetCostsItsOwnSeries scrapes one bad target of each kind beside a good
// one: the page holds the good one whole and nothing of the bad one, and the reason
// is counted.
func TestBadTargetCostsItsOwnSeries(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", textType)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, badPage)
		}
	}
	endless := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", textType)
		for i := 0; r.Context().Err() == nil; i++ {
			if _, err := fmt.Fprintf(w, "vllm:flood{engine=\"0\",i=\"%d\"} 1\n", i); err != nil {
				return
			}
		}
	}
	written := func(text string) func(*net.TCPConn) {
		return func(c *net.TCPConn) { _, _ = io.WriteString(c, text) }
	}
	held := func(text string) func(*net.TCPConn) {
		return func(c *net.TCPConn) { _, _ = io.WriteString(c, text); untilHangup(c) }
	}
	reset := func(text string) func(*net.TCPConn) {
		return func(c *net.TCPConn) { _, _ = io.WriteString(c, text); _ = c.SetLinger(0) }
	}
	const hurried = "scrape_timeout: 100ms"

	tests := map[string]struct {
		handler http.HandlerFunc
		raw     func(*net.TCPConn)
		options string // of the upstream
		want    Reason
	}{
		"cut by length":          {raw: written(head(textType, "Content-Length: 1000\r\n") + badPage), want: ReasonTruncated},
		"reset in the body":      {raw: reset(head(textType, "Content-Length: 1000\r\n") + badPage), want: ReasonTruncated},
		"cut between chunks":     {raw: written(head(textType, "Transfer-Encoding: chunked\r\n") + "4\r\nvllm\r\n"), want: ReasonTruncated},
		"cut in a chunk":         {raw: written(head(textType, "Transfer-Encoding: chunked\r\n") + "40\r\nvllm"), want: ReasonTruncated},
		"last line without end":  {handler: answer(textType, badPage+"vllm:bad{engine=\"1\"} 12"), want: ReasonTruncated},
		"last value cut short":   {handler: answer(textType, badPage+"vllm:bad{engine=\"1\"} "), want: ReasonTruncated},
		"OpenMetrics, no EOF":    {handler: answer(openMetricsType, badPage), want: ReasonTruncated},
		"gzip cut short":         {handler: zipped(zip(t, strings.Repeat(badPage, 100))[:60]), want: ReasonTruncated},
		"gzip of nothing":        {handler: zipped(nil), want: ReasonTruncated},
		"not found":              {handler: status(http.StatusNotFound), want: ReasonStatus},
		"server error":           {handler: status(http.StatusInternalServerError), want: ReasonStatus},
		"unavailable":            {handler: status(http.StatusServiceUnavailable), want: ReasonStatus},
		"unauthorized":           {handler: status(http.StatusUnauthorized), want: ReasonStatus},
		"partial content":        {handler: status(http.StatusPartialContent), want: ReasonStatus},
		"no content":             {raw: written("HTTP/1.1 204 No Content\r\n\r\n"), want: ReasonStatus},
		"HTML":                   {handler: answer("text/html; charset=utf-8", "<html>sign in</html>\n"), want: ReasonContentType},
		"JSON":                   {handler: answer("application/json", badPage), want: ReasonContentType},
		"no content type":        {raw: written(head("", "") + badPage), want: ReasonContentType},
		"no content type header": {raw: written("HTTP/1.1 200 OK\r\n\r\n" + badPage), want: ReasonContentType},
		"odd content type":       {handler: answer("text/plain; version", badPage), want: ReasonContentType},
		"protobuf":               {handler: answer("application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited", badPage), want: ReasonContentType},
		"unknown version":        {handler: answer("text/plain; version=0.0.5", badPage), want: ReasonContentType},
		"OpenMetrics 2":          {handler: answer("application/openmetrics-text; version=2.0.0", badPage+"# EOF\n"), want: ReasonContentType},
		"unknown encoding": {handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			answer(textType, badPage)(w, r)
		}, want: ReasonContentType},
		"said to be gzip":      {handler: zipped([]byte(badPage)), want: ReasonParse},
		"gzip of another body": {handler: zipped(spoil(zip(t, badPage))), want: ReasonParse},
		"endless":              {handler: endless, options: "body_size_limit: 64KB", want: ReasonBodySize},
		"gzip bomb":            {handler: zipped(zip(t, strings.Repeat("#\n", 4<<20))), options: "body_size_limit: 1MB", want: ReasonBodySize},
		"declared too long":    {raw: held(head(textType, "Content-Length: 1099511627776\r\n")), options: "body_size_limit: 1MB", want: ReasonBodySize},
		"too many samples":     {handler: answer(textType, badPage+"vllm:bad{engine=\"1\"} 1\nvllm:bad{engine=\"2\"} 1\n"), options: "sample_limit: 2", want: ReasonSampleLimit},
		"too many labels":      {handler: answer(textType, "vllm:bad{engine=\"0\",a=\"1\"} 1\n"), options: "label_limit: 3", want: ReasonLabelLimit},
		"label name too long":  {handler: answer(textType, "vllm:bad{engine=\"0\",abcdefgh=\"1\"} 1\n"), options: "label_name_length_limit: 7", want: ReasonLabelLimit},
		"label value too long": {handler: answer(textType, "vllm:bad{engine=\"0\",a=\"abcdefghij\"} 1\n"), options: "label_value_length_limit: 9", want: ReasonLabelLimit},
		"no metrics":           {handler: answer(textType, ""), want: ReasonEmpty},
		"no byte, OpenMetrics": {handler: answer(openMetricsType, ""), want: ReasonEmpty},
		"no metrics, comment":  {handler: answer(textType, "# nothing yet\n\n"), want: ReasonEmpty},
		"OpenMetrics of none":  {handler: answer(openMetricsType, "# EOF\n"), want: ReasonEmpty},
		"broken line":          {handler: answer(textType, badPage+"vllm:bad{engine=\"1\" 1\n"), want: ReasonParse},
		"value that is none":   {handler: answer(textType, badPage+"vllm:bad{engine=\"1\"} one\n"), want: ReasonParse},
		"unknown type":         {handler: answer(textType, "# TYPE vllm:bad thing\nvllm:bad 1\n"), want: ReasonParse},
		"label twice":          {handler: answer(textType, "vllm:bad{a=\"1\",a=\"2\"} 1\n"), want: ReasonParse},
		"not UTF-8":            {handler: answer(textType, "vllm:bad{a=\"\xff\"} 1\n"), want: ReasonParse},
		"zeros":                {handler: answer(textType, strings.Repeat("\x00", 100)+"\n"), want: ReasonParse},
		"text after EOF":       {handler: answer(openMetricsType, badPage+"# EOF\n"+badPage), want: ReasonParse},
		"text as OpenMetrics":  {handler: answer(openMetricsType, "# TYPE vllm:bad_total counter\nvllm:bad_total 1\n# EOF\n"), want: ReasonParse},
		"no header":            {raw: held(""), options: hurried, want: ReasonTimeout},
		"half a header":        {raw: held("HTTP/1.1 200 OK\r\nContent-Ty"), options: hurried, want: ReasonTimeout},
		"no body":              {raw: held(head(textType, "Content-Length: 1000\r\n")), options: hurried, want: ReasonTimeout},
		"half a body":          {raw: held(head(textType, "Content-Length: 1000\r\n") + badPage), options: hurried, want: ReasonTimeout},
		"half a gzip":          {raw: held(head(textType, "Content-Encoding: gzip\r\nContent-Length: 1000\r\n") + "\x1f\x8b"), options: hurried, want: ReasonTimeout},
		"no end of an error":   {raw: held("HTTP/1.1 500 Broken\r\nContent-Length: 1000\r\n\r\nsorry"), options: hurried, want: ReasonStatus},
		"no answer":            {raw: written(""), want: ReasonConnect},
		"reset before":         {raw: reset(""), want: ReasonConnect},
		"no HTTP":              {raw: written("SSH-2.0-OpenSSH_9.9\r\n"), want: ReasonConnect},
		"endless header": {raw: func(c *net.TCPConn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			writeOn(c, "X-More: "+strings.Repeat("x", 4000)+"\r\n")
		}, want: ReasonConnect},
		"plain server, asked s": {handler: answer(textType, badPage), options: "scheme: https", want: ReasonConnect},
		"endless early hints":   {raw: func(c *net.TCPConn) { writeOn(c, "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n") }, want: ReasonConnect},
		"endless empty gzips": {raw: func(c *net.TCPConn) {
			_, _ = io.WriteString(c, head(textType, "Content-Encoding: gzip\r\n"))
			writeOn(c, strings.Repeat(string(zip(t, "")), 100))
		}, options: hurried, want: ReasonTimeout},
		"another protocol": {raw: held("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), options: hurried, want: ReasonStatus},
		"nobody there":     {want: ReasonConnect},
	}
	good := serve(t, answer(textType, goodPage))
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bad := ""
			switch {
			case test.handler != nil:
				bad = serve(t, test.handler)
			case test.raw != nil:
				bad = raw(t, test.raw)
			default:
				bad = refused(t)
			}
			p, _ := start(t, flatConfig(bad+" "+test.options, good))
			page, states := look(t, p)
			if got := samples(page); !slices.Equal(got, []string{goodLine}) {
				t.Errorf("page holds %q, want the good target alone", got)
			}
			demandFailure(t, states[0], test.want)
			demandGood(t, states[1])
			if states[0].Outcome.Page != nil {
				t.Error("the failed scrape has a page")
			}
		})
	}
}

// spoil changes the checksum at the end of a gzip body.
func spoil(body []byte) []byte {
	body = slices.Clone(body)
	body[len(body)-8] ^= 1
	return body
}

// writeOn writes until the other side hangs up.
func writeOn(c *net.TCPConn, text string) {
	for {
		if _, err := io.WriteString(c, text); err != nil {
			return
		}
	}
}

// TestOddPagesThatAreGood scrapes pages that look strange and are whole.
func TestOddPagesThatAreGood(t *testing.T) {
	tests := map[string]struct {
		handler http.HandlerFunc
		raw     func(*net.TCPConn)
		want    []string
	}{
		"families without samples": {handler: answer(textType, "# HELP vllm:x X.\n# TYPE vllm:x histogram\n")},
		"none that is let through": {handler: answer(textType, "python_info 1\n")},
		"OpenMetrics": {
			handler: answer(openMetricsType, "# TYPE vllm:x counter\nvllm:x_total{engine=\"1\"} 3 # {id=\"a\"} 1.0\nvllm:x_created{engine=\"1\"} 1\n# EOF\n"),
			want:    []string{`vllm:x_total{replica="1",stage="0"} 3`},
		},
		"OpenMetrics, last line open": {handler: answer(openMetricsType, "vllm:x 1\n# EOF"), want: []string{"vllm:x 1"}},
		"text 1.0.0":                  {handler: answer("text/plain; version=1.0.0; charset=utf-8; escaping=allow-utf-8", "vllm:x 1\n"), want: []string{"vllm:x 1"}},
		"text without version":        {handler: answer("Text/Plain", "vllm:x NaN\n"), want: []string{"vllm:x NaN"}},
		"gzip nobody asked for":       {handler: zipped(zip(t, "vllm:x +Inf\n")), want: []string{"vllm:x +Inf"}},
		"gzip in members": {
			handler: zipped(append(zip(t, "vllm:x{a=\"1\"} 1\n"), zip(t, "vllm:x{a=\"2\"} 1e+010\n")...)),
			want:    []string{`vllm:x{a="1"} 1`, `vllm:x{a="2"} 1e+010`},
		},
		"identity, said so": {raw: func(c *net.TCPConn) {
			_, _ = io.WriteString(c, head(textType, "Content-Encoding: identity\r\n")+"vllm:x 1\n")
		}, want: []string{"vllm:x 1"}},
		"HTTP/1.0 without length": {raw: func(c *net.TCPConn) {
			_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nvllm:x 1\n")
		}, want: []string{"vllm:x 1"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var address string
			if test.raw != nil {
				address = raw(t, test.raw)
			} else {
				address = serve(t, test.handler)
			}
			p, _ := start(t, flatConfig(address))
			page, states := look(t, p)
			demandGood(t, states[0])
			if got := samples(page); !slices.Equal(got, test.want) {
				t.Errorf("page holds %q, want %q", got, test.want)
			}
		})
	}
}

// TestBodySizeLimit demands that a page of exactly the limit is good and one of a
// byte more is not, by decompressed bytes, however it is sent.
func TestBodySizeLimit(t *testing.T) {
	const limit = 1000 // no power of two, which buffers would grow to
	body := func(size int) string {
		const line = "vllm:x{engine=\"0\"} 1\n"
		return line + "#" + strings.Repeat("x", size-len(line)-2) + "\n"
	}
	ways := map[string]func(string) http.HandlerFunc{
		"by length": func(s string) http.HandlerFunc { return answer(textType, s) },
		"in chunks": func(s string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", textType)
				for part := range slices.Chunk([]byte(s), 300) {
					_, _ = w.Write(part)
					_ = http.NewResponseController(w).Flush()
				}
			}
		},
		"gzip": func(s string) http.HandlerFunc { return zipped(zip(t, s)) },
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			exact, more := serve(t, way(body(limit))), serve(t, way(body(limit+1)))
			option := fmt.Sprintf(" body_size_limit: %dB", limit)
			p, _ := start(t, flatConfig(exact+option, more+option))
			_, states := look(t, p)
			demandGood(t, states[0])
			if got := states[0].Outcome.BodySize; got != limit {
				t.Errorf("body size %d, want %d", got, limit)
			}
			demandFailure(t, states[1], ReasonBodySize)
			if text := states[1].Outcome.Failure.Error(); !strings.Contains(text, "body_size_limit of 1000 bytes") {
				t.Errorf("error %q does not name the limit", text)
			}
		})
	}
}

func TestNoBodySizeLimit(t *testing.T) {
	body := "vllm:x 1\n" + strings.Repeat("#\n", 1<<20)
	p, _ := start(t, flatConfig(serve(t, answer(textType, body))+" body_size_limit: 0B"))
	_, states := look(t, p)
	demandGood(t, states[0])
	if got := states[0].Outcome.BodySize; got != len(body) {
		t.Errorf("body size %d, want %d", got, len(body))
	}
}
