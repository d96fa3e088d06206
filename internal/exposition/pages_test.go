package exposition_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
	"github.com/omni-exporter/omni_exporter/relabel"
)

// Pages are made by the package that makes them in the exporter, with rules that
// change nothing.

func page(t *testing.T, target *relabel.Target, text string, f exposition.Format) *exposition.Page {
	t.Helper()
	if f == exposition.OpenMetrics {
		text += "# EOF\n"
	}
	r, _, err := target.Rewrite([]byte(text), f)
	if err != nil {
		t.Fatal(err)
	}
	return r.Page
}

func newTarget() *relabel.Target {
	return relabel.NewTarget(relabel.NewRules(relabel.Options{KeepCreated: true}), nil)
}

func textPage(t *testing.T, text string) *exposition.Page {
	t.Helper()
	return page(t, newTarget(), text, exposition.Text)
}

func omPage(t *testing.T, text string) *exposition.Page {
	t.Helper()
	return page(t, newTarget(), text, exposition.OpenMetrics)
}

func merge(pages ...*exposition.Page) *exposition.Merged {
	return exposition.NewMerger(len(pages)).Merge(pages)
}

// written returns a view and checks that Prometheus's parser accepts it and that
// no family has two blocks.
func written(t *testing.T, m *exposition.Merged, f exposition.Format, utf8 bool) string {
	t.Helper()
	var b bytes.Buffer
	v := m.View(f, utf8)
	n, err := v.WriteTo(&b)
	if err != nil || int(n) != b.Len() || v.Size() != b.Len() {
		t.Errorf("wrote %d bytes of %d, size %d, error %v", n, b.Len(), v.Size(), err)
	}
	p := textparse.NewPromParser(b.Bytes(), labels.NewSymbolTable(), false)
	if f == exposition.OpenMetrics {
		p = textparse.NewOpenMetricsParser(b.Bytes(), labels.NewSymbolTable())
	}
	seen := map[string]bool{}
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("Prometheus refuses the %v page: %v\n%s", f, err, b.String())
		}
		if entry == textparse.EntryType {
			name, _ := p.Type()
			if seen[string(name)] {
				t.Errorf("%v page has two blocks of %s:\n%s", f, name, b.String())
			}
			seen[string(name)] = true
		}
	}
	return b.String()
}

// want compares a view with the lines of want; its indentation does not count.
func want(t *testing.T, m *exposition.Merged, f exposition.Format, utf8 bool, want string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(want) {
		if line = strings.Trim(line, "\t\n"); line != "" {
			lines = append(lines, line)
		}
	}
	if f == exposition.OpenMetrics {
		lines = append(lines, "# EOF")
	}
	expected := strings.Join(lines, "\n") + "\n"
	if len(lines) == 0 {
		expected = ""
	}
	if got := written(t, m, f, utf8); got != expected {
		t.Errorf("%v page:\n%s\nwant:\n%s", f, got, expected)
	}
}
