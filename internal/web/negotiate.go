package web

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
	"github.com/omni-exporter/omni_exporter/internal/scrape"
)

// form is how an answer is to be written.
type form struct {
	format   exposition.Format
	version  string // of the text format
	utf8     bool   // names that need quotes are written so
	encoding scrape.Encoding
}

// contentType returns the form's Content-Type header.
func (f form) contentType() string {
	t := "text/plain; version=" + f.version + "; charset=utf-8"
	if f.format == exposition.OpenMetrics {
		t = "application/openmetrics-text; version=1.0.0; charset=utf-8"
	}
	if f.utf8 {
		t += "; escaping=allow-utf-8"
	}
	return t
}

// negotiate chooses the form that a request asks for; a request that asks for
// nothing that can be written gets text 0.0.4. Protobuf is not offered.
func negotiate(h http.Header) form {
	f := form{format: exposition.Text, version: "0.0.4", encoding: acceptedEncoding(headerList(h, "Accept-Encoding"))}
	best := 0.0 // a range of weight 0 is refused
	for _, a := range goautoneg.ParseAccept(headerList(h, "Accept")) {
		if a.Q <= best {
			continue
		}
		format, version := exposition.Text, "0.0.4"
		switch asked := a.Params["version"]; {
		case a.Type == "application" && a.SubType == "openmetrics-text" && (asked == "" || asked == "1.0.0" || asked == "0.0.1"):
			format = exposition.OpenMetrics
		case a.Type == "text" && a.SubType == "plain" && (asked == "" || asked == "0.0.4"):
		case a.Type == "text" && a.SubType == "plain" && asked == "1.0.0":
			version = asked
		case a.SubType == "*" && (a.Type == "*" || a.Type == "text"):
		default:
			continue
		}
		best = a.Q
		f.format, f.version, f.utf8 = format, version, a.Params["escaping"] == "allow-utf-8"
	}
	return f
}

// headerList returns a header that is a list, which may be spread over several lines.
func headerList(h http.Header, name string) string { return strings.Join(h.Values(name), ",") }

// acceptedEncoding returns the compression that a request prefers; of equals, the
// one that makes the page smaller.
func acceptedEncoding(header string) scrape.Encoding {
	best, bestQuality := scrape.Identity, 0.0
	for _, offer := range []scrape.Encoding{scrape.Zstd, scrape.Gzip, scrape.Identity} {
		if q := quality(header, string(offer)); q > bestQuality {
			best, bestQuality = offer, q
		}
	}
	return best
}

// quality returns the weight of a coding in an Accept-Encoding header (RFC 9110,
// 12.5.3), 0 for one that is not accepted.
func quality(header, coding string) float64 {
	found := 0.0
	for part := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(part, ";")
		name = strings.TrimSpace(name)
		if !strings.EqualFold(name, coding) && name != "*" {
			continue
		}
		q := 1.0
		if value, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(params)), "q="); ok {
			parsed, err := strconv.ParseFloat(value, 64)
			if err != nil || parsed < 0 || parsed > 1 {
				continue
			}
			q = parsed
		}
		if name != "*" {
			return q
		}
		found = q
	}
	return found
}
