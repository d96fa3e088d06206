package web

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/stream"
)

// statusOf reads /api/v1/status.
func statusOf(t *testing.T, url string) *Status {
	t.Helper()
	answer := get(t, url+"/api/v1/status")
	if kind := answer.header.Get("Content-Type"); answer.status != http.StatusOK || kind != "application/json" {
		t.Fatalf("status %d, Content-Type %q: %s", answer.status, kind, answer.body)
	}
	var s Status
	if err := json.Unmarshal([]byte(answer.body), &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// engineOf returns an engine of the first pipeline, which must be there.
func engineOf(t *testing.T, s *Status, stage, replica string) EngineStatus {
	t.Helper()
	for _, st := range s.Pipelines[0].Stages {
		for _, e := range st.Engines {
			if st.Stage == stage && e.Replica == replica {
				return e
			}
		}
	}
	t.Fatalf("no engine %s of stage %s in %+v", replica, stage, s.Pipelines[0])
	return EngineStatus{}
}

const twoEngines = `# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3
vllm:num_requests_running{engine="1",model_name="m"} 1
vllm:num_requests_running{engine="1",model_name="adapter"} 1
vllm:num_requests_running{engine="7",model_name="m"} 9
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 0
vllm:num_requests_waiting{engine="1",model_name="m"} NaN
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.25
`

// TestStatusPage demands that the page shows how targets are, without scraping them.
func TestStatusPage(t *testing.T) {
	var asked atomic.Int64
	good := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		answer(engines)(w, r)
	})
	o := options()
	o.TelemetryPath = "/all"
	_, url := start(t, flat(good, "127.0.0.1:1"), o)

	page := get(t, url+"/")
	if kind := page.header.Get("Content-Type"); kind != "text/html; charset=utf-8" {
		t.Errorf("Content-Type %q", kind)
	}
	if policy := page.header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("Content-Security-Policy %q", policy)
	}
	s := statusOf(t, url)
	for _, target := range s.Targets {
		if target.State != StateUnknown {
			t.Errorf("%+v before the first scrape", target)
		}
	}
	if asked.Load() != 0 || len(s.Problems) != 0 || len(s.Targets) != 2 {
		t.Errorf("%d scrapes by looking, problems %v, targets %v; want no scrape, no problem, two targets", asked.Load(), s.Problems, s.Targets)
	}
	if !strings.Contains(page.body, `href="all"`) || strings.Contains(page.body, "/api/v1/events") {
		t.Errorf("links are not those that there are:\n%s", page.body)
	}

	get(t, url+"/all")
	page = get(t, url+"/")
	for _, want := range []string{good, "127.0.0.1:1", "connection refused", "1 of 2 targets failed"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("page does not hold %q:\n%s", want, page.body)
		}
	}
	s = statusOf(t, url)
	if up, down := s.Targets[0], s.Targets[1]; up.State != StateUp || up.Samples == 0 || up.BodySize == 0 || up.LastSuccess.IsZero() ||
		down.State != StateDown || down.Reason != "connect" || down.Failures["connect"] != 1 || !down.LastSuccess.IsZero() {
		t.Errorf("targets %+v", s.Targets)
	}
	if asked.Load() != 1 {
		t.Errorf("%d scrapes after one page, want 1", asked.Load())
	}
}

// TestStatusOfEngines reads the numbers of engines off the last page.
func TestStatusOfEngines(t *testing.T) {
	var broken atomic.Bool
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		answer(twoEngines)(w, r)
	})
	_, url := start(t, `
global: {min_scrape_interval: 0s}
normalize_names: false
pipelines:
- name: p
  stages: [{name: thinker}, {name: talker, replicas: 2}]
  upstreams: [{static_configs: [{targets: ["`+target+`"]}]}]
`, options())
	if e := engineOf(t, statusOf(t, url), "1", "1"); e.State != StateUnknown || !e.Expected {
		t.Errorf("engine before the first scrape: %+v", e)
	}
	get(t, url+"/metrics")
	s := statusOf(t, url)
	thinker := engineOf(t, s, "0", "0")
	if thinker.State != StateUp || thinker.Running == nil || *thinker.Running != 3 || thinker.Waiting == nil || *thinker.Waiting != 0 ||
		thinker.KVUsage == nil || *thinker.KVUsage != 0.25 {
		t.Errorf("thinker %+v", thinker)
	}
	if talker := engineOf(t, s, "1", "0"); talker.Running == nil || *talker.Running != 2 || talker.Waiting != nil || talker.KVUsage != nil {
		t.Errorf("talker 0 %+v, want the sum of its models and no number for NaN", talker)
	}
	if missing := engineOf(t, s, "1", "1"); missing.State != StateMissing {
		t.Errorf("talker 1, which the page does not have, %+v", missing)
	}
	if got := s.Targets[0].Unmapped; len(got) != 1 || got[0] != "7" {
		t.Errorf("unmapped engines %q, want 7", got)
	}
	page := get(t, url+"/").body
	for _, want := range []string{"Stage &#34;talker&#34; of &#34;p&#34;: 1 of 2 engines are on the last pages.", "1 engine stands outside the map", "25 %"} {
		if !strings.Contains(page, want) {
			t.Errorf("page does not hold %q:\n%s", want, page)
		}
	}

	broken.Store(true)
	get(t, url+"/metrics")
	if e := engineOf(t, statusOf(t, url), "0", "0"); e.State != StateDown || e.Running != nil {
		t.Errorf("engine of a target that is down: %+v", e)
	}
}

// TestStatusOfStageTargets shows targets that are replicas of a stage themselves.
func TestStatusOfStageTargets(t *testing.T) {
	good := serve(t, answer("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\"} 4\n"))
	_, url := start(t, `
pipelines:
- stages: [{name: prefill, replicas: 3}, {name: decode}]
  upstreams: [{stage: "0", static_configs: [{targets: ["`+good+`", "127.0.0.1:1"]}]}]
`, options())
	get(t, url+"/metrics")
	s := statusOf(t, url)
	for replica, want := range map[string]State{"0": StateUp, "1": StateDown, "2": StateMissing} {
		if e := engineOf(t, s, "0", replica); e.State != want || !e.Expected {
			t.Errorf("replica %s: %+v, want %s", replica, e, want)
		}
	}
	if e := engineOf(t, s, "0", "1"); len(e.Targets) != 1 || e.Targets[0] != "127.0.0.1:1" {
		t.Errorf("replica 1 is of %q", e.Targets)
	}
	if e := engineOf(t, s, "1", "0"); e.State != StateMissing {
		t.Errorf("stage without an upstream: %+v", e)
	}
}

// TestStatusOfUnexpectedEngines shows places that a page speaks of and the
// configuration does not.
func TestStatusOfUnexpectedEngines(t *testing.T) {
	target := serve(t, answer("# TYPE vllm:x gauge\nvllm:x{stage=\"0\",replica=\"0\"} 1\nvllm:x{stage=\"vocoder\",replica=\"10\"} 1\nvllm:x{stage=\"vocoder\",replica=\"9\"} 1\n"))
	_, url := start(t, flat(target), options())
	get(t, url+"/metrics")
	stages := statusOf(t, url).Pipelines[0].Stages
	if len(stages) != 2 || stages[1].Configured || stages[1].Stage != "vocoder" || len(stages[1].Engines) != 2 ||
		stages[1].Engines[0].Replica != "9" || stages[1].Engines[0].Expected {
		t.Errorf("stages %+v", stages)
	}
	if page := get(t, url+"/").body; !strings.Contains(page, "not in the configuration") {
		t.Errorf("page is\n%s", page)
	}
}

func TestStatusPageOfNothing(t *testing.T) {
	o := options()
	o.Events = http.NotFoundHandler()
	_, url := start(t, "", o)
	if page := get(t, url+"/").body; !strings.Contains(page, "None are configured") || !strings.Contains(page, "/api/v1/events") {
		t.Errorf("page is\n%s", page)
	}
	for _, path := range []string{"/", "/api/v1/status", "/static/x"} {
		if answer := do(t, http.MethodPost, url+path, nil); answer.status != http.StatusMethodNotAllowed || answer.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: status %d, Allow %q", path, answer.status, answer.header.Get("Allow"))
		}
	}
}

// TestStatusPageEscapes shows what hostile targets sent.
func TestStatusPageEscapes(t *testing.T) {
	const script = "<script>alert(1)</script>"
	line := serve(t, answer("vllm:x "+script+"\n"))
	contentType := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", script)
		_, _ = io.WriteString(w, script)
	})
	encoding := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", `"'><img src=x onerror=alert(1)>`)
		answer(engines)(w, r)
	})
	labels := serve(t, answer("vllm:x{stage=\"<script>2</script>\",replica=\"<img>\"} 1\nvllm:x{engine=\"<script>3</script>\"} 1\n"))
	o := options()
	o.Streams = func() []stream.EndpointState {
		return []stream.EndpointState{{
			Endpoint: stream.Endpoint{Address: "tcp://<script>:1", Rank: fpm.UnknownRank}, Phase: stream.PhaseWaiting,
			LastReason: stream.ReasonHandshake, LastError: script, WorkerID: script, Rank: 1,
		}}
	}
	_, url := start(t, strings.Replace(flat(line, contentType, encoding, labels), "stages:", "name: '<i>p</i>', stages:", 1), o)
	get(t, url+"/metrics")
	page := get(t, url+"/").body
	for _, foreign := range []string{"<script>", "<img", "<i>"} {
		if strings.Contains(page, foreign) {
			t.Errorf("page holds %q unescaped:\n%s", foreign, page)
		}
	}
	for _, want := range []string{"&lt;script&gt;", "&lt;script&gt;2", "&lt;script&gt;3", "&lt;img", "&lt;i&gt;p&lt;/i&gt;", "tcp://&lt;script&gt;:1"} {
		if !strings.Contains(page, want) {
			t.Errorf("page does not hold %q:\n%s", want, page)
		}
	}
	if raw := get(t, url+"/api/v1/status").body; strings.Contains(raw, "<") {
		t.Errorf("JSON holds markup: %s", raw)
	}
}

// TestStatusHoldsNoSecret shows a target that answers with what it was sent.
func TestStatusHoldsNoSecret(t *testing.T) {
	reflecting := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, r.Header.Get("Authorization")+r.URL.RawQuery, http.StatusForbidden)
	})
	_, url := start(t, `
pipelines:
- stages: [{}]
  upstreams:
  - static_configs: [{targets: ["`+reflecting+`"]}]
    params: {token: [s3cr3t]}
    authorization: {credentials: s3cr3t}
    proxy_url: http://user:s3cr3t@127.0.0.1:1
    http_headers: {X-Key: {secrets: [s3cr3t]}}
  - static_configs: [{targets: ["127.0.0.1:2"]}]
    basic_auth: {username: u, password: s3cr3t}
`, options())
	for _, path := range []string{"/metrics", "/", "/api/v1/status"} {
		page := get(t, url+path).body
		if strings.Contains(page, "s3cr3t") || !strings.Contains(page, reflecting) {
			t.Errorf("%s holds the secret, or not the target:\n%s", path, page)
		}
	}
	if c := statusOf(t, url).Config.YAML; strings.Count(c, "<secret>") < 4 || !strings.Contains(c, "token:") {
		t.Errorf("configuration shown is\n%s", c)
	}
}

// TestStatusAssets demands that the page's files are there under paths that may be kept
// for ever, and that nothing of the page is written inline, which its policy forbids.
func TestStatusAssets(t *testing.T) {
	_, url := start(t, "", options())
	page := get(t, url+"/").body
	files := regexp.MustCompile(`(?:src|href)="(static/[^"]+)"`).FindAllStringSubmatch(page, -1)
	if len(files) != 3 {
		t.Fatalf("files of the page are %q", files)
	}
	for _, file := range files {
		answer := get(t, url+"/"+file[1])
		if answer.status != http.StatusOK || answer.body == "" || !strings.Contains(answer.header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: status %d, %q", file[1], answer.status, answer.header)
		}
	}
	if inline := regexp.MustCompile(`<style|<script>| style=| on[a-z]+=`).FindString(page); inline != "" {
		t.Errorf("page holds %q", inline)
	}
	for _, path := range []string{"/static/", "/static/status.css", "/static/../server.go", "/static/status.html"} {
		if answer := get(t, url+path); answer.status == http.StatusOK {
			t.Errorf("%s is served", path)
		}
	}
}

// TestStatusOfForwardPasses joins endpoints with the series of the ranks behind them.
func TestStatusOfForwardPasses(t *testing.T) {
	const own = `# TYPE dynamo_fpm_up gauge
dynamo_fpm_up{worker_id="w",dp_rank="1",stage="0"} 1
dynamo_fpm_up{worker_id="traced",dp_rank="0"} 0
# TYPE dynamo_fpm_records_total counter
dynamo_fpm_records_total{worker_id="w",dp_rank="1",stage="0"} 100
dynamo_fpm_records_total{worker_id="traced",dp_rank="0"} 7
# TYPE dynamo_fpm_records_lost_total counter
dynamo_fpm_records_lost_total{worker_id="w",dp_rank="1",stage="0"} 4
# TYPE dynamo_fpm_records_rejected_total counter
dynamo_fpm_records_rejected_total{worker_id="tcp://b:1",dp_rank="0",reason="x"} 1
dynamo_fpm_records_rejected_total{worker_id="tcp://b:1",dp_rank="0",reason="y"} 2
`
	o := options()
	o.Gatherer = prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(own))
		return slices.Collect(maps.Values(families)), err
	})
	o.Streams = func() []stream.EndpointState {
		return []stream.EndpointState{
			{
				Endpoint: stream.Endpoint{Address: "tcp://a:1", Labels: fpm.Labels{Stage: "0"}}, Phase: stream.PhaseConnected,
				WorkerID: "w", Rank: 1, LastMessage: time.Now(),
			},
			{
				Endpoint: stream.Endpoint{Address: "tcp://b:1", Rank: fpm.UnknownRank}, Phase: stream.PhaseWaiting, Rank: fpm.UnknownRank,
				LastReason: stream.ReasonDial, LastError: "refused",
			},
		}
	}
	_, url := start(t, "", o)
	s := statusOf(t, url)
	if len(s.ForwardPasses) != 3 {
		t.Fatalf("ranks %+v", s.ForwardPasses)
	}
	a, b, c := s.ForwardPasses[0], s.ForwardPasses[1], s.ForwardPasses[2]
	if a.Endpoint != "tcp://a:1" || a.Records != 100 || a.Lost != 4 || a.Up == nil || !*a.Up {
		t.Errorf("connected rank %+v", a)
	}
	if b.Rejected != 3 || b.Up != nil || b.Reason != "dial" || b.Error != "refused" {
		t.Errorf("rank that was never heard of %+v", b)
	}
	if c.Endpoint != "" || c.WorkerID != "traced" || c.Records != 7 || !c.Silent() {
		t.Errorf("rank of a trace %+v", c)
	}
	var got []string
	for _, p := range s.Problems {
		got = append(got, p.Text)
	}
	if want := []string{"1 endpoint of forward passes is not connected.", "1 rank has been silent for longer than stale_after."}; !slices.Equal(got, want) {
		t.Errorf("problems %q, want %q", got, want)
	}
}

// TestRates reads rates off two looks.
func TestRates(t *testing.T) {
	var r rates
	at := func(seconds, records float64, conflicts int64) *Status {
		s := &Status{
			ForwardPasses: []RankStatus{{Endpoint: "a", Records: records}},
			Merge:         MergeStatus{Conflicts: map[string]int64{"type": conflicts, "help": 3}},
		}
		r.look(time.Unix(1000, 0).Add(time.Duration(seconds*float64(time.Second))), s)
		return s
	}
	if s := at(0, 100, 0); s.ForwardPasses[0].Rate != nil || s.Merge.Growing != nil {
		t.Errorf("the first look tells rates: %+v", s)
	}
	if s := at(0.5, 105, 0); s.ForwardPasses[0].Rate != nil {
		t.Errorf("rate %v of half a second", *s.ForwardPasses[0].Rate)
	}
	if s := at(5, 150, 1); s.ForwardPasses[0].Rate == nil || *s.ForwardPasses[0].Rate != 10 || fmt.Sprint(s.Merge.Growing) != "[type]" {
		t.Errorf("after 5 s: %+v", s)
	}
	if s := at(10, 150, 1); *s.ForwardPasses[0].Rate != 5 {
		t.Errorf("after 10 s: %+v, want the rate since the look before the last", s)
	}
	if s := at(15, 20, 1); s.ForwardPasses[0].Rate != nil {
		t.Errorf("rate %v of a counter that fell", *s.ForwardPasses[0].Rate)
	}
	if s := at(1000, 30, 1); s.ForwardPasses[0].Rate != nil {
		t.Errorf("rate %v since a look of long ago", *s.ForwardPasses[0].Rate)
	}
}

// TestStatusPageIsBounded shows more targets than fit, the bad ones first.
func TestStatusPageIsBounded(t *testing.T) {
	list := []int{1, 2, 3, 4, 5}
	shown, more := first(list, 3, func(n *int) bool { return *n > 3 })
	if fmt.Sprint(shown, more) != "[4 5 1] 2" {
		t.Errorf("%v and %d more", shown, more)
	}
	if shown, more := first(list[:2], 3, func(*int) bool { return true }); len(shown) != 2 || more != 0 {
		t.Errorf("%v and %d more", shown, more)
	}
}

// TestProblems demands that what else is wrong is told.
func TestProblems(t *testing.T) {
	now := time.Unix(1e6, 0)
	s := &Status{
		Time:     now,
		Config:   ConfigStatus{ReloadOK: false},
		Targets:  []TargetStatus{{State: StateUp, LastScrape: now.Add(-10 * time.Minute)}, {State: StateUp, LastScrape: now.Add(-time.Hour)}},
		Rejected: []rejectedTarget{{Target: "a", Reason: "x"}},
		Merge:    MergeStatus{Growing: []string{"type"}},
		Events:   EventsStatus{Series: 10, SeriesLimit: 10},
	}
	var got []string
	for _, p := range problems(s) {
		got = append(got, p.Section)
		if p.Section == "targets" && strings.Contains(p.Text, "minutes") && !strings.Contains(p.Text, "10 minutes") {
			t.Errorf("problem %q, want the age of the youngest scrape", p.Text)
		}
	}
	if want := []string{"configuration", "targets", "targets", "merging", "events"}; !slices.Equal(got, want) {
		t.Errorf("problems of %q, want %q", got, want)
	}
	s.Config.ReloadOK, s.Targets[1].LastScrape, s.Rejected, s.Merge.Growing, s.Events.SeriesLimit = true, now.Add(-time.Minute), nil, nil, 0
	if got := problems(s); len(got) != 0 {
		t.Errorf("problems %v, want none", got)
	}
}

func TestStatusWriting(t *testing.T) {
	now := time.Unix(1e6, 0)
	for want, got := range map[string]string{
		"never": ago(now, time.Time{}), "0.0 s ago": ago(now, now.Add(time.Second)), "1.5 s ago": ago(now, now.Add(-1500*time.Millisecond)),
		"90 s ago": ago(now, now.Add(-90*time.Second)), "5 min ago": ago(now, now.Add(-5*time.Minute)), "3 h ago": ago(now, now.Add(-3*time.Hour)),
		"4 days ago": ago(now, now.Add(-96*time.Hour)), "512 B": size(512), "2.0 KiB": size(2048), "1.5 MiB": size(3 << 19),
		"999": count(999), "1\u202f000": count(int64(1000)), "12\u202f345\u202f678": count(12345678.0), "3.2 ms": seconds(0.0032), "1.0 s": seconds(1),
		"a, b": someOf([]string{"a", "b"}), "1, 2, 3, 4, 5, 6, 7, 8 and 1 more": someOf(strings.Split("123456789", "")),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := natural("10.0.0.9:1", "10.0.0.10:1"); got <= 0 {
		t.Errorf("addresses with ports compare as text: %d", got)
	}
	for _, pair := range [][2]string{{"9", "10"}, {"1.9", "1.10"}, {"2", "a"}, {"a", "b"}} {
		if natural(pair[0], pair[1]) >= 0 || natural(pair[1], pair[0]) <= 0 {
			t.Errorf("%q is not before %q", pair[0], pair[1])
		}
	}
}
