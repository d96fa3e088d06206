package web

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/scrape"
)

// Options are what a server needs beside its configuration.
type Options struct {
	Logger        *slog.Logger
	Gatherer      prometheus.Gatherer // the exporter's own metrics, but for the health of targets
	TelemetryPath string              // path of the merged page, "/metrics"
	TimeoutOffset time.Duration       // taken off the time that a caller waits
	MaxRequests   int                 // answers with metrics at a time; 0: no limit
	Events        http.Handler        // takes /api/v1/events; nil: the path is not there
	Pprof         bool                // serve profiles below /debug/pprof/
}

// Server answers the exporter's requests by the configuration applied last. It is
// an http.Handler.
type Server struct {
	options Options
	id      string // tells this process apart in the hop header
	totals  *scrape.Totals
	slots   chan struct{} // nil: no limit
	mux     *http.ServeMux
	current atomic.Pointer[generation]
}

// ValidTelemetryPath reports whether the merged page can be served at a path: a
// clean one that is not the landing page's, and not among those of the other
// endpoints. ServeMux takes braces for wildcards.
func ValidTelemetryPath(p string) bool {
	return strings.HasPrefix(p, "/") && p != "/" && path.Clean(p) == p && !strings.ContainsAny(p, "{} \t\r\n?#%") &&
		!strings.HasPrefix(p+"/", "/-/") && !strings.HasPrefix(p+"/", "/api/") && !strings.HasPrefix(p+"/", "/debug/")
}

// generation is one configuration at work.
type generation struct {
	config *config.Config
	pool   *scrape.Pool
}

// New returns a server with the configuration applied. The error says what of the
// configuration cannot be used.
func New(c *config.Config, o Options) (*Server, error) {
	id := make([]byte, 8)
	_, _ = rand.Read(id) // never fails
	s := &Server{options: o, id: hex.EncodeToString(id), totals: &scrape.Totals{}}
	if o.MaxRequests > 0 {
		s.slots = make(chan struct{}, o.MaxRequests)
	}
	if err := s.Apply(c); err != nil {
		return nil, err
	}
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("/{$}", s.serveLanding)
	s.mux.HandleFunc(o.TelemetryPath, s.serveMetrics)
	s.mux.HandleFunc("/-/healthy", serveText("omni_exporter is healthy.\n"))
	s.mux.HandleFunc("/-/ready", serveText("omni_exporter is ready.\n"))
	if o.Events != nil {
		s.mux.Handle("/api/v1/events", o.Events)
	}
	if o.Pprof {
		s.mux.HandleFunc("/debug/pprof/", pprof.Index)
		s.mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		s.mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		s.mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		s.mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return s, nil
}

// Apply puts a configuration to work. Requests under way end on the one before; on
// an error that one stays.
func (s *Server) Apply(c *config.Config) error {
	pool, err := scrape.NewPool(c, scrape.PoolOptions{
		Own:    func(dst []byte, states []scrape.State) []byte { return s.renderOwn(dst, c, states) },
		Totals: s.totals, Logger: s.options.Logger,
	})
	if err != nil {
		return fmt.Errorf("apply configuration: %w", err)
	}
	s.current.Store(&generation{config: c, pool: pool})
	return nil
}

// Close ends all scrapes.
func (s *Server) Close() { s.current.Load().pool.Close() }

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	s.mux.ServeHTTP(w, r)
}

func serveText(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are answered here", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, text)
	}
}
