package web

import (
	"net/http"
	"testing"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
	"github.com/omni-exporter/omni_exporter/internal/scrape"
)

const (
	// What Prometheus sends: Debian's 2.42, and the 3.x with UTF-8 names.
	prometheus2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
	prometheus3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5," +
		"text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
	prometheus3Protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7," + prometheus3
	prometheus3Text     = "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.4"
	prometheus3Legacy   = "application/openmetrics-text;version=1.0.0;escaping=underscores;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
	victoriaMetrics     = "text/plain;version=0.0.4;q=1,*/*;q=0.1"
	firefox             = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	chrome              = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7"
)

func TestNegotiateFormat(t *testing.T) {
	const (
		text        = "text/plain; version=0.0.4; charset=utf-8"
		text1       = "text/plain; version=1.0.0; charset=utf-8"
		openMetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8"
		utf8        = "; escaping=allow-utf-8"
	)
	for accept, want := range map[string]string{
		"":                  text,
		"*/*":               text, // curl
		"text/*":            text,
		prometheus2:         openMetrics,
		prometheus3:         openMetrics + utf8,
		prometheus3Protobuf: openMetrics + utf8,
		prometheus3Text:     text1 + utf8,
		prometheus3Legacy:   openMetrics,
		victoriaMetrics:     text,
		firefox:             text,
		chrome:              text,

		"application/openmetrics-text":                                        openMetrics,
		"application/openmetrics-text;version=0.0.1":                          openMetrics,
		"application/openmetrics-text; version=1.0.0; charset=utf-8":          openMetrics,
		"application/openmetrics-text;version=2.0.0":                          text, // not known here
		"application/openmetrics-text;version=2.0.0,text/plain;version=1.0.0": text1,
		"text/plain": text,
		"text/plain;version=0.0.4;escaping=allow-utf-8":                   text + utf8,
		"text/plain;version=0.0.5":                                        text,
		"text/plain;q=0.5,application/openmetrics-text":                   openMetrics,
		"application/openmetrics-text;q=0.5,text/plain":                   text,
		"application/openmetrics-text;q=0,*/*":                            text,
		"application/openmetrics-text;q=0":                                text,
		"text/plain;version=1.0.0;q=0,application/openmetrics-text;q=0.1": openMetrics,
		"*/*;q=0.1,application/openmetrics-text;version=1.0.0;q=0.2":      openMetrics,
		"application/vnd.google.protobuf;proto=x;encoding=delimited":      text,
		"image/png":                           text,
		"application/openmetrics-text;q=much": text,
		";;;,,/=":                             text,
		"application/openmetrics-text;version=1.0.0;escaping=values":             openMetrics,
		"text/plain;version=0.0.4;q=0.2, application/openmetrics-text ; q=0.4, ": openMetrics,
	} {
		h := http.Header{}
		if accept != "" {
			h.Set("Accept", accept)
		}
		if got := negotiate(h).contentType(); got != want {
			t.Errorf("Accept %q gets %q, want %q", accept, got, want)
		}
	}
}

func TestNegotiateOverSeveralHeaders(t *testing.T) {
	h := http.Header{
		"Accept":          {"text/plain;q=0.5", "application/openmetrics-text"},
		"Accept-Encoding": {"gzip;q=0.5", "zstd"},
	}
	if got := negotiate(h); got.format != exposition.OpenMetrics || got.encoding != scrape.Zstd {
		t.Errorf("got %+v, want OpenMetrics in zstd", got)
	}
}

func TestNegotiateEncoding(t *testing.T) {
	for header, want := range map[string]scrape.Encoding{
		"":                              scrape.Identity,
		"identity":                      scrape.Identity,
		"gzip":                          scrape.Gzip, // Prometheus
		"zstd,gzip":                     scrape.Zstd, // Prometheus with zstd
		"gzip, deflate, br, zstd":       scrape.Zstd, // browsers
		"gzip, deflate, br":             scrape.Gzip,
		"deflate, br":                   scrape.Identity,
		"gzip;q=0":                      scrape.Identity,
		"gzip;q=0, zstd;q=0":            scrape.Identity,
		"gzip;q=1.0, zstd;q=0.5":        scrape.Gzip,
		"gzip; q=0.5 , zstd;Q=0.2":      scrape.Gzip,
		"GZIP":                          scrape.Gzip,
		"*":                             scrape.Zstd,
		"*;q=0":                         scrape.Identity,
		"zstd;q=0, *":                   scrape.Gzip,
		"*, zstd;q=0":                   scrape.Gzip,
		"gzip;q=0.2, *;q=0.1":           scrape.Gzip,
		"identity, gzip;q=0.5":          scrape.Identity, // compressed only if it must be
		"identity;q=0.5, gzip":          scrape.Gzip,
		"identity;q=0.5, gzip;q=0.5":    scrape.Gzip,
		"gzip;q=2":                      scrape.Identity, // no weight
		"gzip;q=x":                      scrape.Identity,
		"gzip;q=-1":                     scrape.Identity,
		"gzip;q=NaN":                    scrape.Identity,
		"xgzip":                         scrape.Identity,
		",;, ;q=1,":                     scrape.Identity,
		"compress;q=0.5, gzip;q=1.0000": scrape.Gzip,
	} {
		if got := acceptedEncoding(header); got != want {
			t.Errorf("Accept-Encoding %q gets %s, want %s", header, got, want)
		}
	}
}
