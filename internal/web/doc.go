// Package web answers the exporter's HTTP requests: the merged page, the landing
// page, health and readiness. It puts together what the other packages know: the
// targets' pages of internal/scrape and the exporter's own families.
package web
