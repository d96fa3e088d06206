// Package events takes in the events from which the omni families are computed:
// newline-delimited JSON posted to /api/v1/events, judged line by line.
package events

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/omni-exporter/omni_exporter/collector"
)

// DefaultMaxBodySize is the largest body in bytes after decompression.
const DefaultMaxBodySize = 1 << 20

const (
	// maxLineLength bounds one event in bytes: the stream of an hour of audio
	// in chunks of 100 ms has a line of about 500 kB.
	maxLineLength = 512 << 10
	// maxListedRejections bounds the answer; the counters miss none.
	maxListedRejections = 1000
	// maxMessageLength bounds one message of it, in bytes.
	maxMessageLength = 256
	// maxConcurrentBodies bounds the memory that bodies take at a time.
	maxConcurrentBodies = 64
	// bodyReadTimeout is how long a client may take to send a body.
	bodyReadTimeout = 30 * time.Second
	// rejectedLinesHeader has the number of all rejected lines.
	rejectedLinesHeader = "Omni-Rejected-Lines"
)

// Options configures a Handler. A collector that is nil is off: its events are
// refused with the reason collector_disabled.
type Options struct {
	Pipeline *collector.PipelineCollector
	Audio    *collector.AudioCollector
	Transfer *collector.TransferCollector
	// Budget is the one the collectors share, shown as metrics; may be nil.
	Budget *collector.SeriesBudget
	// MaxBodySize in bytes after decompression; DefaultMaxBodySize if 0 or
	// less.
	MaxBodySize int64
	// Logger says at debug level which bodies had bad lines; may be nil.
	Logger *slog.Logger
}

// Handler is the HTTP endpoint for events, and a prometheus.Collector of what it
// accepted and refused. It is safe for concurrent use.
type Handler struct {
	pipeline *collector.PipelineCollector
	audio    *collector.AudioCollector
	transfer *collector.TransferCollector
	budget   *collector.SeriesBudget
	logger   *slog.Logger

	maxBodySize atomic.Int64
	readTimeout time.Duration
	slots       chan struct{}
	origin      *http.CrossOriginProtection
	buffers     sync.Pool // *bytes.Buffer
	events      sync.Pool // *event

	counters                    counters
	seriesDesc, seriesLimitDesc *prometheus.Desc
}

// Rejection is one line that was refused. Line counts from 1 within the body.
type Rejection struct {
	Line    int    `json:"line"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// NewHandler returns the endpoint.
func NewHandler(o Options) *Handler {
	h := &Handler{
		pipeline: o.Pipeline, audio: o.Audio, transfer: o.Transfer, budget: o.Budget, logger: o.Logger,
		readTimeout: bodyReadTimeout,
		slots:       make(chan struct{}, maxConcurrentBodies),
		origin:      http.NewCrossOriginProtection(),
		buffers:     sync.Pool{New: func() any { return new(bytes.Buffer) }},
		events:      sync.Pool{New: func() any { return new(event) }},
		counters:    newCounters(),
		seriesDesc: prometheus.NewDesc("omni_exporter_events_series",
			"Label sets made from events.", nil, nil),
		seriesLimitDesc: prometheus.NewDesc("omni_exporter_events_series_limit",
			"Label sets that events may make; 0 is no limit.", nil, nil),
	}
	if h.logger == nil {
		h.logger = slog.New(slog.DiscardHandler)
	}
	h.SetMaxBodySize(o.MaxBodySize)
	return h
}

// SetMaxBodySize changes the largest body in bytes after decompression;
// DefaultMaxBodySize if 0 or less.
func (h *Handler) SetMaxBodySize(bytes int64) {
	if bytes <= 0 {
		bytes = DefaultMaxBodySize
	}
	h.maxBodySize.Store(bytes)
}

// ServeHTTP answers 202 when every line was accepted, 400 with a list of
// Rejection when some were not (the others count), and another status when the
// body was refused as a whole and nothing of it counts.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "events are sent with POST", http.StatusMethodNotAllowed)
		return
	}
	if err := h.origin.Check(r); err != nil {
		http.Error(w, "events are not taken from pages of other origins", http.StatusForbidden)
		return
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		h.counters.rejected.inc(reasonBusy)
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many bodies at a time; try again", http.StatusServiceUnavailable)
		return
	}
	buffer := h.buffers.Get().(*bytes.Buffer)
	defer h.buffers.Put(buffer)
	buffer.Reset()
	if refused := h.read(w, r, buffer); refused != nil {
		h.counters.rejected.inc(refused.reason)
		h.logger.Debug("events refused", "remote", r.RemoteAddr, "reason", refused.reason, "message", refused.message)
		http.Error(w, refused.message, refused.status)
		return
	}
	rejections, rejected := h.judge(buffer.Bytes())
	if rejected == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	h.logger.Debug("events rejected", "remote", r.RemoteAddr, "lines", rejected,
		"first_line", rejections[0].Line, "first_reason", rejections[0].Reason)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(rejectedLinesHeader, strconv.Itoa(rejected))
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(rejections) // the client left; its events are counted all the same
}

// refusal is why a whole body was refused.
type refusal struct {
	status  int
	reason  string
	message string
}

// read puts the whole decompressed body into buffer. Only a body that is whole
// is looked at: otherwise a client could not tell what to send again.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, buffer *bytes.Buffer) *refusal {
	if !acceptedType(r.Header.Get("Content-Type")) {
		return &refusal{
			http.StatusUnsupportedMediaType, reasonContentType,
			"content type " + quote(r.Header.Get("Content-Type")) + " is not understood; send application/x-ndjson",
		}
	}
	limit := h.maxBodySize.Load()
	tooLarge := &refusal{
		http.StatusRequestEntityTooLarge, reasonBodySize,
		"body larger than " + strconv.FormatInt(limit, 10) + " bytes (events.max_body_size); send smaller batches",
	}
	if r.ContentLength > limit {
		return tooLarge
	}
	// Not every ResponseWriter has deadlines; the server then has its own.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.readTimeout))
	body := io.Reader(http.MaxBytesReader(w, r.Body, limit))
	switch encoding := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return &refusal{http.StatusBadRequest, reasonBodyRead, "body is not gzip: " + err.Error()}
		}
		body = unzipped
	default:
		w.Header().Set("Accept-Encoding", "gzip, identity")
		return &refusal{
			http.StatusUnsupportedMediaType, reasonContentEncoding,
			"content encoding " + quote(encoding) + " is not understood; send gzip or none",
		}
	}
	_, err := buffer.ReadFrom(io.LimitReader(body, limit+1))
	var overlong *http.MaxBytesError
	switch {
	case errors.As(err, &overlong) || int64(buffer.Len()) > limit:
		return tooLarge
	case err != nil:
		return &refusal{http.StatusBadRequest, reasonBodyRead, "body could not be read: " + err.Error()}
	}
	return nil
}

// acceptedType takes what says it is lines of JSON, and what clients send that
// say nothing: curl's default and plain text.
func acceptedType(contentType string) bool {
	if contentType == "" {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	switch mediaType {
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/json",
		"application/octet-stream", "application/x-www-form-urlencoded", "text/plain":
		return true
	}
	return false
}

// judge records the good lines of a body and returns the bad ones, the list cut
// to maxListedRejections, and how many there were.
func (h *Handler) judge(body []byte) (rejections []Rejection, rejected int) {
	e := h.events.Get().(*event)
	defer h.events.Put(e)
	number := 0
	for len(body) > 0 {
		line, rest, _ := bytes.Cut(body, []byte{'\n'})
		body = rest
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		p := h.judgeLine(line, e)
		if p == nil {
			continue
		}
		h.counters.rejected.inc(p.reason)
		rejected++
		if len(rejections) < maxListedRejections {
			rejections = append(rejections, Rejection{number, p.reason, cut(p.message)})
		}
	}
	return rejections, rejected
}

// judgeLine decodes, records and counts one line, unless it is bad.
func (h *Handler) judgeLine(line []byte, e *event) *problem {
	if len(line) > maxLineLength {
		return &problem{reasonLineTooLong, "line longer than " + strconv.Itoa(maxLineLength) + " bytes"}
	}
	if p := decode(line, e); p != nil {
		return p
	}
	ignored, p := h.record(e)
	if p != nil {
		return p
	}
	h.counters.received.inc(e.Type)
	if ignored != "" {
		h.counters.ignored.inc(ignored)
	}
	return nil
}

func cut(message string) string {
	if len(message) <= maxMessageLength {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessageLength], "") + "..."
}
