package relabel

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	promrelabel "github.com/prometheus/prometheus/model/relabel"
	"go.yaml.in/yaml/v3"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

func metricRules(t *testing.T, text string) []*promrelabel.Config {
	t.Helper()
	var rules []*promrelabel.Config
	if err := yaml.Unmarshal([]byte(text), &rules); err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		if err := rule.Validate(model.UTF8Validation); err != nil {
			t.Fatal(err)
		}
	}
	return rules
}

const explainedPage = `# HELP vllm:num_requests_running Running.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="3",model_name="m"} 1.0
vllm:num_requests_running{engine="9",model_name="m"} 2.0

# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{engine="0"} 0.5
# TYPE vllm:e2e_seconds summary
vllm:e2e_seconds_sum{engine="0",replica="old",stage="prod"} 3
vllm:e2e_seconds_sum{engine="1",stage="prod"} 3 1700000000000
# TYPE vllm:e2e_seconds_created gauge
vllm:e2e_seconds_created{engine="0"} 1.7e9
python_info{version="3"} 1
up 1
vllm:secret{engine="0"} 1
vllm:loud{engine="0",noise="x"} 1
vllm:to_up{engine="0"} 1
vllm:plain{model_name="m"} 4
`

func TestExplain(t *testing.T) {
	rules := NewRules(Options{
		Topology:     FlatTopology([]Pool{{"0", 1}, {"1", 2}, {"2", 2}}),
		DropUnmapped: true,
		Include:      func(family string) bool { return !strings.HasPrefix(family, "python_") },
		Aliases:      true,
		MetricRelabel: metricRules(t, `
- {source_labels: [__name__], regex: "vllm:secret", action: drop}
- {regex: noise, action: labeldrop}
- {source_labels: [__name__], regex: "vllm:to_(up)", target_label: __name__}
- {source_labels: [__name__], regex: "vllm:loud", target_label: __name__, replacement: "vllm:quiet"}
`),
	})
	result, lines, err := Explain(rules, []byte(explainedPage), exposition.Text)
	if err != nil {
		t.Fatal(err)
	}
	before := strings.Split(explainedPage, "\n")
	want := []Line{
		{
			Number: 3, After: `vllm:num_requests_running{model_name="m",replica="0",stage="2"} 1.0`, Relabeled: true,
			Engine: "3", HasEngine: true, Place: Place{"2", "0"}, Placed: true, ByEngine: true,
		},
		{Number: 4, Drop: DropUnmapped, Engine: "9", HasEngine: true},
		{
			Number: 7, After: `vllm:kv_cache_usage_perc{replica="0",stage="0"} 0.5`, Relabeled: true, OutFamily: "vllm:kv_cache_usage_perc",
			Engine: "0", HasEngine: true, Place: Place{"0", "0"}, Placed: true, ByEngine: true,
		},
		{
			Number: 9, After: `vllm:e2e_seconds_sum{engine="0",replica="old",stage="prod"} 3`,
			Engine: "0", HasEngine: true, Place: Place{"prod", "old"}, Placed: true,
		},
		{
			Number: 10, After: `vllm:e2e_seconds_sum{exported_stage="prod",replica="0",stage="1"} 3 1700000000000`, Relabeled: true,
			Engine: "1", HasEngine: true, Place: Place{"1", "0"}, Placed: true, ByEngine: true, Moved: []string{"exported_stage"},
		},
		{Number: 12, Drop: DropCreated},
		{Number: 13, Drop: DropExcluded},
		{Number: 14, Drop: DropReserved},
		{Number: 15, Drop: DropRule, Engine: "0", HasEngine: true, Place: Place{"0", "0"}, Placed: true, ByEngine: true},
		{
			Number: 16, After: `vllm:quiet{replica="0",stage="0"} 1`, Relabeled: true, RuleRenamed: true, RuleLabels: true,
			Engine: "0", HasEngine: true, Place: Place{"0", "0"}, Placed: true, ByEngine: true,
		},
		{Number: 17, Drop: DropReserved, RuleRenamed: true, Engine: "0", HasEngine: true, Place: Place{"0", "0"}, Placed: true, ByEngine: true},
		{Number: 18, After: `vllm:plain{model_name="m"} 4`},
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines explained, want %d", len(lines), len(want))
	}
	for i := range want {
		w, got := &want[i], &lines[i]
		if w.Before = before[w.Number-1]; got.Before != w.Before {
			t.Errorf("line %d: before %q, want %q", w.Number, got.Before, w.Before)
		}
		w.Family = got.Family // names are checked by what leaves
		if w.OutFamily == "" {
			w.OutFamily = got.Family
		}
		moved := slices.Equal(got.Moved, w.Moved)
		if !moved {
			t.Errorf("line %d: moved %q, want %q", w.Number, got.Moved, w.Moved)
		}
		if changed := w.Before != w.After; got.Changed() != changed {
			t.Errorf("line %d: changed is %v, want %v", w.Number, got.Changed(), changed)
		}
		g := *got
		g.Moved, w.Moved = nil, nil
		if !equalLine(&g, w) {
			t.Errorf("line %d:\n got %+v\nwant %+v", w.Number, g, *w)
		}
	}
	var kept strings.Builder
	for i := range lines {
		if lines[i].After != "" {
			kept.WriteString(lines[i].After + "\n")
		}
	}
	if got := string(result.Page.Text()); got != kept.String() {
		t.Errorf("page is\n%s\nbut the lines are\n%s", got, kept.String())
	}
}

func equalLine(a, b *Line) bool {
	return a.Number == b.Number && a.Before == b.Before && a.After == b.After && a.Drop == b.Drop &&
		a.Family == b.Family && a.OutFamily == b.OutFamily && a.Engine == b.Engine && a.HasEngine == b.HasEngine &&
		a.Place == b.Place && a.Placed == b.Placed && a.ByEngine == b.ByEngine && a.ByTarget == b.ByTarget &&
		a.Relabeled == b.Relabeled && a.RuleRenamed == b.RuleRenamed && a.RuleLabels == b.RuleLabels
}

// TestExplainTarget: a series without an engine on the page of one replica stands
// where the replica does.
func TestExplainTarget(t *testing.T) {
	rules := NewRules(Options{Topology: TargetTopology("prefill", "1", 1), Labels: map[string]string{"pipeline": "p"}})
	_, lines, err := Explain(rules, []byte("# TYPE tools counter\ntools_total 1 # {a=\"b\"} 1\ntools_created 1.5\n# EOF\n"), exposition.OpenMetrics)
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2", len(lines))
	}
	if l := lines[0]; !l.ByTarget || l.ByEngine || l.After != `tools_total{pipeline="p",replica="1",stage="prefill"} 1` || !l.Changed() {
		t.Errorf("got %+v", l)
	}
	if l := lines[1]; l.Drop != DropCreated || l.Number != 3 {
		t.Errorf("got %+v, want a creation time dropped", l)
	}
}

func TestExplainBrokenPage(t *testing.T) {
	_, _, err := Explain(NewRules(Options{}), []byte("a 1\nb x\n"), exposition.Text)
	if parse, ok := errors.AsType[*exposition.ParseError](err); !ok || parse.Line != 2 {
		t.Errorf("got %v, want an error in line 2", err)
	}
}

// FuzzExplain: whatever page is accepted, the lines explained are those that leave,
// in order, and the page is the one that Rewrite makes.
func FuzzExplain(f *testing.F) {
	f.Add([]byte(explainedPage), false)
	f.Add([]byte("# TYPE a counter\na_total{engine=\"1\",stage=\"s\"} 1 1.5 # {x=\"y\"} 2\na_created 3\n# EOF"), true)
	f.Add([]byte("{\"a b\",\"c d\"=\"e\",engine=\"0\"} 1\n\n# comment\n a{} NaN\n"), false)
	rules := NewRules(Options{
		Topology: FlatTopology([]Pool{{"0", 1}}), DropUnmapped: true, Aliases: true, Labels: map[string]string{"pipeline": "p"},
	})
	f.Fuzz(func(t *testing.T, body []byte, openMetrics bool) {
		format := exposition.Text
		if openMetrics {
			format = exposition.OpenMetrics
		}
		want, _, wantErr := NewTarget(rules, nil).Rewrite(slices.Clone(body), format)
		got, lines, err := Explain(rules, body, format)
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("explaining fails with %v, rewriting with %v", err, wantErr)
		}
		if err != nil {
			return
		}
		var kept strings.Builder
		for i := range lines {
			if (lines[i].After == "") != (lines[i].Drop != Kept) {
				t.Fatalf("line %d leaves as %q and is dropped as %q", lines[i].Number, lines[i].After, lines[i].Drop)
			}
			if lines[i].After != "" {
				kept.WriteString(lines[i].After + "\n")
			}
		}
		if text := string(got.Page.Text()); text != string(want.Page.Text()) || text != kept.String() {
			t.Errorf("explained as\n%s\npage is\n%s\nrewritten it is\n%s", kept.String(), text, want.Page.Text())
		}
		if len(lines) != got.Summary.Samples {
			t.Errorf("%d lines explained, the page has %d samples", len(lines), got.Summary.Samples)
		}
	})
}
