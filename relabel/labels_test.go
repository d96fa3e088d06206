package relabel

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

func TestLabels(t *testing.T) {
	flat := Options{Topology: FlatTopology([]Pool{{"0", 1}, {"1", 2}})}
	dropping := flat
	dropping.DropUnmapped = true
	named := flat
	named.Labels = map[string]string{"pipeline": "qwen", "zone": `a"b`, "empty": ""}
	own := Options{Topology: TargetTopology("1", "h:1", 0)}
	placed := func(places ...Place) map[Place]bool {
		m := map[Place]bool{}
		for _, p := range places {
			m[p] = true
		}
		return m
	}
	tests := []struct {
		name    string
		options Options
		in      string
		want    string // "" if the series is dropped
		summary Summary
	}{
		{
			"engine becomes stage and replica, in the order of names", flat,
			`{engine="2",le="1.0",model_name="m"}`, `{le="1.0",model_name="m",replica="1",stage="1"}`,
			Summary{Places: placed(Place{"1", "1"})},
		},
		{
			"unsorted labels are sorted", flat,
			`{z="1",engine="0",a="2"}`, `{a="2",replica="0",stage="0",z="1"}`,
			Summary{Places: placed(Place{"0", "0"})},
		},
		{"no engine", flat, `{z="1",a="2"}`, `{a="2",z="1"}`, Summary{}},
		{"no labels", flat, ``, ``, Summary{}},
		{"unmapped engine", flat, `{engine="3",a="1"}`, `{a="1",engine="3"}`, Summary{Unmapped: map[string]bool{"3": true}}},
		{"engine that is no number", flat, `{engine="01"}`, `{engine="01"}`, Summary{Unmapped: map[string]bool{"01": true}}},
		{
			"unmapped engine, dropped", dropping, `{engine="3"}`, "dropped",
			Summary{Unmapped: map[string]bool{"3": true}, UnmappedSamples: 1},
		},
		{"no engine, none dropped", dropping, `{a="1"}`, `{a="1"}`, Summary{}},
		{
			"already placed", flat, `{replica="r",stage="s"}`, `{replica="r",stage="s"}`,
			Summary{Places: placed(Place{"s", "r"})},
		},
		{
			"already placed beside an engine", flat, `{engine="0",replica="r",stage="s"}`, `{engine="0",replica="r",stage="s"}`,
			Summary{Places: placed(Place{"s", "r"})},
		},
		{
			"stage of something else", flat, `{engine="1",stage="prefill"}`, `{exported_stage="prefill",replica="0",stage="1"}`,
			Summary{Places: placed(Place{"1", "0"}), LabelCollisions: 1},
		},
		{
			"stage that is the same", flat, `{engine="1",stage="1"}`, `{replica="0",stage="1"}`,
			Summary{Places: placed(Place{"1", "0"})},
		},
		{
			"exported_stage is taken too", flat, `{engine="1",exported_stage="e",stage="s"}`,
			`{exported_exported_stage="s",exported_stage="e",replica="0",stage="1"}`,
			Summary{Places: placed(Place{"1", "0"}), LabelCollisions: 1},
		},
		{
			"labels without a value are no labels", flat, `{engine="1",exported_stage="",replica="",stage="s"}`,
			`{exported_stage="s",replica="0",stage="1"}`,
			Summary{Places: placed(Place{"1", "0"}), LabelCollisions: 1},
		},
		{"an engine without a value is none", dropping, `{engine=""}`, `{engine=""}`, Summary{}},
		{"stage alone is no place", flat, `{stage="1"}`, `{stage="1"}`, Summary{}},
		{
			"labels of the target", named, `{engine="0"}`, `{pipeline="qwen",replica="0",stage="0",zone="a\"b"}`,
			Summary{Places: placed(Place{"0", "0"})},
		},
		{
			"labels of the target that are there already", named, `{pipeline="qwen",zone="a\"b"}`, `{pipeline="qwen",zone="a\"b"}`,
			Summary{},
		},
		{
			"another pipeline's label", named, `{pipeline="other"}`, `{exported_pipeline="other",pipeline="qwen",zone="a\"b"}`,
			Summary{LabelCollisions: 1},
		},
		{"a label of the target without a value", named, `{empty="x"}`, `{empty="x",pipeline="qwen",zone="a\"b"}`, Summary{}},
		{"one replica", own, `{engine="0"}`, `{replica="h:1",stage="1"}`, Summary{Places: placed(Place{"1", "h:1"})}},
		{"an engine of one replica", own, `{engine="2"}`, `{replica="h:1.2",stage="1"}`, Summary{Places: placed(Place{"1", "h:1.2"})}},
		{"one replica, no engine", own, `{a="1"}`, `{a="1",replica="h:1",stage="1"}`, Summary{Places: placed(Place{"1", "h:1"})}},
		{"one replica, a stage of something else", own, `{stage="s"}`, `{stage="s"}`, Summary{}},
		{
			"values keep their escapes", flat, `{a="\\ \" \n",engine="0"}`, `{a="\\ \" \n",replica="0",stage="0"}`,
			Summary{Places: placed(Place{"0", "0"})},
		},
		{"quoted names", flat, `{"l.m"="1","engine"="0"}`, `{"l.m"="1",replica="0",stage="0"}`, Summary{Places: placed(Place{"0", "0"})}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, _, err := NewTarget(NewRules(tt.options), nil).Rewrite([]byte("g"+tt.in+" 1\n"), exposition.Text)
			if err != nil {
				t.Fatal(err)
			}
			want := "g" + tt.want + " 1\n"
			if tt.want == "dropped" {
				want = ""
			}
			if got := string(r.Page.Text()); got != want {
				t.Errorf("got  %swant %s", got, want)
			}
			tt.summary.Samples = 1
			if tt.summary.Places == nil {
				tt.summary.Places = map[Place]bool{}
			}
			if tt.summary.Unmapped == nil {
				tt.summary.Unmapped = map[string]bool{}
			}
			if diff := cmp.Diff(&tt.summary, r.Summary); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
		})
	}
}

// Two engines never become one series.
func TestEnginesStayApart(t *testing.T) {
	for _, engines := range []int{2, 8} {
		var page strings.Builder
		for i := range engines {
			fmt.Fprintf(&page, "vllm:num_requests_running{engine=\"%d\"} %d\n", i, i)
		}
		for name, topology := range map[string]Topology{
			"flat": FlatTopology([]Pool{{"0", 1}, {"1", engines}}), "one target": TargetTopology("0", "0", 0),
			"dense": TargetTopology("0", "1", engines), "none": {},
		} {
			got, _ := rewriteText(t, Options{Topology: topology}, page.String(), exposition.Text)
			if n := strings.Count(got, "\nvllm:"); n != engines {
				t.Errorf("%s: %d of %d series left:\n%s", name, n, engines, got)
			}
		}
	}
}

// A label set in any order is sorted, however long it is.
func TestManyLabels(t *testing.T) {
	for _, n := range []int{2, manyLabels, manyLabels + 1, 500} {
		var in []string
		for i := range n {
			in = append(in, fmt.Sprintf(`l%04d="%d"`, n-i, i))
		}
		got, _ := rewriteText(t, Options{}, "g{"+strings.Join(in, ",")+"} 1\n", exposition.Text)
		last := ""
		for _, l := range strings.FieldsFunc(got, func(r rune) bool { return strings.ContainsRune("{,}\n", r) }) {
			name, _, ok := strings.Cut(l, `="`)
			if ok && name <= last {
				t.Fatalf("%d labels: %s behind %s", n, name, last)
			}
			if ok {
				last = name
			}
		}
	}
}
