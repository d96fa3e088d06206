//go:build integration

package integration

import (
	"fmt"
	"slices"
	"testing"
)

// fivePlaces is the flat map of one, two and two replicas.
const fivePlaces = "0=0/0,1=1/0,2=1/1,3=2/0,4=2/1"

// formats are those that both sides can speak.
func formats() map[string]string {
	return map[string]string{"text": acceptText, "openmetrics": acceptOpenMetrics}
}

// TestPageEqualsUpstream demands that every series of an upstream leaves once, mapped, with its value spelled as it came,
// and nothing else does.
func TestPageEqualsUpstream(t *testing.T) {
	upstreams := map[string]struct{ page, manner []string }{
		"negotiating":         {page: []string{"--omni"}},
		"current omni prefix": {page: []string{"--omni=vllm_omni:"}},
		"openmetrics only":    {page: []string{"--omni"}, manner: []string{"--openmetrics"}}, // as vLLM's Rust front end
	}
	for name, args := range upstreams {
		t.Run(name, func(t *testing.T) {
			page := append([]string{"--engines=5", "--seed=7"}, args.page...)
			upstream := startPeer(t, slices.Concat(page, args.manner)...)
			// The same page by a peer that speaks both formats, to compare with.
			twin := startPeer(t, page...)
			_, exporter := startExporter(t, "--upstream="+upstream, "--stages=1,2,2", "--web.disable-exporter-metrics")
			for format, accept := range formats() {
				t.Run(format, func(t *testing.T) {
					want := upstreamPage{page: get(t, "http://"+twin+"/page", accept), places: fivePlaces}
					compare(t, get(t, exporter+"/metrics", accept), want)
				})
			}
		})
	}
}

// TestTwoServersOfOneStage puts two servers with two engines each into one stage, one of them without the text format.
func TestTwoServersOfOneStage(t *testing.T) {
	first := startPeer(t, "--engines=2", "--seed=1")
	second := startPeer(t, "--engines=2", "--seed=2", "--openmetrics")
	secondTwin := startPeer(t, "--engines=2", "--seed=2")
	config := writeConfig(t, fmt.Sprintf(`
pipelines:
  - stages: [{name: decode, replicas: 4}]
    upstreams:
      - stage: "0"
        data_parallel_size: 2
        static_configs: [{targets: [%q, %q]}]
`, first, second))
	_, exporter := startExporter(t, "--config.file="+config, "--web.disable-exporter-metrics")
	for format, accept := range formats() {
		t.Run(format, func(t *testing.T) {
			compare(t, get(t, exporter+"/metrics", accept),
				upstreamPage{page: get(t, "http://"+first+"/page", accept), places: "0=0/0,1=0/1,*=0/0"},
				upstreamPage{page: get(t, "http://"+secondTwin+"/page", accept), places: "0=0/2,1=0/3,*=0/2"})
		})
	}
}
