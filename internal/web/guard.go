package web

import (
	"net/http"
	"strings"
	"time"
)

const (
	// unwantedBodyTimeout is how long a client may take to send a body where none is read.
	unwantedBodyTimeout = 10 * time.Second
	// answerTimeout is how long an answer may take that waits for no target.
	answerTimeout = time.Minute
)

// guard bounds the time that a client's slowness costs. Bodies are for the intake of
// events, which sets its own deadline; answers with metrics set theirs when they are
// ready, and profiles take the time that they are asked to.
func (s *Server) guard(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	path := r.URL.Path
	if r.ContentLength != 0 && path != eventsPath {
		_ = control.SetReadDeadline(time.Now().Add(unwantedBodyTimeout))
		w.Header().Set("Connection", "close") // the rest of the body is not worth waiting for
	}
	deadline := time.Now().Add(answerTimeout)
	if path == s.options.TelemetryPath || path == probePath || strings.HasPrefix(path, "/debug/") {
		deadline = time.Time{}
	}
	_ = control.SetWriteDeadline(deadline)
}
