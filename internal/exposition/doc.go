// Package exposition reads, merges and writes metric pages without building a
// data model of them: bytes in, bytes out.
//
// A page is scanned line by line (Scanner), each kept series line is handed to a
// Builder as its rewritten prefix, and the result is a Page: the rewritten lines
// of one target, cut into families. A Merger puts the pages of many targets
// together into one Merged page with every family once, which renders as text
// 0.0.4/1.0.0 or as OpenMetrics 1.0. Values are checked but never parsed into
// floats and never reformatted: a relayed value keeps its bytes.
//
// The package knows nothing of vLLM, does no I/O and logs nothing.
package exposition
