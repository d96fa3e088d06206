package web

import (
	"net/http"
	"sync"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/scrape"
)

const (
	probeTarget   = "target"
	probePipeline = "pipeline"
)

// serveProbe answers with the page of one target and with its health. The target is
// named by its address and is one of the configuration's: nothing of a request becomes
// a URL.
func (s *Server) serveProbe(w http.ResponseWriter, r *http.Request) {
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
	target, status, text := s.named(r)
	if target == nil {
		http.Error(w, text, status)
		return
	}
	if !s.probes.enter(target) {
		http.Error(w, tooMany, http.StatusServiceUnavailable)
		return
	}
	defer s.probes.leave(target)
	page, err := s.pool.Probe(r.Context(), target, time.Now().Add(timeout), hops, s.renderHealth)
	if err != nil {
		return // the caller has gone
	}
	defer page.Release()
	if err := writePage(w, r, page); err != nil {
		s.options.Logger.Debug("answer not written", "remote", r.RemoteAddr, "err", err)
	}
}

// named returns the target that a request names, or nil with a status and what to
// say.
func (s *Server) named(r *http.Request) (*scrape.Target, int, string) {
	query := r.URL.Query()
	address := query.Get(probeTarget)
	if address == "" {
		return nil, http.StatusBadRequest, "the parameter target is missing: it is the address of a configured target, see /api/v1/targets"
	}
	var pipeline *string
	if query.Has(probePipeline) {
		name := query.Get(probePipeline)
		pipeline = &name
	}
	switch found := s.pool.Find(address, pipeline); len(found) {
	case 0:
		return nil, http.StatusNotFound, "no target has this address: see /api/v1/targets"
	case 1:
		return found[0], 0, ""
	default:
		return nil, http.StatusBadRequest, "several pipelines have a target with this address: add the parameter pipeline"
	}
}

// probeLimit bounds how many requests at a time wait for one target. It is not for
// all of them together: targets that hang must not keep others from being probed.
type probeLimit struct {
	most int // 0: no limit

	mu sync.Mutex
	n  map[*scrape.Target]int
}

func (l *probeLimit) enter(t *scrape.Target) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.most > 0 && l.n[t] >= l.most {
		return false
	}
	if l.n == nil {
		l.n = map[*scrape.Target]int{}
	}
	l.n[t]++
	return true
}

func (l *probeLimit) leave(t *scrape.Target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n[t]--; l.n[t] == 0 {
		delete(l.n, t)
	}
}
