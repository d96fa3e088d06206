package main

import (
	"strings"
	"testing"
)

const pageConfig = `
pipelines:
  - name: one
    on_unmapped: drop
    stages: [{name: thinker}, {name: talker, replicas: 2}]
    upstreams:
      - static_configs: [{targets: ["flat:8000"]}]
      - stage: "1"
        static_configs: [{targets: ["own:8000"], labels: {zone: z1}}]
        metric_relabel_configs: [{source_labels: [__name__], regex: "vllm:noise", action: drop}]
  - name: two
    stages: [{}]
    upstreams:
      - static_configs: [{targets: ["flat:8000"]}]
`

const lossyPage = `# TYPE vllm:running gauge
vllm:running{engine="0"} 1
vllm:running{engine="2"} 1
vllm:running{engine="7"} 1
vllm:running{engine="0"} 9
# TYPE vllm:noise gauge
vllm:noise 1
# TYPE vllm:tokens_total counter
# TYPE vllm:tokens_total gauge
vllm:tokens_total{engine="0"} 3
# TYPE vllm:tokens_created gauge
vllm:tokens_created{engine="0"} 1.7e9
# TYPE vllm:omni_x gauge
vllm:omni_x 1
# TYPE vllm_omni:x counter
vllm_omni:x 2
# TYPE python_info gauge
python_info{a="1"} 1
up 1
`

func TestCheckMetricsWithoutConfiguration(t *testing.T) {
	r := omnitool(t, lossyPage, "check", "metrics", "--output=json")
	r.demand(t, 0, "{", "")
	c := decode[checkedPage](t, r.out)
	if !c.Valid || c.Format != "text" || c.Samples != 11 || c.Kept != 7 || len(c.Notes) != 1 {
		t.Errorf("got %+v", c)
	}
	want := map[loss]int{"created": 12, "duplicate": 5, "reserved_name": 19, "type_conflict": 16}
	if len(c.Lost) != len(want) {
		t.Errorf("lost %v, want %v", c.Lost, want)
	}
	for _, part := range c.Lost {
		if part.Samples != 1 || part.Families != 1 || len(part.Examples) != 1 || part.Examples[0].Line != want[part.Reason] || part.Why == string(part.Reason) {
			t.Errorf("got %+v, want line %d", part, want[part.Reason])
		}
	}
}

func TestCheckMetricsWithConfiguration(t *testing.T) {
	path := file(t, "c.yml", pageConfig)
	r := omnitool(t, lossyPage, "check", "metrics", "--config.file="+path, "--target=flat:8000", "--pipeline=one")
	r.demand(t, 0, "valid: text format, 11 samples; 5 leave, in 5 families\n", "")
	for _, want := range []string{
		"unmapped_engine: 1 sample of 1 family: ", "  line 4: vllm:running{engine=\"7\"} 1\n",
		"excluded: 2 samples of 2 families: ", "  line 18: python_info", "\nnote: 1 TYPE line contradict",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("output lacks %q:\n%s", want, r.out)
		}
	}
}

func TestCheckMetricsShowsFewExamples(t *testing.T) {
	page := "# TYPE a_total counter\n# TYPE a_created gauge\n" + strings.Repeat("a_created{x=\"\x1b[2J\"} 1\n", 5)
	r := omnitool(t, page, "check", "metrics")
	r.demand(t, 0, "  and 2 more\n", "")
	if strings.Contains(r.out, "\x1b") {
		t.Error("an escape sequence of the page reaches the terminal")
	}
}

func TestBrokenPages(t *testing.T) {
	config := file(t, "c.yml", `
global: {sample_limit: 1, label_limit: 3}
include: ["*"]
pipelines: [{stages: [{}], upstreams: [{static_configs: [{targets: ["a:1"]}]}]}]
`)
	for _, test := range []struct {
		name, page string
		args       []string
		err        string
	}{
		{"value", "a 1\nb x\n", nil, `standard input:2: value is no number: "x"; Prometheus and omni_exporter refuse the whole page`},
		{"cut off", "a 1\nb 1", nil, `standard input:2: last line has no newline: "b 1"; get the page again, whole`},
		{"no EOF", "a 1\n", []string{"--format=openmetrics"}, "standard input:2: page ends without # EOF; get"},
		{"after EOF", "a 1\n# EOF\nb 1\n", []string{"--format=openmetrics"}, "standard input:3: text after # EOF"},
		{"empty", "", nil, "no metric"},
		{"only EOF", "# EOF\n", nil, "no metric"},
		{"escape", "a{b=\"c\x1b[2J\n", nil, `"a{b=\"c\x1b[2J"`},
		{"samples", "a 1\nb 1\n", []string{"--config.file=" + config}, "standard input:2: more than 1 samples"},
		{"labels", "a{b=\"1\",c=\"2\",d=\"3\"} 1\n", []string{"--config.file=" + config}, "label_limit 3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := omnitool(t, test.page, append([]string{"check", "metrics"}, test.args...)...)
			r.demand(t, 1, "", test.err)

			r = omnitool(t, test.page, append([]string{"check", "metrics", "--output=json"}, test.args...)...)
			r.demand(t, 1, "{", "")
			c := decode[checkedPage](t, r.out)
			if c.Valid || !strings.Contains(c.Error, test.err) {
				t.Errorf("got %+v, want error %q", c, test.err)
			}
			if c.Line == 0 && strings.Contains(c.Error, ":1:") {
				t.Errorf("line of %q is missing", c.Error)
			}

			relabel := append([]string{"relabel"}, test.args...)
			if len(test.args) == 0 || strings.HasPrefix(test.args[0], "--format") {
				relabel = append(relabel, "--stages=1")
			}
			omnitool(t, test.page, relabel...).demand(t, 1, "", test.err)
		})
	}
}

func TestFormatIsFound(t *testing.T) {
	page := "# TYPE a counter\na_total 1\n# EOF"
	omnitool(t, page, "check", "metrics").demand(t, 0, "valid: OpenMetrics format", "")
	omnitool(t, page+"\n", "check", "metrics").demand(t, 0, "valid: OpenMetrics format", "")
	omnitool(t, page+"\n", "check", "metrics", "--format=text").demand(t, 0, "valid: text format", "")
	omnitool(t, "# EOF of something\na 1\n", "check", "metrics").demand(t, 0, "valid: text format", "")
}

func TestRelabelPage(t *testing.T) {
	page := "# TYPE vllm:b counter\nvllm:b_total{engine=\"2\"} 1.50\n# TYPE vllm:a gauge\nvllm:a{engine=\"0\"} NaN 1.5\n# EOF\n"
	omnitool(t, page, "relabel", "--stages=1,2").demand(t, 0, `# TYPE vllm:a gauge
vllm:a{replica="0",stage="0"} NaN 1500
# TYPE vllm:b_total counter
vllm:b_total{replica="1",stage="1"} 1.50
`, "")
}

func TestRelabelTargets(t *testing.T) {
	path := file(t, "c.yml", pageConfig)
	for _, test := range []struct {
		args []string
		code int
		out  string
		err  string
	}{
		{nil, 1, "", `3 targets: choose one with --target; they are "flat:8000", "own:8000", "flat:8000"`},
		{[]string{"--target=flat:8000"}, 1, "", `in several pipelines: choose one with --pipeline; they are "one", "two"`},
		{[]string{"--target=flat:8000", "--pipeline=one"}, 0, `vllm:a{pipeline="one",replica="1",stage="1"} 1`, ""},
		{[]string{"--pipeline=two"}, 0, `vllm:a{engine="2",pipeline="two"} 1`, ""},
		{[]string{"--target=own:8000"}, 0, `vllm:a{pipeline="one",replica="0.2",stage="1",zone="z1"} 1`, ""},
		{[]string{"--target=else:1"}, 1, "", path + `: no target "else:1": those of the configuration are "flat:8000", "own:8000"`},
		{[]string{"--target=own:8000", "--pipeline=two"}, 1, "", `no target "own:8000" in pipeline "two"`},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			omnitool(t, "vllm:a{engine=\"2\"} 1\n", append([]string{"relabel", "--config.file=" + path}, test.args...)...).
				demand(t, test.code, test.out, test.err)
		})
	}
	none := file(t, "none.yml", "events: {max_series: 5}\n")
	omnitool(t, "", "relabel", "--config.file="+none).demand(t, 1, "", none+": no targets")
	omnitool(t, "", "relabel", "--config.file="+file(t, "bad.yml", badConfig)).demand(t, 1, "", "bad.yml:4: pipelines[0].upstream")
}

func TestExplain(t *testing.T) {
	path := file(t, "c.yml", pageConfig)
	flat := []string{"relabel", "--explain", "--config.file=" + path, "--target=flat:8000", "--pipeline=one"}
	omnitool(t, lossyPage, flat...).demand(t, 0, `line 2: engine "0" -> stage "0", replica "0", by the flat map of the pipeline's stages; label "pipeline" added, of the pipeline or the target
  - vllm:running{engine="0"} 1
  + vllm:running{pipeline="one",replica="0",stage="0"} 1
line 3: engine "2" -> stage "1", replica "1", by the flat map of the pipeline's stages; label "pipeline" added, of the pipeline or the target
  - vllm:running{engine="2"} 1
  + vllm:running{pipeline="one",replica="1",stage="1"} 1
line 4: dropped, unmapped_engine: the engine is not in the map of the pipeline, and on_unmapped is drop; give the stages more replicas; engine "7"
  - vllm:running{engine="7"} 1
line 5: dropped, duplicate: an earlier line is the same series, or leaves as the same; the first one stays
  - vllm:running{engine="0"} 9
`, "")

	own := []string{"relabel", "--explain", "--config.file=" + path, "--target=own:8000"}
	page := `vllm:noise 1
vllm:tools_total 1
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{engine="0",zone="mine"} 0.5
vllm_omni:x{replica="1",stage="2"} 1
`
	omnitool(t, page, own...).demand(t, 0, `line 1: dropped, metric_relabel_configs: a rule of metric_relabel_configs drops it
  - vllm:noise 1
line 2: no engine -> stage "1", replica "0", those of the target; label "pipeline" added, of the pipeline or the target; label "zone" added, of the pipeline or the target
  - vllm:tools_total 1
  + vllm:tools_total{pipeline="one",replica="0",stage="1",zone="z1"} 1
line 4: engine "0" -> stage "1", replica "0", by the stage and replica of the target; renamed to the current name of "vllm:gpu_cache_usage_perc", which the page does not have; label "pipeline" added, of the pipeline or the target; label collision: the source's "zone" makes way and becomes "exported_zone"
  - vllm:gpu_cache_usage_perc{engine="0",zone="mine"} 0.5
  + vllm:kv_cache_usage_perc{exported_zone="mine",pipeline="one",replica="0",stage="1",zone="z1"} 0.5
line 5: renamed to the prefix of omni_prefix; label "pipeline" added, of the pipeline or the target; label "zone" added, of the pipeline or the target
  - vllm_omni:x{replica="1",stage="2"} 1
  + vllm:omni_x{pipeline="one",replica="1",stage="2",zone="z1"} 1
4 samples: 0 as they came, 4 explained, of which 1 dropped
`, "")
}

func TestExplainJSON(t *testing.T) {
	r := omnitool(t, "vllm:a{engine=\"9\"} 1\nvllm:a 1\npython_info 1\n", "relabel", "--stages=1", "--explain", "--output=json")
	r.demand(t, 0, "[", "")
	lines := decode[[]explainedLine](t, r.out)
	if len(lines) != 2 {
		t.Fatalf("%d lines explained, want 2: %+v", len(lines), lines)
	}
	if l := lines[0]; l.Line != 1 || l.Lost != "" || l.After != `vllm:a{engine="9"} 1` || !strings.Contains(strings.Join(l.Why, ""), "not in the map") {
		t.Errorf("unmapped engine: %+v", l)
	}
	if l := lines[1]; l.Line != 3 || l.Lost != "excluded" || l.After != "" {
		t.Errorf("excluded family: %+v", l)
	}
}
