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
	"github.com/omni-exporter/omni_exporter/internal/discovery"
	"github.com/omni-exporter/omni_exporter/internal/fpm/stream"
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

	// Found, Shard and Self are those of scrape.PoolOptions.
	Found discovery.Found
	Shard func(pipeline, address string) bool
	Self  func(address string) bool

	// Lifecycle takes /-/reload and /-/quit; the zero value refuses both.
	Lifecycle Lifecycle

	// Streams tells how the connections to publishers of forward passes are; nil: there
	// are none to tell of.
	Streams func() []stream.EndpointState
}

const (
	probePath  = "/probe"
	eventsPath = "/api/v1/events"
)

// Server answers the exporter's requests by the configuration applied last. It is
// an http.Handler.
type Server struct {
	options Options
	id      string // tells this process apart in the hop header
	totals  *scrape.Totals
	slots   chan struct{} // nil: no limit
	probes  probeLimit
	mux     *http.ServeMux
	pool    *scrape.Pool
	page    *statusPage
	current atomic.Pointer[generation]
}

// ValidTelemetryPath reports whether the merged page can be served at a path: a
// clean one that is not the status page's, and not among those of the other
// endpoints. ServeMux takes braces for wildcards.
func ValidTelemetryPath(p string) bool {
	return strings.HasPrefix(p, "/") && p != "/" && path.Clean(p) == p && !strings.ContainsAny(p, "{} \t\r\n?#%") &&
		!strings.HasPrefix(p+"/", "/-/") && !strings.HasPrefix(p+"/", "/api/") && !strings.HasPrefix(p+"/", "/debug/") && !strings.HasPrefix(p+"/", "/static/") && p != probePath
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
	s := &Server{options: o, id: hex.EncodeToString(id), totals: &scrape.Totals{}, probes: probeLimit{most: o.MaxRequests}}
	if o.MaxRequests > 0 {
		s.slots = make(chan struct{}, o.MaxRequests)
	}
	var err error
	if s.page, err = newStatusPage(time.Now()); err != nil {
		return nil, err
	}
	s.pool, err = scrape.NewPool(c, scrape.PoolOptions{
		Own: s.own(c), Totals: s.totals, Logger: o.Logger, Found: o.Found, Shard: o.Shard, Self: o.Self,
	})
	if err != nil {
		return nil, fmt.Errorf("apply configuration: %w", err)
	}
	s.current.Store(&generation{config: c, pool: s.pool})
	s.mux = http.NewServeMux()
	s.handleStatus()
	s.mux.HandleFunc(o.TelemetryPath, s.serveMetrics)
	s.mux.Handle(probePath, readOnly(s.serveProbe))
	s.mux.Handle("/api/v1/targets", readOnly(s.serveTargets))
	s.mux.Handle("/api/v1/http_sd", readOnly(s.serveSD))
	s.handleLifecycle()
	s.mux.HandleFunc("/-/healthy", serveText("omni_exporter is healthy.\n"))
	s.mux.HandleFunc("/-/ready", serveText("omni_exporter is ready.\n"))
	if o.Events != nil {
		s.mux.Handle(eventsPath, o.Events)
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

// Apply puts a configuration to work, with what discovery has found by now. Requests
// under way end on the one before; on an error that one stays.
func (s *Server) Apply(c *config.Config) error {
	if err := s.pool.Update(c, s.own(c)); err != nil {
		return fmt.Errorf("apply configuration: %w", err)
	}
	s.current.Store(&generation{config: c, pool: s.pool})
	return nil
}

func (s *Server) own(c *config.Config) scrape.Own {
	return func(dst []byte, states []scrape.State) []byte { return s.renderOwn(dst, c, states) }
}

// Targets returns what is scraped now.
func (s *Server) Targets() []*scrape.Target { return s.pool.Targets() }

// Close ends all scrapes.
func (s *Server) Close() { s.pool.Close() }

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	s.guard(w, r)
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
