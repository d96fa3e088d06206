package collector

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Bounds of what an observation may say. A value outside them is a bug of the
// sender (wrong unit, wrong clock), and one such value would spoil the sum of a
// histogram for good.
const (
	// MaxSeconds is the longest time an observation may report: seven days.
	MaxSeconds = 7 * 24 * 3600.0
	// MaxClockSkew is how far below zero, in seconds, a difference between two
	// hosts' clocks may lie and still be taken as 0. At or beyond it the value
	// is refused.
	MaxClockSkew = 1.0
	// MaxSampleRate is the highest audio sample rate in Hz.
	MaxSampleRate = 10_000_000
	// MaxChannels is the highest number of audio channels.
	MaxChannels = 1024
	// MaxBytesPerSample is the widest audio sample in bytes.
	MaxBytesPerSample = 16
	// MaxAudioFrames is the largest number of frames of one request.
	MaxAudioFrames = int64(MaxSeconds * MaxSampleRate)
	// MaxTransferBytes is the largest size of one transfer: 1 PiB.
	MaxTransferBytes = 1 << 50
	// MaxLabelLength is the longest label value in bytes.
	MaxLabelLength = 1024
	// MaxRequestIDLength is the longest request id in bytes.
	MaxRequestIDLength = 512
	// MaxStagesPerRequest is how many stages may report audio for one request.
	MaxStagesPerRequest = 16
)

// ErrIgnored is wrapped by the errors that say an observation was understood
// and, by the rules of the families, changed nothing. No caller needs to act.
var ErrIgnored = errors.New("observation ignored")

// The ways in which an observation changes nothing; each wraps ErrIgnored.
var (
	// ErrDuplicate: the request was observed in this way before.
	ErrDuplicate = fmt.Errorf("%w: already counted for this request", ErrIgnored)
	// ErrReplicaUnknown: a replica is not resolved, so the series has no name.
	ErrReplicaUnknown = fmt.Errorf("%w: replica unknown", ErrIgnored)
	// ErrStreamUnfinished: the audio stream did not finish normally, and an
	// unfinished stream says nothing about continuity.
	ErrStreamUnfinished = fmt.Errorf("%w: stream did not finish normally", ErrIgnored)
	// ErrEmptyStream: the audio stream carried no bytes. Unmeasured is not good
	// (vllm-omni#6914), so it is no sample.
	ErrEmptyStream = fmt.Errorf("%w: stream without audio", ErrIgnored)
)

// ErrUnknownRequest is returned when an observation names no model and its
// request was not seen starting, or so long ago that it was forgotten.
var ErrUnknownRequest = errors.New("request unknown and no model_name given; send model_name, or request_started first")

// FieldError reports a field of an observation that cannot be used. Field is the
// name that the field has in an event.
type FieldError struct {
	Field   string
	Problem string
	// Missing tells a field that is absent from one with a bad value.
	Missing bool
}

// Error implements error.
func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

func missingField(field string) error {
	return &FieldError{Field: field, Problem: "required and missing", Missing: true}
}

func badField(field, format string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// checkLabel refuses text that cannot be a label value. The value itself is not
// repeated: it may be long or hostile.
func checkLabel(field, value string, maxLength int) error {
	if len(value) > maxLength {
		return badField(field, "%d bytes long, at most %d are allowed", len(value), maxLength)
	}
	if !utf8.ValidString(value) {
		return badField(field, "not valid UTF-8")
	}
	if strings.IndexByte(value, 0) >= 0 {
		return badField(field, "holds a NUL byte, which no metrics page can carry")
	}
	return nil
}

func requireLabel(field, value string) error {
	if value == "" {
		return missingField(field)
	}
	return checkLabel(field, value, MaxLabelLength)
}

// checkRange refuses what is not a finite number within [low, high].
func checkRange(field string, value, low, high float64) error {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return badField(field, "%v is not a finite number", value)
	}
	if value < low || value > high {
		return badField(field, "%v is not between %v and %v", value, low, high)
	}
	return nil
}

func checkSeconds(field string, value float64) error {
	return checkRange(field, value, 0, MaxSeconds)
}

// clampSkew is for times measured between two clocks: a little less than 0 is
// skew and becomes 0, as in vLLM-Omni; much less is refused.
func clampSkew(field string, value float64) (float64, error) {
	if value < 0 && value > -MaxClockSkew {
		return 0, nil
	}
	return value, checkSeconds(field, value)
}

// RequestRef names a request.
type RequestRef struct {
	// Pipeline is the pipeline's name, or empty for the unnamed one.
	Pipeline string
	// ID is unique among the requests of a pipeline, also those that finished
	// lately; it never becomes a label.
	ID string
	// Model is the label model_name. It may be empty for a request that was
	// seen before.
	Model string
}

func (r RequestRef) check() error {
	if r.ID == "" {
		return missingField("request_id")
	}
	if err := checkLabel("request_id", r.ID, MaxRequestIDLength); err != nil {
		return err
	}
	if err := checkLabel("pipeline", r.Pipeline, MaxLabelLength); err != nil {
		return err
	}
	return checkLabel("model_name", r.Model, MaxLabelLength)
}

// Place is where in a pipeline something happened. Replica is empty while it is
// not resolved.
type Place struct {
	Stage   string
	Replica string
}

func (p Place) check() error {
	if err := requireLabel("stage", p.Stage); err != nil {
		return err
	}
	return checkLabel("replica", p.Replica, MaxLabelLength)
}
