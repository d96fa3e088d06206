// Package trace reads and writes forward-pass traces: files of dynamo.fpm.trace.v1 rows, one JSON object a line, in
// gzip members that are each complete. It follows the "File and Retention Semantics" and "Record Schema" of Dynamo's
// FPM reference.
//
// A [Follower] reads files as they grow and turn over, [Read] those that are done, a [Writer] makes them. The package
// knows nothing of Prometheus.
package trace
