package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"unicode/utf8"
)

// The types of event, version 1.
const (
	typeRequestStarted      = "request_started"
	typeRequestScheduled    = "request_scheduled"
	typeRequestFinished     = "request_finished"
	typeRequestFailed       = "request_failed"
	typeAudioFirstPacket    = "audio_first_packet"
	typeAudioFinished       = "audio_finished"
	typeAudioStreamFinished = "audio_stream_finished"
	typeTransferTx          = "transfer_tx"
	typeTransferRx          = "transfer_rx"
)

// Types returns the types of event, version 1.
func Types() []string {
	return []string{
		typeRequestStarted, typeRequestScheduled, typeRequestFinished, typeRequestFailed,
		typeAudioFirstPacket, typeAudioFinished, typeAudioStreamFinished,
		typeTransferTx, typeTransferRx,
	}
}

// event is one line. Numbers that are absent or null are NaN. Fields that no
// type has are passed over, so that a newer client can talk to an older
// exporter.
type event struct {
	Type      string `json:"type"`
	Pipeline  string `json:"pipeline"`
	RequestID string `json:"request_id"`
	Model     string `json:"model_name"`
	Stage     string `json:"stage"`
	Replica   string `json:"replica"`

	FinishedReason string  `json:"finished_reason"`
	E2E            float64 `json:"e2e_s"`

	TTFP       float64 `json:"ttfp_s"`
	Frames     float64 `json:"audio_frames"`
	Generation float64 `json:"stage_gen_time_s"`
	Reason     *string `json:"reason"`

	// The keys under which a sample rate may stand, first to last.
	OutputSampleRate rate `json:"output_sample_rate"`
	AudioSampleRate  rate `json:"audio_sample_rate"`
	SampleRate       rate `json:"sample_rate"`
	SamplingRate     rate `json:"sampling_rate"`
	SR               rate `json:"sr"`

	Channels       float64 `json:"channels"`
	BytesPerSample float64 `json:"bytes_per_sample"`
	Arrivals       numbers `json:"arrivals_s"`
	ChunkBytes     numbers `json:"chunk_bytes"`

	FromStage   string  `json:"from_stage"`
	FromReplica string  `json:"from_replica"`
	ToStage     string  `json:"to_stage"`
	ToReplica   string  `json:"to_replica"`
	SizeBytes   float64 `json:"size_bytes"`
	TxMS        float64 `json:"tx_ms"`
	RxMS        float64 `json:"rx_ms"`
	InFlightMS  float64 `json:"in_flight_ms"`
}

// reset empties an event for the next line.
func (e *event) reset() {
	nan := math.NaN()
	*e = event{
		E2E: nan, TTFP: nan, Frames: nan, Generation: nan, Channels: nan, BytesPerSample: nan,
		SizeBytes: nan, TxMS: nan, RxMS: nan, InFlightMS: nan,
	}
}

// rate is a sample rate in Hz as models state it: a number or the text of a
// whole number; 0 for anything else, which leaves the word to the next key.
type rate int

// UnmarshalJSON implements json.Unmarshaler. It returns no error.
func (r *rate) UnmarshalJSON(raw []byte) error {
	*r = 0
	if text, err := strconv.Unquote(string(raw)); err == nil {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			*r = rate(n)
		}
		return nil
	}
	if f, err := strconv.ParseFloat(string(raw), 64); err == nil {
		*r = rate(min(max(f, 0), math.MaxInt32)) // an absurd rate stays absurd
	}
	return nil
}

var errNotNumbers = errors.New("arrivals_s and chunk_bytes are lists of numbers")

// numbers is a list of numbers, nil when absent or null. Unlike a plain
// []float64 it takes no null for a number.
type numbers []float64

// UnmarshalJSON implements json.Unmarshaler. raw is valid JSON, so that a list
// of numbers has no comma but between them.
func (n *numbers) UnmarshalJSON(raw []byte) error {
	*n = nil
	if string(raw) == "null" {
		return nil
	}
	if raw[0] != '[' {
		return errNotNumbers
	}
	list := make(numbers, 0, bytes.Count(raw, []byte{','})+1)
	raw = bytes.TrimSpace(raw[1 : len(raw)-1])
	for len(raw) > 0 {
		token, rest, _ := bytes.Cut(raw, []byte{','})
		token = bytes.TrimSpace(token)
		if len(token) == 0 || token[0] != '-' && (token[0] < '0' || token[0] > '9') {
			return errNotNumbers
		}
		f, err := strconv.ParseFloat(string(token), 64)
		if err != nil {
			return errNotNumbers
		}
		list = append(list, f)
		raw = rest
	}
	*n = list
	return nil
}

// decode reads one line into e.
func decode(line []byte, e *event) *problem {
	e.reset()
	if !utf8.Valid(line) {
		return &problem{reasonMalformed, "not valid UTF-8"}
	}
	err := json.Unmarshal(line, e)
	if err == nil {
		return nil
	}
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return &problem{reasonMalformed, "not a JSON object: " + err.Error()}
	case errors.As(err, &mismatch) && mismatch.Field == "":
		return &problem{reasonMalformed, "a line is one JSON object, not " + mismatch.Value}
	case errors.As(err, &mismatch):
		return &problem{reasonInvalidValue, mismatch.Field + ": " + mismatch.Value + " where " + kindName(mismatch) + " belongs"}
	default:
		return &problem{reasonInvalidValue, err.Error()}
	}
}

func kindName(mismatch *json.UnmarshalTypeError) string {
	if mismatch.Type.Kind().String() == "string" {
		return "a string"
	}
	return "a number in range"
}
