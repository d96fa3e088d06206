package demo

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/omni-exporter/omni_exporter/internal/config"
)

// configuration returns the exporter's configuration, read from the YAML that a
// person would write for this pipeline.
func (d *demo) configuration() (*config.Config, error) {
	var stages []map[string]any
	for _, s := range d.pipeline.Stages() {
		stages = append(stages, map[string]any{"name": s.Name, "replicas": s.Replicas})
	}
	text, err := yaml.Marshal(map[string]any{
		"pipelines": []any{map[string]any{
			"name": pipelineName, "stages": stages,
			"upstreams": []any{map[string]any{"static_configs": []any{map[string]any{"targets": d.pipeline.Upstreams()}}}},
		}},
		"forward_pass_metrics": map[string]any{
			"streams": []any{map[string]any{"static_configs": []any{map[string]any{
				"targets": d.publishers.addresses(),
				"labels": map[string]string{
					"dynamo_namespace": "demo", "dynamo_component": "backend", "pipeline": pipelineName, "stage": "0", "replica": "0",
				},
			}}}},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("configuration of the demo: %w", err)
	}
	return config.Parse("demo.yml", text)
}

// introduction says what runs and where to look.
func (d *demo) introduction() string {
	var b strings.Builder
	engines := 0
	var stages []string
	for _, s := range d.pipeline.Stages() {
		engines += s.Replicas
		stages = append(stages, fmt.Sprintf("%s x%d", s.Name, s.Replicas))
	}
	fmt.Fprintf(&b, "omni_exporter runs over a simulated pipeline: %d engines (%s), %d ranks that publish forward passes, audio traffic.\n",
		engines, strings.Join(stages, ", "), len(d.publishers))
	for _, f := range d.options.Faults {
		fmt.Fprintf(&b, "fault since now: %s\n", f)
	}
	fmt.Fprintf(&b, "\n  status page     %s/\n  metrics         %s/metrics\n", d.url, d.url)
	for _, upstream := range d.pipeline.Upstreams() {
		fmt.Fprintf(&b, "  before          http://%s/metrics\n", upstream)
	}
	fmt.Fprintf(&b, "  forward passes  omnitool fpm watch %s\n", strings.Join(d.publishers.addresses(), " "))
	fmt.Fprintf(&b, `
  curl -s %[1]s/metrics | grep ^vllm:num_requests_running
  curl -s %[1]s/metrics | grep ^vllm:omni_
  curl -s %[1]s/metrics | grep ^dynamo_fpm_
  curl -s -H 'Accept: application/openmetrics-text' %[1]s/metrics

For Prometheus:

  scrape_configs:
    - job_name: omni
      honor_labels: true
      scrape_interval: 5s
      static_configs:
        - targets: ["%[2]s"]

Ctrl-C ends it.
`, d.url, strings.TrimPrefix(d.url, "http://"))
	return b.String()
}
