package web

import (
	"bytes"
	_ "embed" // the landing page
	"html/template"
	"net/http"
	"time"

	"github.com/prometheus/common/version"

	"github.com/omni-exporter/omni_exporter/internal/scrape"
)

//go:embed landing.html
var landingHTML string

// landing is what the landing page shows.
type landing struct {
	Version   string
	Telemetry string
	Events    bool
	Targets   []landingTarget
}

type landingTarget struct {
	Target, Pipeline string
	State            string // "up", "down" or "not scraped yet"
	Reason, Error    string
	Age              string
	Duration         string
	Samples          int
}

// serveLanding answers with what there is to see and how the targets are. It
// scrapes nothing: it shows what the last scrapes brought.
func (s *Server) serveLanding(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD are answered here", http.StatusMethodNotAllowed)
		return
	}
	page := landing{Version: version.Version, Telemetry: s.options.TelemetryPath, Events: s.options.Events != nil}
	for _, t := range s.current.Load().pool.Targets() {
		page.Targets = append(page.Targets, landingState(t, time.Now()))
	}
	var out bytes.Buffer
	t, err := template.New("landing").Parse(landingHTML)
	if err == nil {
		err = t.Execute(&out, page)
	}
	if err != nil {
		http.Error(w, "page cannot be shown", http.StatusInternalServerError)
		s.options.Logger.Error("landing page", "err", err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_, _ = w.Write(out.Bytes())
}

func landingState(t *scrape.Target, now time.Time) landingTarget {
	l := landingTarget{Target: t.Address(), Pipeline: t.Pipeline(), State: "not scraped yet"}
	o := t.Last()
	if o == nil {
		return l
	}
	l.State = "up"
	l.Age, l.Duration = now.Sub(o.Started).Round(time.Second).String(), o.Duration.Round(time.Millisecond).String()
	if o.Failure != nil {
		l.State, l.Reason, l.Error = "down", string(o.Failure.Reason), o.Failure.Error()
	} else {
		l.Samples = o.Summary.Samples
	}
	return l
}
