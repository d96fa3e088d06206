// Package relabel turns the page of one vLLM server into the page that leaves
// the exporter: the flat `engine` label becomes `stage` and `replica`, names are
// brought to one spelling, labels are sorted, and what is not wanted is left out.
//
// Rules hold what the configuration says for one target. A Target applies them
// to that target's pages, one after the other: the first page is taken apart line
// by line (rewrite.go), and each later one is compared with its predecessor, so
// that only what changed is looked at (linecache.go).
package relabel
