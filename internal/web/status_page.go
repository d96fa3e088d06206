package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed templates/status.html static/status.css static/status.js static/icon.svg
var statusFiles embed.FS

const (
	// maxShownTargets and maxShownEngines bound the page, not the JSON: what is wrong
	// is shown first.
	maxShownTargets  = 500
	maxShownRejected = 20
	maxShownEngines  = 200 // of a stage
	maxShownRanks    = 500

	// contentSecurityPolicy lets the page load its own style, script and icon and
	// nothing else: what slipped through escaping still could not run.
	contentSecurityPolicy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// statusPage is what the status page is made with.
type statusPage struct {
	started  time.Time
	template *template.Template
	assets   map[string]asset // by path

	mu    sync.Mutex // held while a status is put together
	rates rates
}

// asset is a file that never changes under its path, which has a part of its hash.
type asset struct {
	contentType string
	content     []byte
}

func newStatusPage(now time.Time) (*statusPage, error) {
	p := &statusPage{started: now, assets: map[string]asset{}}
	paths := map[string]string{}
	for name, contentType := range map[string]string{
		"status.css": "text/css; charset=utf-8", "status.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		content, err := statusFiles.ReadFile("static/" + name)
		if err != nil {
			return nil, fmt.Errorf("status page: %w", err)
		}
		sum := sha256.Sum256(content)
		extension := path.Ext(name)
		paths[name] = "static/" + strings.TrimSuffix(name, extension) + "." + hex.EncodeToString(sum[:6]) + extension
		p.assets["/"+paths[name]] = asset{contentType, content}
	}
	functions := statusFunctions()
	functions["asset"] = func(name string) string { return paths[name] }
	var err error
	p.template, err = template.New("status.html").Funcs(functions).ParseFS(statusFiles, "templates/status.html")
	if err != nil {
		return nil, fmt.Errorf("status page: %w", err)
	}
	return p, nil
}

// handleStatus adds the status page, its files and its JSON to the endpoints.
func (s *Server) handleStatus() {
	s.mux.Handle("/{$}", readOnly(s.serveStatusPage))
	s.mux.Handle("/api/v1/status", readOnly(s.serveStatusJSON))
	s.mux.Handle("/static/", readOnly(s.serveAsset))
}

// readOnly refuses what is neither GET nor HEAD.
func readOnly(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are answered here", http.StatusMethodNotAllowed)
			return
		}
		h(w, r)
	}
}

func (s *Server) serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := s.page.assets[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.contentType)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(a.content)
}

func (s *Server) serveStatusJSON(w http.ResponseWriter, _ *http.Request) {
	s.writeJSON(w, s.status(time.Now()))
}

func (s *Server) serveStatusPage(w http.ResponseWriter, _ *http.Request) {
	var out bytes.Buffer
	if err := s.page.template.Execute(&out, s.view(s.status(time.Now()))); err != nil {
		http.Error(w, "page cannot be shown", http.StatusInternalServerError)
		s.options.Logger.Error("status page", "err", err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", contentSecurityPolicy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(out.Bytes())
}
