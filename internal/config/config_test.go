package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/units"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	commoncfg "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/relabel"
)

// compare compares what was configured: regular expressions by their text, secrets not at all.
func compare() cmp.Options {
	return cmp.Options{
		cmp.Comparer(func(a, b relabel.Regexp) bool { return a.String() == b.String() }),
		cmp.Comparer(func(a, b commoncfg.Secret) bool { return (a == "") == (b == "") }),
		cmp.Comparer(func(a, b commoncfg.URL) bool { return a.Redacted() == b.Redacted() }),
		cmpopts.IgnoreUnexported(commoncfg.ProxyConfig{}),
	}
}

func parse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("test.yml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNothingWrittenIsTheDefault(t *testing.T) {
	want := DefaultConfig()
	for _, text := range []string{"", "# a comment\n", "---\n", "~", "global:\npipelines:\nevents:\nforward_pass_metrics:\n", "{}"} {
		if diff := cmp.Diff(&want, parse(t, text), compare()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestLoadExample(t *testing.T) {
	c, err := Load("../../examples/omni_exporter.yml")
	if err != nil {
		t.Fatal(err)
	}
	p := c.Pipelines[0]
	if got := p.Name; got != "qwen3-omni" {
		t.Errorf("name %q", got)
	}
	if diff := cmp.Diff([]int{1, 2, 2}, p.Replicas()); diff != "" {
		t.Error(diff)
	}
	if got := p.Engines(); got != 5 {
		t.Errorf("engines: %d, want 5", got)
	}
	if got := p.StageLabel(1); got != "1" {
		t.Errorf("label of stage 1: %q", got)
	}
	if got := p.StageName(1); got != "talker" {
		t.Errorf("name of stage 1: %q", got)
	}
	unnamed := Pipeline{Stages: []Stage{{}, {Stage: "x"}}}
	if a, b := unnamed.StageName(0), unnamed.StageName(1); a != "0" || b != "x" {
		t.Errorf("names of stages without one: %q, %q", a, b)
	}
}

func TestExamplesLoad(t *testing.T) {
	files, err := filepath.Glob("../../examples/omni_exporter*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		if _, err := Load(file); err != nil {
			t.Error(err)
		}
	}
}

// What is printed must say all that was read, so that a printed configuration can be kept and loaded.
func TestRoundTrip(t *testing.T) {
	files, err := filepath.Glob("testdata/good-*.yml")
	if err != nil || len(files) < 5 {
		t.Fatalf("too few files: %v %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			first, err := Parse("good.yml", data)
			if err != nil {
				t.Fatal(err)
			}
			second, err := Parse("printed.yml", []byte(first.String()))
			if err != nil {
				t.Fatalf("%v\nof:\n%s", err, first)
			}
			if diff := cmp.Diff(first, second, compare()); diff != "" {
				t.Errorf("(-read +printed and read):\n%s", diff)
			}
			if first.String() != second.String() {
				t.Errorf("printed twice differs:\n%s\n%s", first, second)
			}
		})
	}
}

func TestUpstreamInheritsWhatItDoesNotWrite(t *testing.T) {
	c := parse(t, `
global: {scrape_timeout: 5s, min_scrape_interval: 2s, body_size_limit: 1MB, sample_limit: 10, label_limit: 11, label_name_length_limit: 12, label_value_length_limit: 13}
pipelines:
  - stages: [{}]
    upstreams:
      - static_configs: [{targets: ["a:1"]}]
      - &all
        scrape_timeout: 1s
        min_scrape_interval: 0s
        body_size_limit: 0
        sample_limit: 0
        label_limit: 1
        label_name_length_limit: 2
        label_value_length_limit: 3
        static_configs: [{targets: ["b:1"]}]
      - <<: *all
        label_limit: 99
        sample_limit:
        static_configs: [{targets: ["c:1"]}]
`)
	up := c.Pipelines[0].Upstreams
	if diff := cmp.Diff(c.Global, up[0].ScrapeOptions); diff != "" {
		t.Errorf("nothing written (-global +upstream):\n%s", diff)
	}
	own := ScrapeOptions{ScrapeTimeout: model.Duration(time.Second), LabelLimit: 1, LabelNameLengthLimit: 2, LabelValueLengthLimit: 3}
	if diff := cmp.Diff(own, up[1].ScrapeOptions); diff != "" {
		t.Errorf("all written (-want +got):\n%s", diff)
	}
	own.LabelLimit = 99
	if diff := cmp.Diff(own, up[2].ScrapeOptions); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
}

func TestRelativePathsAreOfTheFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "omni_exporter.yml")
	text := `
pipelines:
  - stages: [{}]
    upstreams:
      - static_configs: [{targets: ["a:1"]}]
        basic_auth: {username: u, password_file: pw}
        tls_config: {ca_file: tls/ca.pem}
        http_headers: {X-Key: {files: [key]}}
forward_pass_metrics:
  trace_files: ["traces/*.gz", "/abs/*.gz"]
  benchmark_artifacts: ["*.json"]
  capture: {output_path: out/fpm}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	client := c.Pipelines[0].Upstreams[0].HTTPClient
	got := []string{
		client.BasicAuth.PasswordFile, client.TLSConfig.CAFile, client.HTTPHeaders.Headers["X-Key"].Files[0],
		c.ForwardPassMetrics.TraceFiles[0], c.ForwardPassMetrics.BenchmarkArtifacts[0], c.ForwardPassMetrics.Capture.OutputPath,
	}
	want := []string{"pw", "tls/ca.pem", "key", "traces/*.gz", "*.json", "out/fpm"}
	for i := range want {
		want[i] = filepath.Join(dir, want[i])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := c.ForwardPassMetrics.TraceFiles[1]; got != "/abs/*.gz" {
		t.Errorf("absolute path became %q", got)
	}
}

func TestLoadMissingFile(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yml"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// A secret may stand in its place, or anywhere near it by mistake. Neither print nor error shows it.
func TestSecretsDoNotShow(t *testing.T) {
	const hidden = "hunter2"
	upstream := func(options string) string {
		return "pipelines:\n  - stages: [{}]\n    upstreams:\n      - static_configs: [{targets: [\"a:1\"]}]\n        " + options + "\n"
	}
	for name, options := range map[string]string{
		"password":            `basic_auth: {username: u, password: hunter2}`,
		"credentials":         `authorization: {credentials: hunter2}`,
		"bearer token":        `bearer_token: hunter2`,
		"client secret":       `oauth2: {client_id: c, client_secret: hunter2, token_url: "http://x"}`,
		"header":              `http_headers: {X-Key: {secrets: [hunter2]}}`,
		"proxy":               `proxy_url: "http://u:hunter2@proxy:80"`,
		"key":                 `tls_config: {cert: c, key: hunter2}`,
		"list":                `basic_auth: {password: [hunter2]}`,
		"mapping":             `basic_auth: {password: {a: hunter2}}`,
		"no mapping":          `basic_auth: hunter2`,
		"no mapping either":   `authorization: "Bearer hunter2"`,
		"bad proxy":           `proxy_url: "http://u:hunter2@proxy:port"`,
		"both":                `{basic_auth: {password: hunter2}, bearer_token: hunter2}`,
		"password twice":      `basic_auth: {password: hunter2, password: hunter2}`,
		"password and file":   `basic_auth: {password: hunter2, password_file: x}`,
		"binary":              `basic_auth: {password: !!binary hunter2}`,
		"number":              `basic_auth: {password: !!int hunter2}`,
		"target with user":    `static_configs: [{targets: ["u:hunter2@b:1"]}]`,
		"target with URL":     `static_configs: [{targets: ["http://u:hunter2@b:1"]}]`,
		"target with half":    `static_configs: [{targets: ["http://hunter2@b"]}]`,
		"header no mapping":   `http_headers: {X-Key: hunter2}`,
		"header no list":      `http_headers: {X-Key: {secrets: hunter2}}`,
		"broken YAML":         `basic_auth: {password: "hunter2}`,
		"secret as alias":     `basic_auth: {password: *hunter2x}`,
		"claims":              `oauth2: {client_id: c, token_url: t, client_secret: hunter2, claims: {a: 1, a: hunter2}}`,
		"proxy header values": `proxy_connect_header: {X-A: hunter2}`,
	} {
		t.Run(name, func(t *testing.T) {
			shown := ""
			c, err := Parse("test.yml", []byte(upstream(options)))
			if err != nil {
				shown = err.Error()
			} else {
				shown = c.String()
			}
			if name != "secret as alias" && strings.Contains(shown, hidden) {
				t.Errorf("shows the secret:\n%s", shown)
			}
			if err == nil && !strings.Contains(shown, "<secret>") && !strings.Contains(shown, "xxxxx") {
				t.Errorf("shows no place holder:\n%s", shown)
			}
		})
	}
	if _, err := FromFlags(FlagConfig{Upstreams: []string{"u:hunter2@b:1"}, FPM: []string{"tcp://u:hunter2@b:1", "u:hunter2@b"}}); err == nil || strings.Contains(err.Error(), hidden) {
		t.Errorf("flags: %v", err)
	}
}

func TestGlobsMatch(t *testing.T) {
	g := DefaultConfig().Include
	for name, want := range map[string]bool{
		"vllm:num_requests_running": true, "vllm_omni:audio_ttfp_s": true, "vllm": false, "python_info": false, "xvllm:a": false,
	} {
		if got := g.Match(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestPlace(t *testing.T) {
	u := Upstream{Stage: "1"}
	if s, r := u.Place(StaticConfig{Labels: map[string]string{"replica": "2"}}); s != "1" || r != "2" {
		t.Errorf("stage of the upstream, replica of the labels: got %q, %q", s, r)
	}
	if s, r := new(Upstream).Place(StaticConfig{}); s != "" || r != "" {
		t.Errorf("nothing said: got %q, %q", s, r)
	}
}

func TestFromFlags(t *testing.T) {
	c, err := FromFlags(FlagConfig{Upstreams: []string{"127.0.0.1:8000", "[::1]:8000"}, Stages: "1, 2,2", FPM: []string{"tcp://127.0.0.1:20380", "ipc:///run/fpm"}})
	if err != nil {
		t.Fatal(err)
	}
	want := parse(t, `
pipelines:
  - stages: [{}, {replicas: 2}, {replicas: 2}]
    upstreams: [{static_configs: [{targets: ["127.0.0.1:8000", "[::1]:8000"]}]}]
forward_pass_metrics:
  streams:
    - static_configs: [{targets: ["tcp://127.0.0.1:20380"]}]
    - static_configs: [{targets: ["ipc:///run/fpm"]}]
`)
	if diff := cmp.Diff(want, c, compare()); diff != "" {
		t.Errorf("(-file +flags):\n%s", diff)
	}

	c, err = FromFlags(FlagConfig{Upstreams: []string{"127.0.0.1:8000"}})
	if err != nil || c.Pipelines[0].Engines() != 1 {
		t.Errorf("one upstream alone: %v %v", c, err)
	}
	c, err = FromFlags(FlagConfig{})
	if want := DefaultConfig(); err != nil || !cmp.Equal(&want, c, compare()) {
		t.Errorf("no flags: %v %v", c, err)
	}
}

func TestFromFlagsNamesTheFlag(t *testing.T) {
	for _, tc := range []struct {
		flags FlagConfig
		want  string
	}{
		{FlagConfig{Upstreams: []string{"http://a:1"}}, `--upstream: "http://a:1" holds a scheme: write host:port, such as "10.0.0.5:8000", and put http or https under scheme`},
		{FlagConfig{Upstreams: []string{"a:1", "a:1"}, Stages: "1"}, `--upstream: "a:1" is already scraped by another --upstream: a pipeline scrapes a target once, remove one of the two`},
		{FlagConfig{Upstreams: []string{"a:1", "b:1"}}, `--stages: required when there is more than one --upstream: write the replicas of each stage in order, such as --stages=1,2,2`},
		{FlagConfig{Upstreams: []string{"a:1"}, Stages: "1,x"}, `--stages: "x" is no whole number: write the replicas of each stage in order, such as --stages=1,2,2`},
		{FlagConfig{Upstreams: []string{"a:1"}, Stages: "1,0"}, `--stages: must be at least 1, found 0: remove the stage if nothing runs it`},
		{FlagConfig{FPM: []string{"127.0.0.1:20380"}}, `--fpm: "127.0.0.1:20380" is no address of a publisher: write "tcp://host:port" or "ipc:///path"`},
		{FlagConfig{FPM: []string{"tcp://a:1", "tcp://a:1"}}, `--fpm: rank 0, at "tcp://a:1", is already read by another --fpm: keep one of the two`},
	} {
		_, err := FromFlags(tc.flags)
		if err == nil || err.Error() != tc.want {
			t.Errorf("%+v:\n got %v\nwant %s", tc.flags, err, tc.want)
		}
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("%T is no *Error", err)
		}
	}
}

func TestDefaultsAreFresh(t *testing.T) {
	a := DefaultConfig()
	a.Include[0], a.Events.ContinuityThresholdsMS[0] = "x", 1
	if b := DefaultConfig(); b.Include[0] == "x" || b.Events.ContinuityThresholdsMS[0] == 1 {
		t.Error("defaults share memory")
	}
	if got := DefaultConfig().Global.BodySizeLimit; got != 32*units.MiB {
		t.Errorf("body_size_limit %v", got)
	}
}
