package web

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/scrape"
)

// maxHops bounds how many exporters a scrape may pass through.
const maxHops = 8

// writeTimeout is how long a reader may take to read an answer.
const writeTimeout = time.Minute

const (
	// targetsParam with the value targetsNone asks for the exporter's own families alone:
	// where Prometheus scrapes the targets by /probe, that is the rest.
	targetsParam = "targets"
	targetsNone  = "none"

	loopDetected = "this scrape has passed through here already: an exporter is among its own targets"
	tooMany      = "too many requests at a time: see --web.max-requests"
)

// serveMetrics answers with the merged page of all targets.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "metrics are read with GET", http.StatusMethodNotAllowed)
		return
	}
	hops, ok := s.hops(r)
	if !ok {
		http.Error(w, loopDetected, http.StatusLoopDetected)
		return
	}
	timeout, err := scrapeTimeout(r.Header, s.options.TimeoutOffset)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		if s.slots != nil {
			http.Error(w, tooMany, http.StatusServiceUnavailable)
			return
		}
	}
	var page *scrape.Page
	if r.URL.Query().Get(targetsParam) == targetsNone {
		g := s.current.Load()
		page = s.pool.Alone(func(dst []byte, states []scrape.State) []byte { return s.renderAlone(dst, g.config, states) })
	} else if page, err = s.pool.Scrape(r.Context(), time.Now().Add(timeout), hops); err != nil {
		return // the caller has gone
	}
	defer page.Release()
	if err := writePage(w, r, page); err != nil {
		s.options.Logger.Debug("answer not written", "remote", r.RemoteAddr, "err", err)
	}
}

// writePage writes a page that is complete, in the form that the request asks for.
// Nothing is sent before its length is known, so that no answer is half a page.
func writePage(w http.ResponseWriter, r *http.Request, page *scrape.Page) error {
	f := negotiate(r.Header)
	h := w.Header()
	h.Set("Content-Type", f.contentType())
	h.Set("Vary", "Accept, Accept-Encoding")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	if f.encoding == scrape.Identity {
		view := page.Merged.View(f.format, f.utf8)
		h.Set("Content-Length", strconv.Itoa(view.Size()))
		if r.Method == http.MethodHead {
			return nil
		}
		_, err := view.WriteTo(w)
		return err
	}
	body, err := page.Encoded(f.format, f.utf8, f.encoding)
	if err != nil {
		http.Error(w, "page cannot be compressed", http.StatusInternalServerError)
		return err
	}
	h.Set("Content-Encoding", string(f.encoding))
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodHead {
		return nil
	}
	_, err = w.Write(body)
	return err
}

// hops returns the hop header to scrape targets with, and false if the request
// comes from this exporter itself, or from too many of them in a row.
func (s *Server) hops(r *http.Request) (string, bool) {
	header := strings.Join(r.Header.Values(scrape.HopHeader), ",")
	if header == "" {
		return s.id, true
	}
	passed := strings.Split(header, ",")
	for i := range passed {
		passed[i] = strings.TrimSpace(passed[i])
	}
	if len(passed) >= maxHops || slices.Contains(passed, s.id) {
		return "", false
	}
	return strings.Join(append(passed, s.id), ","), true
}
