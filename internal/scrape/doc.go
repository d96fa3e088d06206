// Package scrape asks the upstreams for their pages: every target at once, each
// with its own deadline, never twice at a time and never twice within an
// interval. A page counts only if it is whole; a target that fails costs the
// merged page its own series and nothing else.
//
// A Pool holds the targets of one version of the configuration. Callers that
// overlap share one Run.
package scrape
