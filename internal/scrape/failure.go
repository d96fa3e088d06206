package scrape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// Reason says why a scrape failed. The set is closed: it is a label of
// omni_exporter_target_scrape_failures_total.
type Reason string

// The reasons.
const (
	ReasonConnect     Reason = "connect"
	ReasonTimeout     Reason = "timeout"
	ReasonStatus      Reason = "status"
	ReasonContentType Reason = "content_type"
	ReasonBodySize    Reason = "body_size"
	ReasonSampleLimit Reason = "sample_limit"
	ReasonLabelLimit  Reason = "label_limit"
	ReasonParse       Reason = "parse"
	ReasonTruncated   Reason = "truncated"
	ReasonEmpty       Reason = "empty"
)

// Reasons returns every reason, in a fixed order.
func Reasons() []Reason {
	return []Reason{
		ReasonConnect, ReasonTimeout, ReasonStatus, ReasonContentType, ReasonBodySize,
		ReasonSampleLimit, ReasonLabelLimit, ReasonParse, ReasonTruncated, ReasonEmpty,
	}
}

// Failure is a scrape that failed.
type Failure struct {
	Reason Reason
	Err    error
}

// Error returns the cause, for people. It may repeat quoted parts of what the
// target sent.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

func failed(reason Reason, err error) *Failure { return &Failure{Reason: reason, Err: err} }

// requestFailure classifies an error of the request itself.
func requestFailure(ctx context.Context, err error) *Failure {
	if isTimeout(ctx, err) {
		return failed(ReasonTimeout, errors.New("no answer within the scrape timeout"))
	}
	return failed(ReasonConnect, err)
}

// bodyFailure classifies an error met while reading the body.
func bodyFailure(ctx context.Context, err error) *Failure {
	var corrupt flate.CorruptInputError
	switch {
	case isTimeout(ctx, err):
		return failed(ReasonTimeout, errors.New("page not complete within the scrape timeout"))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return failed(ReasonTruncated, errors.New("connection closed before the page was complete"))
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		return failed(ReasonParse, fmt.Errorf("page is not the gzip that its Content-Encoding announces: %w", err))
	}
	return failed(ReasonTruncated, err)
}

// pageFailure classifies an error found in the page.
func pageFailure(err error) *Failure {
	switch {
	case errors.Is(err, exposition.ErrTruncated):
		return failed(ReasonTruncated, err)
	case errors.Is(err, exposition.ErrSampleLimit):
		return failed(ReasonSampleLimit, err)
	case errors.Is(err, exposition.ErrLabelLimit):
		return failed(ReasonLabelLimit, err)
	}
	return failed(ReasonParse, err)
}

// isTimeout reports whether a scrape whose context is ctx failed with err because
// its time was up.
func isTimeout(ctx context.Context, err error) bool {
	var timeout net.Error
	return errors.Is(context.Cause(ctx), context.DeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &timeout) && timeout.Timeout()
}
