package collector_test

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/omni-exporter/omni_exporter/collector"
)

// An orchestrator written in Go observes its requests without HTTP in between.
func Example() {
	requests := collector.NewRequestTable(collector.RequestTableOptions{})
	options := collector.OmniOptions{
		Budget:   collector.NewSeriesBudget(collector.DefaultMaxSeries),
		Requests: requests,
	}
	pipeline, err := collector.NewPipelineCollector(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(requests, pipeline)

	r := collector.RequestRef{ID: "r1", Model: "m"}
	for _, err := range []error{
		pipeline.RequestStarted(r),
		pipeline.RequestScheduled(r),
		pipeline.RequestSucceeded(r, 2.41, "stop"),
		pipeline.RequestFailed(r), // changes nothing: the request has ended
		pipeline.RequestSucceeded(collector.RequestRef{ID: "r2", Model: "m"}, -1, "stop"),
	} {
		fmt.Println(err, errors.Is(err, collector.ErrIgnored))
	}
	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range families {
		fmt.Println(f.GetName())
	}
	// Output:
	// <nil> false
	// <nil> false
	// <nil> false
	// observation ignored: already counted for this request true
	// e2e_s: -1 is not between 0 and 604800 false
	// omni_exporter_events_expired_requests_total
	// omni_exporter_events_tracked_requests
	// vllm:omni_e2e_request_latency_s
	// vllm:omni_num_requests_running
	// vllm:omni_num_requests_waiting
	// vllm:omni_requests_success_total
}
