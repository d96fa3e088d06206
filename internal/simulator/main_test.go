package simulator

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"math"
	"sort"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is where simulated time begins in tests.
var start = time.Date(2026, time.March, 1, 12, 0, 0, 250e6, time.UTC)

func newPipeline(t testing.TB, o Options) *Pipeline {
	t.Helper()
	if o.Start.IsZero() {
		o.Start = start
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func page(p *Pipeline, server int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.servers[server].page()
}

// parse reads a text page with Prometheus's reference parser.
func parse(t testing.TB, page []byte) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		t.Fatalf("expfmt refuses the page: %v", err)
	}
	return families
}

// samples reads a page with Prometheus's own scrape parser: values by series.
func samples(t testing.TB, page []byte, contentType string) map[string]float64 {
	t.Helper()
	p, err := textparse.New(page, contentType, labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("textparse refuses the page: %v", err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, v := p.Series()
		var l labels.Labels
		p.Labels(&l)
		if _, twice := out[l.String()]; twice {
			t.Errorf("series %s stands twice", l)
		}
		out[l.String()] = v
	}
}

// value adds up the samples whose name is given and whose labels contain all the given parts, such as `engine="0"`.
func value(all map[string]float64, name string, parts ...string) float64 {
	sum := 0.0
	for series, v := range all {
		if !strings.Contains(series, `__name__="`+name+`"`) {
			continue
		}
		matches := true
		for _, part := range parts {
			matches = matches && strings.Contains(series, part)
		}
		if matches {
			sum += v
		}
	}
	return sum
}

func near(a, b float64) bool {
	return math.Abs(a-b) <= 1e-9*math.Max(1, math.Max(math.Abs(a), math.Abs(b)))
}

func keys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
