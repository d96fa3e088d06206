package exporter

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace/tracetest"
)

// lockedLog keeps what is logged.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) warnings() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.text.Bytes(), []byte("level=WARN"))
}

// captureOptions returns options with an environment, and what will be logged.
func captureOptions(env map[string]string) (Options, *lockedLog) {
	log := &lockedLog{}
	o := options()
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	o.LookupEnv = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	return o, log
}

func captureConfig(change func(*config.ForwardPassMetrics)) *config.ForwardPassMetrics {
	f := config.DefaultForwardPassMetrics()
	if change != nil {
		change(&f)
	}
	return &f
}

// What the flag, the environment and the configuration ask for, and what becomes of what they cannot have.
func TestCaptureSwitch(t *testing.T) {
	on, off := true, false
	dir := t.TempDir()
	path := func(f *config.ForwardPassMetrics) { f.Capture.OutputPath = filepath.Join(dir, "configured") }
	for name, test := range map[string]struct {
		flag    *bool
		env     map[string]string
		enabled bool
		off     trace.OffReason
	}{
		"nothing":                {nil, nil, false, trace.OffNone},
		"flag":                   {&on, nil, true, trace.OffNone},
		"environment":            {nil, map[string]string{trace.EnvTrace: "yes"}, true, trace.OffNone},
		"settings alone":         {nil, map[string]string{trace.EnvMode: "full"}, false, trace.OffNone},
		"flag before all":        {&off, map[string]string{trace.EnvTrace: "yes"}, false, trace.OffNone},
		"flag before all faults": {&on, map[string]string{trace.EnvTrace: "maybe"}, true, trace.OffNone},
		"bad switch":             {nil, map[string]string{trace.EnvTrace: "maybe"}, false, trace.OffSettings},
		"bad setting":            {&on, map[string]string{trace.EnvSampleInterval: "0", trace.EnvMode: "full"}, false, trace.OffSettings},
		"bad setting, off":       {nil, map[string]string{trace.EnvSampleInterval: "0"}, false, trace.OffNone},
		"bad path":               {&on, map[string]string{trace.EnvOutputPath: "/nowhere/x"}, false, trace.OffPath},
	} {
		t.Run(name, func(t *testing.T) {
			o, log := captureOptions(test.env)
			o.FPMTrace = test.flag
			c := newCapture(o)
			defer c.close()
			c.apply(captureConfig(path))
			if s := c.state(); s.Enabled != test.enabled || s.Off != test.off {
				t.Errorf("%+v", s)
			}
			want := 0
			if test.off != trace.OffNone {
				want = 1
			}
			if log.warnings() != want {
				t.Errorf("%d warnings, want %d: %s", log.warnings(), want, log.text.String())
			}
			row := tracetest.Row("4192", 1, time.Now())
			c.record(&fpm.Delivery{Origin: &fpm.Origin{}, Received: row.Observed, Record: row.Record})
		})
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "configured.4192.*.jsonl.gz")); len(files) != 3 {
		t.Errorf("written: %v", files)
	}
}

// A reload begins anew what had ended, leaves alone what goes on, and its counts go on.
func TestCaptureReload(t *testing.T) {
	dir := t.TempDir()
	env := map[string]string{trace.EnvTrace: "1", trace.EnvMode: "full"}
	o, _ := captureOptions(env)
	c := newCapture(o)
	defer c.close()
	at := func(sub string) *config.ForwardPassMetrics {
		return captureConfig(func(f *config.ForwardPassMetrics) { f.Capture.OutputPath = filepath.Join(dir, sub, "x") })
	}
	record := func() {
		row := tracetest.Row("4192", 1, time.Now())
		c.record(&fpm.Delivery{Origin: &fpm.Origin{}, Received: row.Observed, Record: row.Record})
	}
	c.apply(at("later"))
	if c.state().Off != trace.OffPath {
		t.Fatalf("%+v", c.state())
	}
	if err := os.Mkdir(filepath.Join(dir, "later"), 0o755); err != nil {
		t.Fatal(err)
	}
	c.apply(at("later"))
	if !c.state().Enabled {
		t.Fatalf("%+v", c.state())
	}
	record()
	before := c.writer
	c.apply(at("later"))
	if c.writer != before {
		t.Error("a writer that nothing changed for was replaced")
	}
	c.apply(at("."))
	record()
	c.apply(captureConfig(func(f *config.ForwardPassMetrics) { f.Capture.OutputPath = filepath.Join(dir, "y") }))
	if c.captured.Rows() != 2 {
		t.Errorf("%d rows", c.captured.Rows())
	}
	env[trace.EnvTrace] = "0"
	c.apply(at("."))
	if s := c.state(); s.Enabled || s.Off != trace.OffNone {
		t.Errorf("%+v", s)
	}
}

// A trace that is followed is on the page: rows of full traces in the families of streams, those of sampled ones in
// their own; a reload that changes nothing loses nothing.
func TestTraceFilesOnThePage(t *testing.T) {
	dir := t.TempDir()
	full, sampled := tracetest.Row("4192", 7, time.Now()), tracetest.Row("5000", 7, time.Now())
	sampled.Capture = fpm.CaptureSampled
	for name, row := range map[string]trace.Row{"full": full, "sampled": sampled} {
		if err := tracetest.WriteFile(filepath.Join(dir, name+".jsonl.gz"), []trace.Row{row}, 1); err != nil {
			t.Fatal(err)
		}
	}
	o, log := captureOptions(nil)
	f := captureConfig(func(f *config.ForwardPassMetrics) {
		f.TraceFiles, f.TraceFromStart, f.StaleAfter = []string{filepath.Join(dir, "*.jsonl.gz")}, true, f.ForgetAfter
	})
	c := config.DefaultConfig()
	c.ForwardPassMetrics = *f
	e, err := New(&c, o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.passes.files.apply(f)
	want := []string{
		`dynamo_fpm_decode_requests_total{dp_rank="0",dynamo_component="backend",dynamo_namespace="default",worker_id="4192"} 4`,
		`dynamo_fpm_sampled_decode_requests_total{capture_mode="sampled",dp_rank="0",dynamo_component="backend",dynamo_namespace="default",worker_id="5000"} 4`,
		`dynamo_fpm_scheduled_decode_requests{capture_mode="sampled",dp_rank="0",dynamo_component="backend",dynamo_namespace="default",worker_id="5000"} 4`,
		`omni_exporter_fpm_trace_rows_total{capture_mode="full"} 1`,
		`omni_exporter_fpm_trace_rows_total{capture_mode="sampled"} 1`,
		`omni_exporter_fpm_trace_files 2`,
	}
	demand := func() error {
		page := page(t, e)
		var missing []error
		for _, line := range want {
			if !strings.Contains(page, "\n"+line+"\n") {
				missing = append(missing, errors.New(line))
			}
		}
		if strings.Contains(page, `dynamo_fpm_decode_requests_total{capture_mode`) {
			missing = append(missing, errors.New("sampled rows are in the families of all passes"))
		}
		return errors.Join(missing...)
	}
	await(t, demand)

	// Nothing is read twice by a reload, files are left alone without patterns, and followed again with them.
	e.passes.files.apply(captureConfig(nil))
	if s := e.passes.files.state(); s.Files != 0 {
		t.Errorf("%+v", s)
	}
	f.TraceFromStart = false
	e.passes.files.apply(f)
	await(t, func() error {
		if s := e.passes.files.state(); s.Files != 2 {
			return errors.New("not followed")
		}
		return demand()
	})
	if log.warnings() > 0 {
		t.Error(log.text.String())
	}
}

// await polls until check returns nil.
func await(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

// page returns the page of an exporter.
func page(t *testing.T, e *Exporter) string {
	t.Helper()
	w := httptest.NewRecorder()
	e.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}
