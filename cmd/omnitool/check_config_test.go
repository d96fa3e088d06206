package main

import (
	"strings"
	"testing"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/exporter"
	"github.com/omni-exporter/omni_exporter/internal/fpm/stream"
)

const goodConfig = `
pipelines:
  - name: qwen
    stages: [{name: thinker}, {name: talker, replicas: 2}]
    upstreams:
      - static_configs: [{targets: ["a:1", "b:2"]}]
forward_pass_metrics:
  streams:
    - static_configs: [{targets: ["tcp://a:20380"]}]
`

const badConfig = `include: []
pipelines:
  - stages: [{replicas: 0}]
    upstream: []
`

const badMeaning = `include: []
omni_prefix: "3"
`

func TestCheckConfig(t *testing.T) {
	good, form, meaning := file(t, "good.yml", goodConfig), file(t, "form.yml", badConfig), file(t, "meaning.yml", badMeaning)
	r := omnitool(t, "", "check", "config", good)
	r.demand(t, 0, good+": valid: 1 pipeline, 3 engines, 2 targets, 1 forward-pass stream\n", "")

	// A bad file does not keep the others from being checked, and all of its faults are told.
	r = omnitool(t, "", "check", "config", form, good, meaning, "/does/not/exist.yml")
	r.demand(t, 1, good+": valid", form+":4: pipelines[0].upstream")
	for _, want := range []string{meaning + ":1: include", meaning + ":2: omni_prefix", "/does/not/exist.yml"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("errors lack %q:\n%s", want, r.err)
		}
	}
}

func TestCheckConfigJSON(t *testing.T) {
	good, bad := file(t, "good.yml", goodConfig), file(t, "bad.yml", badMeaning)
	r := omnitool(t, "", "check", "config", "--output=json", good, bad)
	r.demand(t, 1, "{", "")
	checked := decode[[]checkedConfig](t, r.out)
	if len(checked) != 2 {
		t.Fatalf("%d files, want 2", len(checked))
	}
	if c := checked[0]; !c.Valid || c.Engines != 3 || c.Targets != 2 || c.Streams != 1 || len(c.Faults) != 0 {
		t.Errorf("good file: %+v", c)
	}
	if c := checked[1]; c.Valid || len(c.Faults) != 2 || c.Faults[1].Line != 2 || c.Faults[1].Path != "omni_prefix" || c.Faults[1].Message == "" {
		t.Errorf("bad file: %+v", c)
	}
}

// TestCheckConfigStart: what only the start of the exporter would find is found.
func TestCheckConfigStart(t *testing.T) {
	path := file(t, "ca.yml", `
pipelines:
  - stages: [{}]
    upstreams:
      - static_configs: [{targets: ["a:1"]}]
        tls_config: {ca_file: missing.pem}
`)
	omnitool(t, "", "check", "config", path).demand(t, 1, "", "missing.pem")

	path = file(t, "twice.yml", `
pipelines:
  - stages: [{}]
    upstreams:
      - static_configs: [{targets: ["a:1", "b:1"]}]
        relabel_configs: [{target_label: __address__, replacement: "c:1"}]
`)
	omnitool(t, "", "check", "config", path).demand(t, 1, "", `"c:1" occurs twice`)
}

func TestCheckConfigWarnsOfPorts(t *testing.T) {
	path := file(t, "ports.yml", `
forward_pass_metrics:
  streams:
    - static_configs: [{targets: ["tcp://a:2000", "tcp://a:2002"]}]
      data_parallel_size: 2
`)
	omnitool(t, "", "check", "config", path).demand(t, 0, "2 forward-pass streams", "warning: forward-pass metrics of \"tcp://a:2002\"")

	c := checkConfig(path, stream.PortRange{First: 2001, Last: 2001})
	if len(c.Warnings) != 2 || !c.Valid {
		t.Errorf("with an ephemeral port in the block: %+v", c)
	}
}

func TestStreamBlocks(t *testing.T) {
	c, err := config.Parse("x.yml", []byte(`
forward_pass_metrics:
  streams:
    - static_configs: [{targets: ["tcp://a:1", "ipc:///run/b"]}, {targets: ["tcp://c:1"]}]
      data_parallel_size: 4
`))
	if err != nil {
		t.Fatal(err)
	}
	blocks := exporter.StreamBlocks(c)
	if len(blocks) != 3 || blocks[2] != (stream.Block{Address: "tcp://c:1", DataParallelSize: 4}) {
		t.Errorf("got %v", blocks)
	}
}
