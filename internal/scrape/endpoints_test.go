package scrape

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/relabel"
)

// placed returns each target's address with the place that its engine 0 gets.
func placed(p *Pool) []string {
	var out []string
	for _, target := range p.Targets() {
		place := "flat"
		if target.Stage() != "" {
			place = target.Stage()
		}
		out = append(out, target.Address()+" "+place)
	}
	return out
}

// TestEndpoints turns upstreams into targets.
func TestEndpoints(t *testing.T) {
	for name, test := range map[string]struct {
		upstream string
		want     []endpoint // url is left out where it is the usual one
		url      string     // of the first
	}{
		"plain": {
			upstream: `{static_configs: [{targets: ["a:1", "b:2"]}]}`,
			want:     []endpoint{{address: "a:1"}, {address: "b:2"}},
			url:      "http://a:1/metrics",
		},
		"IPv6": {
			upstream: `{static_configs: [{targets: ["[::1]:1"]}]}`,
			want:     []endpoint{{address: "[::1]:1"}},
			url:      "http://[::1]:1/metrics",
		},
		"labels": {
			upstream: `{stage: "1", replica: "3", static_configs: [{targets: ["a:1"], labels: {zone: z, empty: ""}}]}`,
			want:     []endpoint{{address: "a:1", stage: "1", replica: "3", labels: map[string]string{"zone": "z"}}},
		},
		"place by labels": {
			upstream: `{static_configs: [{targets: ["a:1"], labels: {stage: "1", replica: "2"}}]}`,
			want:     []endpoint{{address: "a:1", stage: "1", replica: "2"}},
		},
		"place by rules": {
			upstream: `{static_configs: [{targets: ["talker-7.local:1", "thinker-0.local:1"]}], relabel_configs: [
				{source_labels: [__address__], regex: 'talker-(\d+)\..*', target_label: replica, replacement: '$1'},
				{source_labels: [__address__], regex: 'talker-.*', target_label: stage, replacement: "1"},
				{target_label: zone, replacement: z}]}`,
			want: []endpoint{
				{address: "talker-7.local:1", stage: "1", replica: "7", labels: map[string]string{"zone": "z"}},
				{address: "thinker-0.local:1", labels: map[string]string{"zone": "z"}},
			},
		},
		"dropped by rules": {
			upstream: `{static_configs: [{targets: ["a:1", "b:2", "c:3"]}], relabel_configs: [
				{source_labels: [__address__], regex: 'b:.*', action: drop},
				{source_labels: [__address__], regex: 'c:.*', target_label: __address__, replacement: ""}]}`,
			want: []endpoint{{address: "a:1"}},
		},
		"all by rules": {
			upstream: `{static_configs: [{targets: ["a:1"]}], scheme: http, relabel_configs: [
				{target_label: __scheme__, replacement: https},
				{target_label: __metrics_path__, replacement: /m},
				{target_label: __address__, replacement: other},
				{target_label: __param_x, replacement: "1 2"},
				{target_label: __tmp, replacement: gone}]}`,
			want: []endpoint{{address: "other:443"}},
			url:  "https://other:443/m?x=1+2",
		},
		"parameters": {
			upstream: `{static_configs: [{targets: ["a:1"]}], params: {x: ["1", "2"], y: ["3"]}, relabel_configs: [
				{source_labels: [__param_y], target_label: from_y},
				{target_label: __param_x, replacement: first}]}`,
			want: []endpoint{{address: "a:1", labels: map[string]string{"from_y": "3"}}},
			url:  "http://a:1/metrics?x=first&x=2&y=3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := parseConfig(t, "pipelines:\n- stages: [{}, {}]\n  upstreams: ["+test.upstream+"]\n")
			got := static(&c.Pipelines[0].Upstreams[0], demandNone(t))
			if len(got) != len(test.want) {
				t.Fatalf("%d targets, want %d: %+v", len(got), len(test.want), got)
			}
			for i, want := range test.want {
				if got[i].address != want.address || got[i].stage != want.stage || got[i].replica != want.replica || !maps.Equal(got[i].labels, want.labels) {
					t.Errorf("target %d is %+v, want %+v", i, got[i], want)
				}
			}
			if url := got[0].url.String(); test.url != "" && url != test.url {
				t.Errorf("URL %s, want %s", url, test.url)
			}
		})
	}
}

// demandNone demands that no target is rejected.
func demandNone(t *testing.T) func(string, RejectReason) {
	return func(address string, reason RejectReason) { t.Errorf("target %q rejected: %s", address, reason) }
}

// Parameters of one target must not be another's.
func TestParametersAreNotShared(t *testing.T) {
	c := parseConfig(t, `
pipelines:
- stages: [{}]
  upstreams:
  - params: {x: ["0"]}
    static_configs: [{targets: ["a:1", "b:2"]}]
    relabel_configs: [{source_labels: [__address__], regex: 'a:.*', target_label: __param_x, replacement: "1"}]
`)
	u := &c.Pipelines[0].Upstreams[0]
	for range 2 {
		got := static(u, demandNone(t))
		if a, b := got[0].url.RawQuery, got[1].url.RawQuery; a != "x=1" || b != "x=0" {
			t.Errorf("parameters %q and %q, want x=1 and x=0", a, b)
		}
	}
}

func TestHostPort(t *testing.T) {
	for _, test := range []struct{ address, scheme, want string }{
		{"a", "http", "a:80"},
		{"a", "https", "a:443"},
		{"a:", "http", "a:80"},
		{"a:8000", "https", "a:8000"},
		{"[::1]", "http", "[::1]:80"},
		{"[::1]:8000", "http", "[::1]:8000"},
	} {
		if got := hostPort(test.address, test.scheme); got != test.want {
			t.Errorf("%s over %s is %s, want %s", test.address, test.scheme, got, test.want)
		}
	}
}

// TestRunningNumbers gives the targets of a stage that have no replica their number
// within the stage, over all upstreams.
func TestRunningNumbers(t *testing.T) {
	c := `
global: {min_scrape_interval: 0s}
pipelines:
- stages: [{}, {}]
  upstreams:
  - {stage: "1", static_configs: [{targets: [A, B]}]}
  - {stage: "0", static_configs: [{targets: [C]}]}
  - {stage: "1", static_configs: [{targets: [D]}]}
  - static_configs: [{targets: [E]}]
`
	for name, body := range map[string]string{"A": "1", "B": "2", "C": "3", "D": "4"} {
		c = strings.Replace(c, name, `"`+serve(t, answer(textType, "vllm:x{engine=\"0\"} "+body+"\n"))+`"`, 1)
	}
	c = strings.Replace(c, "E", `"`+serve(t, answer(textType, "vllm:y{engine=\"1\"} 5\n"))+`"`, 1)
	p, _ := start(t, c)
	page, _ := look(t, p)
	want := []string{
		`vllm:x{replica="0",stage="1"} 1`, `vllm:x{replica="1",stage="1"} 2`,
		`vllm:x{replica="0",stage="0"} 3`, `vllm:x{replica="2",stage="1"} 4`,
		`vllm:y{replica="0",stage="1"} 5`,
	}
	if got := samples(page); !slices.Equal(got, want) {
		t.Errorf("page holds %q, want %q", got, want)
	}
	if got := placed(p); len(got) != 5 || !strings.HasSuffix(got[4], " flat") {
		t.Errorf("targets %q", got)
	}
}

// TestSeriesWithoutEngine demands that series without an engine stand at the target
// that is one replica: else those of two replicas would be one series and one lost.
// With the flat map nobody knows whose they are.
func TestSeriesWithoutEngine(t *testing.T) {
	const body = "vllm:tool_calls_total %\nvllm:x{engine=\"0\"} %\n"
	first, second := serve(t, answer(textType, strings.ReplaceAll(body, "%", "1"))), serve(t, answer(textType, strings.ReplaceAll(body, "%", "2")))
	p, totals := start(t, flatConfig(first+` stage: "0"`, second+` stage: "0"`))
	page, _ := look(t, p)
	want := []string{
		`vllm:tool_calls_total{replica="0",stage="0"} 1`, `vllm:tool_calls_total{replica="1",stage="0"} 2`,
		`vllm:x{replica="0",stage="0"} 1`, `vllm:x{replica="1",stage="0"} 2`,
	}
	if got := samples(page); !slices.Equal(got, want) {
		t.Errorf("page holds %q, want %q", got, want)
	}
	demandTotals(t, totals, nil, nil)

	p, totals = start(t, flatConfig(first, second))
	page, _ = look(t, p)
	want = []string{`vllm:tool_calls_total 1`, `vllm:x{replica="0",stage="0"} 1`}
	if got := samples(page); !slices.Equal(got, want) {
		t.Errorf("page of the flat map holds %q, want %q", got, want)
	}
	demandTotals(t, totals, map[Conflict]int64{ConflictDuplicate: 2}, map[Drop]int64{DropDuplicate: 2})
}

// TestDataParallelSize numbers the engines of servers with several, densely.
func TestDataParallelSize(t *testing.T) {
	const body = "vllm:x{engine=\"0\"} 1\nvllm:x{engine=\"1\"} 1\nvllm:x{engine=\"2\"} 1\n"
	page := answer(textType, body)
	p, _ := start(t, flatConfig(
		serve(t, page)+` stage: "0", data_parallel_size: 2`,
		serve(t, page)+` stage: "0", data_parallel_size: 2`,
	))
	got, states := look(t, p)
	want := []string{
		`vllm:x{replica="0",stage="0"} 1`, `vllm:x{replica="1",stage="0"} 1`, `vllm:x{engine="2"} 1`,
		`vllm:x{replica="2",stage="0"} 1`, `vllm:x{replica="3",stage="0"} 1`,
	}
	if got := samples(got); !slices.Equal(got, want) {
		t.Errorf("page holds %q, want %q", got, want)
	}
	seen := map[relabel.Place]bool{}
	for _, s := range states {
		maps.Copy(seen, s.Outcome.Summary.Places)
	}
	if len(seen) != 4 {
		t.Errorf("places %v, want four", seen)
	}

	p, _ = start(t, flatConfig(serve(t, page)+` stage: "0", replica: "a"`))
	got, _ = look(t, p)
	want = []string{`vllm:x{replica="a",stage="0"} 1`, `vllm:x{replica="a.1",stage="0"} 1`, `vllm:x{replica="a.2",stage="0"} 1`}
	if got := samples(got); !slices.Equal(got, want) {
		t.Errorf("page of one replica holds %q, want %q", got, want)
	}
}

// TestMetricRelabelConfigs applies Prometheus's rules to series as they leave.
func TestMetricRelabelConfigs(t *testing.T) {
	const body = `# HELP vllm:a A.
# TYPE vllm:a gauge
vllm:a{engine="0",model_name="m"} 1
vllm:a{engine="1",model_name="m"} 2
vllm:b{engine="0"} 3
`
	for name, test := range map[string]struct {
		rules string
		want  []string
	}{
		"drop by place":    {`{source_labels: [replica], regex: "1", action: drop}`, []string{`vllm:a{model_name="m",replica="0",stage="0"} 1`, `vllm:b{replica="0",stage="0"} 3`}},
		"keep by name":     {`{source_labels: [__name__], regex: "vllm:b", action: keep}`, []string{`vllm:b{replica="0",stage="0"} 3`}},
		"label map":        {`{regex: "(model)_name", replacement: "${1}", action: labelmap}, {regex: model_name, action: labeldrop}`, []string{`vllm:a{model="m",replica="0",stage="0"} 1`, `vllm:a{model="m",replica="1",stage="0"} 2`, `vllm:b{replica="0",stage="0"} 3`}},
		"rename":           {`{source_labels: [__name__], regex: "vllm:(b)", target_label: __name__, replacement: "vllm:z$1"}`, []string{`vllm:a{model_name="m",replica="0",stage="0"} 1`, `vllm:a{model_name="m",replica="1",stage="0"} 2`, `vllm:zb{replica="0",stage="0"} 3`}},
		"rename, reserved": {`{source_labels: [__name__], regex: "vllm:b", target_label: __name__, replacement: up}`, []string{`vllm:a{model_name="m",replica="0",stage="0"} 1`, `vllm:a{model_name="m",replica="1",stage="0"} 2`}},
		"made equal":       {`{regex: "replica", action: labeldrop}`, []string{`vllm:a{model_name="m",stage="0"} 1`, `vllm:b{stage="0"} 3`}},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := start(t, flatConfig(serve(t, answer(textType, body))+" metric_relabel_configs: ["+test.rules+"]"))
			for range 2 { // the second is taken from the line cache
				page, states := look(t, p)
				demandGood(t, states[0])
				if got := samples(page); !slices.Equal(got, test.want) {
					t.Errorf("page holds %q, want %q", got, test.want)
				}
			}
		})
	}
}

// TestTargetsThatCannotBe demands an error that names the pipeline and the target or
// the file.
func TestTargetsThatCannotBe(t *testing.T) {
	for name, test := range map[string]struct{ upstreams, want string }{
		"one target twice, by rules": {
			`{static_configs: [{targets: ["a:1", "b:1"]}], relabel_configs: [{target_label: __address__, replacement: "c:1"}]}`,
			`pipeline "p": target "c:1" occurs twice`,
		},
		"no certificate": {
			`{static_configs: [{targets: ["a:1"]}], scheme: https, tls_config: {ca_file: /nowhere/ca.pem}}`,
			"/nowhere/ca.pem",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := parseConfig(t, "pipelines:\n- name: p\n  stages: [{}]\n  upstreams: ["+test.upstreams+"]\n")
			p, err := NewPool(c, PoolOptions{Totals: &Totals{}})
			if err == nil {
				p.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), `pipeline "p"`) {
				t.Errorf("error %q, want it to name %q and the pipeline", err, test.want)
			}
		})
	}
}

// One address may serve two pipelines.
func TestOneAddressInTwoPipelines(t *testing.T) {
	var got asked
	address := serve(t, got.then(func(w http.ResponseWriter, r *http.Request) {
		answer(textType, "vllm:x{engine=\"0\"} 1\n")(w, r)
	}))
	pipeline := "\n- {name: %, stages: [{}], upstreams: [{static_configs: [{targets: [\"" + address + "\"]}]}]}"
	p, _ := start(t, "pipelines:"+strings.Replace(pipeline, "%", "a", 1)+strings.Replace(pipeline, "%", "b", 1))
	page, _ := look(t, p)
	want := []string{`vllm:x{pipeline="a",replica="0",stage="0"} 1`, `vllm:x{pipeline="b",replica="0",stage="0"} 1`}
	if lines := samples(page); !slices.Equal(lines, want) {
		t.Errorf("page holds %q, want %q", lines, want)
	}
}

// Whatever discovery brings as an address, what is asked for is that host and nothing
// else.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"a:1", "[::1]:80", "a", "a:", "u:p@a:1", "a/b", "a?b", "a#b", "a b", "a%2fb", "ü:1", "[a:1", "a:99999", "\x00", ""} {
		f.Add(seed, "http")
		f.Add(seed, "https")
	}
	f.Add("a:1", "file")
	f.Add("a:1", "http://b/?")
	u := config.DefaultUpstream()
	f.Fuzz(func(t *testing.T, address, scheme string) {
		b := labels.NewBuilder(labels.EmptyLabels())
		b.Set("__address__", address).Set("__scheme__", scheme)
		e, ok := newEndpoint(&u, b, func(string, RejectReason) {})
		if !ok {
			return
		}
		parsed, err := url.Parse(e.url.String())
		if err != nil {
			t.Fatalf("URL of %q: %v", address, err)
		}
		if parsed.Host != e.address || !strings.HasPrefix(e.address, address) || parsed.User != nil || parsed.Path != "/metrics" || parsed.RawQuery != "" || parsed.Fragment != "" {
			t.Errorf("address %q becomes %q", address, e.url)
		}
	})
}
