package exposition

import (
	"fmt"
	"mime"
	"strings"
)

// Format is one of the two wire formats that are understood and written.
type Format uint8

const (
	// Text is the classic text format, versions 0.0.4 and 1.0.0.
	Text Format = iota
	// OpenMetrics is OpenMetrics text 1.0.
	OpenMetrics
)

// String returns the format's name for messages.
func (f Format) String() string {
	if f == OpenMetrics {
		return "OpenMetrics"
	}
	return "text"
}

// ContentTypeError says that a page's Content-Type is none that can be read.
type ContentTypeError struct {
	ContentType string
}

// Error names the type and what the server should send instead.
func (e *ContentTypeError) Error() string {
	if e.ContentType == "" {
		return "no Content-Type header: the server must send text/plain or application/openmetrics-text"
	}
	return fmt.Sprintf("unusable Content-Type %q: the server must send text/plain or application/openmetrics-text", e.ContentType)
}

// FormatOf returns the format that a Content-Type header announces. The header
// alone decides, never the body: reading OpenMetrics as text turns `_created`
// timestamps into samples (KServe #2622, GPUStack #6207). The protobuf format
// is refused like every other type.
func FormatOf(contentType string) (Format, error) {
	mediaType, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return Text, &ContentTypeError{ContentType: contentType}
	}
	version := params["version"]
	switch strings.ToLower(mediaType) {
	case "text/plain":
		if version == "" || version == "0.0.4" || version == "1.0.0" {
			return Text, nil
		}
	case "application/openmetrics-text":
		if version == "" || version == "0.0.1" || version == "1.0.0" {
			return OpenMetrics, nil
		}
	}
	return Text, &ContentTypeError{ContentType: contentType}
}
