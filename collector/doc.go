// Package collector holds what the exporter measures itself, as
// prometheus.Collectors that know nothing of HTTP and keep no state outside
// their values, so that an orchestrator written in Go can use them directly.
//
// The omni families of a multi-stage pipeline are computed from observations:
// PipelineCollector (requests and end-to-end latency), AudioCollector (time to
// first packet, real-time factor, continuity, silent loss) and
// TransferCollector (hops between stages). Together they have the fifteen
// families of vLLM-Omni's metrics design with its names, labels, units and
// buckets. Collectors that belong together share a SeriesBudget, which bounds
// their label sets, and a RequestTable, which bounds what is remembered of
// requests:
//
//	requests := collector.NewRequestTable(collector.RequestTableOptions{})
//	options := collector.OmniOptions{
//		Budget:   collector.NewSeriesBudget(collector.DefaultMaxSeries),
//		Requests: requests,
//	}
//	pipeline, err := collector.NewPipelineCollector(options)
//	...
//	registry.MustRegister(requests, pipeline)
//	err = pipeline.RequestStarted(collector.RequestRef{ID: "r1", Model: "m"})
//
// An observation never panics. Its error is nil when it was recorded, wraps
// ErrIgnored when the rules of the families leave it out, and otherwise says
// what is wrong; then nothing of the observation was recorded.
//
// The other collectors of the package show forward passes of Dynamo workers and
// the health of what the exporter scrapes.
package collector
