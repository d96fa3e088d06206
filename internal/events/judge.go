package events

import (
	"errors"
	"math"
	"strconv"

	"github.com/omni-exporter/omni_exporter/collector"
)

// problem is why a line was refused.
type problem struct {
	reason  string
	message string
}

// record gives a decoded event to its collector. ignored is one of the ignore
// reasons when the event was understood and changed nothing.
func (h *Handler) record(e *event) (ignored string, p *problem) {
	var err error
	switch e.Type {
	case typeRequestStarted, typeRequestScheduled, typeRequestFinished, typeRequestFailed:
		if h.pipeline == nil {
			return "", disabled("pipeline")
		}
		err = h.recordRequest(e)
	case typeAudioFirstPacket, typeAudioFinished, typeAudioStreamFinished:
		if h.audio == nil {
			return "", disabled("audio")
		}
		err = h.recordAudio(e)
	case typeTransferTx, typeTransferRx:
		if h.transfer == nil {
			return "", disabled("transfer")
		}
		err = h.recordTransfer(e)
	case "":
		return "", &problem{reasonMissingField, "type: required and missing"}
	default:
		return "", &problem{reasonUnknownType, "type " + quote(e.Type) + " is not one of version 1"}
	}
	return outcome(err)
}

func disabled(name string) *problem {
	return &problem{reasonDisabled, "the " + name + " collector is off (--no-collector." + name + ")"}
}

func outcome(err error) (ignored string, p *problem) {
	var field *collector.FieldError
	switch {
	case err == nil:
		return "", nil
	case errors.Is(err, collector.ErrDuplicate):
		return ignoredDuplicate, nil
	case errors.Is(err, collector.ErrReplicaUnknown):
		return ignoredReplicaUnknown, nil
	case errors.Is(err, collector.ErrStreamUnfinished):
		return ignoredStreamUnfinished, nil
	case errors.Is(err, collector.ErrEmptyStream):
		return ignoredStreamEmpty, nil
	case errors.Is(err, collector.ErrSeriesLimit):
		return "", &problem{reasonMaxSeries, err.Error()}
	case errors.Is(err, collector.ErrUnknownRequest):
		return "", &problem{reasonUnknownRequest, err.Error()}
	case errors.As(err, &field) && field.Missing:
		return "", &problem{reasonMissingField, err.Error()}
	default:
		return "", &problem{reasonInvalidValue, err.Error()}
	}
}

func (h *Handler) recordRequest(e *event) error {
	ref := e.request()
	switch e.Type {
	case typeRequestStarted:
		return h.pipeline.RequestStarted(ref)
	case typeRequestScheduled:
		return h.pipeline.RequestScheduled(ref)
	case typeRequestFailed:
		return h.pipeline.RequestFailed(ref)
	default:
		if e.FinishedReason != collector.FinishedReasonAbort && math.IsNaN(e.E2E) {
			return absent("e2e_s")
		}
		return h.pipeline.RequestSucceeded(ref, e.E2E, e.FinishedReason)
	}
}

func (h *Handler) recordAudio(e *event) error {
	ref, at := e.request(), collector.Place{Stage: e.Stage, Replica: e.Replica}
	switch e.Type {
	case typeAudioFirstPacket:
		if math.IsNaN(e.TTFP) {
			return absent("ttfp_s")
		}
		return h.audio.AudioFirstPacket(ref, at, e.TTFP)
	case typeAudioFinished:
		if math.IsNaN(e.Frames) {
			return absent("audio_frames")
		}
		frames, err := whole("audio_frames", e.Frames)
		if err != nil {
			return err
		}
		reason := collector.SkipReasonNoAudioData
		if e.Reason != nil {
			reason = *e.Reason
		}
		return h.audio.AudioFinished(ref, at, collector.AudioOutput{
			Frames: int64(frames), SampleRate: e.sampleRate(), GenerationSeconds: e.Generation, SkipReason: reason,
		})
	default:
		if e.Arrivals == nil {
			return absent("arrivals_s")
		}
		if e.ChunkBytes == nil {
			return absent("chunk_bytes")
		}
		channels, err := optionalCount("channels", e.Channels)
		if err != nil {
			return err
		}
		width, err := optionalCount("bytes_per_sample", e.BytesPerSample)
		if err != nil {
			return err
		}
		for _, size := range e.ChunkBytes {
			if _, err := whole("chunk_bytes", size); err != nil {
				return err
			}
		}
		return h.audio.AudioStreamFinished(ref, at, collector.AudioStream{
			SampleRate: e.sampleRate(), Channels: channels, BytesPerSample: width,
			Arrivals: e.Arrivals, ChunkBytes: e.ChunkBytes, FinishedReason: e.FinishedReason,
		})
	}
}

func (h *Handler) recordTransfer(e *event) error {
	edge := collector.Edge{
		Pipeline: e.Pipeline, Model: e.Model,
		FromStage: e.FromStage, FromReplica: e.FromReplica, ToStage: e.ToStage, ToReplica: e.ToReplica,
	}
	if e.Type == typeTransferTx {
		if math.IsNaN(e.SizeBytes) {
			return absent("size_bytes")
		}
		if math.IsNaN(e.TxMS) {
			return absent("tx_ms")
		}
		return h.transfer.TransferSent(edge, e.SizeBytes, e.TxMS/1000)
	}
	if math.IsNaN(e.RxMS) {
		return absent("rx_ms")
	}
	return h.transfer.TransferReceived(edge, e.RxMS/1000, e.InFlightMS/1000)
}

func (e *event) request() collector.RequestRef {
	return collector.RequestRef{Pipeline: e.Pipeline, ID: e.RequestID, Model: e.Model}
}

func (e *event) sampleRate() int {
	return collector.ResolveSampleRate(
		int(e.OutputSampleRate), int(e.AudioSampleRate), int(e.SampleRate), int(e.SamplingRate), int(e.SR))
}

func absent(field string) error {
	return &collector.FieldError{Field: field, Problem: "required and missing", Missing: true}
}

// whole refuses a number that counts something and is no whole number.
func whole(field string, value float64) (float64, error) {
	if value != math.Trunc(value) || math.Abs(value) > 1<<53 {
		return 0, &collector.FieldError{Field: field, Problem: strconv.FormatFloat(value, 'g', -1, 64) + " is not a whole number in range"}
	}
	return value, nil
}

// optionalCount is 0 for an absent number and refuses one that is there and not
// a positive whole number.
func optionalCount(field string, value float64) (int, error) {
	if math.IsNaN(value) {
		return 0, nil
	}
	if _, err := whole(field, value); err != nil {
		return 0, err
	}
	if value < 1 || value > math.MaxInt32 {
		return 0, &collector.FieldError{Field: field, Problem: strconv.FormatFloat(value, 'g', -1, 64) + " is not a positive number in range"}
	}
	return int(value), nil
}

// quote shows foreign text, cut to a length that fits a message.
func quote(s string) string {
	const longest = 64
	if len(s) > longest {
		return strconv.Quote(s[:longest]) + "..."
	}
	return strconv.Quote(s)
}
