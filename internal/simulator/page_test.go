package simulator

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// staged is a pipeline whose values are set by hand, so that its page does not depend on the model.
func staged(t *testing.T, o Options) *Pipeline {
	o.Model = `org/"quoted" \ model`
	o.Stages = []Stage{{Name: "thinker", KVBlocks: 1000}, {Name: "code2wav", KVBlocks: 512}}
	p := newPipeline(t, o)
	p.servers[0].answers, p.servers[0].refusals = 1234567, 3
	p.servers[0].tools[0] = 4
	p.servers[0].duration.observe(0.5)
	p.servers[0].highr.observe(0.5)
	m := p.engines[0].metrics
	m.promptTokens, m.localCompute, m.localCacheHit = 6384528, 6000000.0, 384528
	m.flops, m.readBytes = 28943503360, 1e16
	m.generationTokens = 811227
	m.success[reasonStop] = 17
	for _, v := range []float64{0.0004, 0.1, 0.3, 2560, 9999} {
		m.ttft.observe(v)
	}
	m.iteration.observe(513)
	m.promptLength.observe(1e6)
	p.engines[1].used = 100
	return p
}

func TestGoldenPages(t *testing.T) {
	for name, o := range map[string]Options{"page.txt": {}, "page.openmetrics.txt": {OpenMetrics: []int{0}}} {
		got := page(staged(t, o), 0)
		file := filepath.Join("testdata", name)
		if *update {
			must(t, os.MkdirAll("testdata", 0o755))
			must(t, os.WriteFile(file, got, 0o644))
		}
		want, err := os.ReadFile(file)
		must(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs; look at the change and run with -update", file)
			reportFirstDifference(t, string(got), string(want))
		}
	}
}

func reportFirstDifference(t *testing.T, got, want string) {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Errorf("line %d:\n got %s\nwant %s", i+1, g[i], w[i])
			return
		}
	}
	t.Errorf("%d lines, want %d", len(g), len(w))
}

// TestParsersAgree reads pages with both of Prometheus's parsers, whose values must agree, as must the values of the two
// formats.
func TestParsersAgree(t *testing.T) {
	text := newPipeline(t, Options{Seed: 1})
	open := newPipeline(t, Options{Seed: 1, OpenMetrics: []int{0}})
	text.Step(2 * time.Minute)
	open.Step(2 * time.Minute)

	families := parse(t, page(text, 0))
	plain := samples(t, page(text, 0), textType)
	om := samples(t, page(open, 0), openMetricsType)
	if !strings.HasSuffix(string(page(open, 0)), "# EOF\n") || strings.Contains(string(page(text, 0)), "# EOF") {
		t.Error("# EOF belongs to OpenMetrics alone")
	}

	lines := 0
	for line := range strings.SplitSeq(string(page(text, 0)), "\n") {
		if line != "" && line[0] != '#' {
			lines++
		}
	}
	if lines != len(plain) || lines < 1500 {
		t.Errorf("%d sample lines, %d samples", lines, len(plain))
	}
	for name, want := range map[string]dto.MetricType{
		"vllm:iteration_tokens_total": dto.MetricType_HISTOGRAM, "vllm:prompt_tokens_total": dto.MetricType_COUNTER,
		"vllm:prompt_tokens_created": dto.MetricType_GAUGE, "http_request_size_bytes": dto.MetricType_SUMMARY,
		"vllm:kv_cache_usage_perc": dto.MetricType_GAUGE, "vllm:request_success_total": dto.MetricType_COUNTER,
	} {
		if f := families[name]; f == nil || f.GetType() != want {
			t.Errorf("%s is %v, want %v", name, f.GetType(), want)
		}
	}
	for series, v := range om {
		if !strings.Contains(series, "vllm:lora") && plain[series] != v {
			t.Errorf("%s is %v in OpenMetrics and %v in text", series, v, plain[series])
		}
	}
	if len(om) < 1300 {
		t.Errorf("%d samples in OpenMetrics", len(om))
	}
}

func TestPageOddities(t *testing.T) {
	p := newPipeline(t, Options{Seed: 1})
	p.Step(time.Minute)
	text := string(page(p, 0))
	for _, want := range []string{
		"process_virtual_memory_bytes 2.894350336e+010\n",
		"process_resident_memory_bytes 6.384528e+06\n",
		"# TYPE vllm:corrupted_requests_total counter\n# HELP vllm:prompt_tokens_total", // no samples, no _created
		`vllm:lora_requests_info{max_lora="4",running_lora_adapters="sql-adapter,chat \"v2\"\\beta",waiting_lora_adapters=""} 1.7`,
		`le="1e+06",`,
		`vllm:engine_sleep_state{engine="4",model_name="Qwen/Qwen3-Omni-30B-A3B-Instruct",sleep_state="awake"} 1.0`,
		"bodies without a length are not in it. \n",
		`vllm:request_success_total{engine="0",finished_reason="repetition",model_name=`,
		"# TYPE vllm:iteration_tokens_total_created gauge\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "vllm:cache_config_info") && strings.Contains(line, "model_name") {
			t.Errorf("a model name in %s", line)
		}
	}
	if last := text[strings.LastIndex(text, "# TYPE"):]; !strings.Contains(last, "tool_call_parser_invocations_created") {
		t.Error("the tool parser does not come last")
	}
	if strings.Contains(text, "vllm:omni_") || strings.Contains(text, "vllm_omni:") {
		t.Error("omni families come from events, not from the page")
	}
}

// TestPythonFloat has spellings that Python's prometheus_client 0.16 gave.
func TestPythonFloat(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.0", 8: "8.0", 0.25: "0.25", 811227: "811227.0", 999999: "999999.0", 1e6: "1e+06", 1048576: "1.048576e+06",
		6384528: "6.384528e+06", 28943503360: "2.894350336e+010", 1e10: "1e+010", 1e15: "1e+015", 1e16: "1e+16", 1.5e17: "1.5e+17",
		1e-5: "1e-05", 0.0001: "0.0001", 1764444000.25: "1.76444400025e+09", 123456.789: "123456.789", 1234567.5: "1.2345675e+06", -2e6: "-2000000.0",
	} {
		if got := string(appendPythonFloat(nil, v)); got != want {
			t.Errorf("%v is spelled %q, want %q", v, got, want)
		}
	}
}

func TestEngineLabels(t *testing.T) {
	for layout, want := range map[Layout]string{PerEngine: "0", PerEngineGlobalIndex: "3"} {
		p := newPipeline(t, Options{Seed: 1, Layout: layout, OpenMetrics: []int{3}})
		if len(p.servers) != 5 {
			t.Fatalf("%d servers", len(p.servers))
		}
		all := samples(t, page(p, 3), openMetricsType)
		if _, found := all[`{__name__="vllm:num_requests_running", engine="`+want+`", model_name="Qwen/Qwen3-Omni-30B-A3B-Instruct"}`]; !found {
			t.Errorf("layout %d: no engine %s", layout, want)
		}
	}
}

// TestRunAndServe has a pipeline in real use, over loopback.
func TestRunAndServe(t *testing.T) {
	events := make(chan []Event, 1)
	p := newPipeline(t, Options{
		Layout: PerEngine, OpenMetrics: []int{4}, TimeScale: 100, Start: time.Now(),
		Events: func(e []Event) {
			select {
			case events <- e:
			default:
			}
		},
	})
	must(t, p.Listen())
	if p.Listen() == nil {
		t.Error("it listens twice")
	}
	upstreams := p.Upstreams()
	if len(upstreams) != 5 {
		t.Fatalf("upstreams %v", upstreams)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- p.Run(ctx) }()
	go func() { ended <- p.Serve(ctx) }()
	<-events
	client := &http.Client{Transport: &http.Transport{}}
	for i, upstream := range upstreams {
		response, err := client.Get("http://" + upstream + "/metrics")
		must(t, err)
		body, err := io.ReadAll(response.Body)
		must(t, err)
		must(t, response.Body.Close())
		want := textType
		if i == 4 {
			want = openMetricsType
		}
		if got := response.Header.Get("Content-Type"); got != want {
			t.Errorf("server %d says %q", i, got)
		}
		if len(samples(t, body, want)) < 200 {
			t.Errorf("server %d has a page of %d bytes", i, len(body))
		}
	}
	client.CloseIdleConnections()
	cancel()
	for range 2 {
		must(t, <-ended)
	}
	if p.Upstreams() != nil {
		t.Error("it still listens")
	}
}

func TestListenFails(t *testing.T) {
	p := newPipeline(t, Options{Layout: PerEngine, Listen: []string{"", "127.0.0.1:bad"}})
	if err := p.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), "server 1") {
		t.Errorf("error %v", err)
	}
}

func TestRunFollowsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline(t, Options{TimeScale: 3})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		must(t, p.Run(ctx))
		if got := p.Now().Sub(start); got < 29*time.Second || got > 30*time.Second {
			t.Errorf("%v of simulated time in 10 s at three times the speed", got)
		}
	})
}

// BenchmarkPage is the cost of the page of five engines.
func BenchmarkPage(b *testing.B) {
	p := newPipeline(b, Options{Seed: 1})
	p.Step(time.Minute)
	b.SetBytes(int64(len(page(p, 0))))
	b.ReportAllocs()
	for b.Loop() {
		page(p, 0)
	}
}

// BenchmarkMinute is the cost of a minute of simulated time.
func BenchmarkMinute(b *testing.B) {
	p := newPipeline(b, Options{Seed: 1, Events: func([]Event) {}, ForwardPasses: func(ForwardPass) {}})
	for b.Loop() {
		p.Step(time.Minute)
	}
}
