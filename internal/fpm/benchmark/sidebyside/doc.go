// Package sidebyside shows that the queries of docs/benchmark.md put live forward passes and a benchmark's wall times beside
// each other. It has a package of its own because its test needs Prometheus's query engine.
package sidebyside
