package web

import (
	"io"
	"net/http"
)

// Lifecycle is what the endpoints that change the running program do.
type Lifecycle struct {
	Reload func() error // loads the configuration again; the error says why that failed
	Quit   func()       // begins to shut down
}

// handleLifecycle adds /-/reload and /-/quit, which answer as Prometheus's do.
func (s *Server) handleLifecycle() {
	s.mux.HandleFunc("/-/reload", s.change(s.options.Lifecycle.Reload != nil, func(w http.ResponseWriter) {
		if err := s.options.Lifecycle.Reload(); err != nil {
			http.Error(w, "the configuration in force stays, the new one was not loaded:\n"+err.Error(), http.StatusInternalServerError)
		}
	}))
	s.mux.HandleFunc("/-/quit", s.change(s.options.Lifecycle.Quit != nil, func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, "Requesting termination... Goodbye!\n")
		s.options.Lifecycle.Quit()
	}))
}

// change takes PUT and POST, and from no page of another origin: a browser sends
// a visitor's credentials along with what such a page posts.
func (s *Server) change(enabled bool, do func(http.ResponseWriter)) http.HandlerFunc {
	origin := http.NewCrossOriginProtection()
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodPut && r.Method != http.MethodPost:
			w.Header().Set("Allow", "PUT, POST")
			http.Error(w, "only PUT and POST are answered here", http.StatusMethodNotAllowed)
		case !enabled:
			http.Error(w, "this is off: see --web.enable-lifecycle", http.StatusForbidden)
		case origin.Check(r) != nil:
			http.Error(w, "pages of other origins may not ask for this", http.StatusForbidden)
		default:
			do(w)
		}
	}
}
