package collector

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// What vLLM-Omni assumes of audio when nobody says.
const (
	DefaultSampleRate     = 24000 // Hz
	DefaultChannels       = 1
	DefaultBytesPerSample = 2 // signed 16 bit
)

// The reasons under which a request without audio is counted when the observer
// gives none, and when it gives an empty one.
const (
	SkipReasonNoAudioData = "no_audio_data"
	SkipReasonUnknown     = "unknown"
)

// SampleRateKeys returns the keys under which a model may state its sample rate,
// in the order in which vLLM-Omni tries them.
func SampleRateKeys() []string {
	return []string{"output_sample_rate", "audio_sample_rate", "sample_rate", "sampling_rate", "sr"}
}

// ResolveSampleRate returns the first candidate in Hz that is positive, or
// DefaultSampleRate. Candidates are given in the order of SampleRateKeys, 0 for
// one that is absent or no number.
func ResolveSampleRate(candidates ...int) int {
	for _, rate := range candidates {
		if rate > 0 {
			return rate
		}
	}
	return DefaultSampleRate
}

// AudioCollector holds the seven families of audio: audio_ttfp_s,
// audio_duration_s, audio_rtf, audio_frames_total, audio_underrun_s,
// audio_continuity_ok_total and audio_skipped_requests_total (vLLM-Omni's
// metrics design, "Audio"). It is safe for concurrent use.
type AudioCollector struct {
	metricSet
	requests   *RequestTable
	families   audioFamilies
	series     map[audioKey]*audioSeries
	thresholds []continuityThreshold
}

type audioFamilies struct{ ttfp, duration, rtf, frames, underrun, continuityOK, skipped omniFamily }

type continuityThreshold struct {
	label   string // milliseconds
	seconds float64
}

type audioKey struct{ pipeline, model, stage, replica string }

func (k audioKey) labels(pairs ...string) prometheus.Labels {
	return labels(k.pipeline, append(pairs, "model_name", k.model, "stage", k.stage, "replica", k.replica)...)
}

// audioSeries are the children of one replica of one stage.
type audioSeries struct {
	ttfp, duration, rtf, underrun prometheus.Histogram
	frames                        prometheus.Counter
	continuityOK                  map[string]prometheus.Counter // by threshold_ms
	skipped                       map[string]prometheus.Counter // by reason
}

// NewAudioCollector returns a collector without series. The error is of a prefix
// that cannot begin a metric name or of a threshold below 0.
func NewAudioCollector(o OmniOptions) (*AudioCollector, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &AudioCollector{
		metricSet: metricSet{prefix: o.Prefix, budget: o.Budget},
		requests:  o.Requests,
		series:    make(map[audioKey]*audioSeries),
		families: audioFamilies{
			ttfp:         omniFamily{name: "audio_ttfp_s", help: "Seconds from request arrival to its first audio packet.", buckets: SecondsBuckets()},
			duration:     omniFamily{name: "audio_duration_s", help: "Seconds of audio that a request produced: frames divided by sample rate.", buckets: SecondsBuckets()},
			rtf:          omniFamily{name: "audio_rtf", help: "Real-time factor: stage generation time divided by audio duration; below 1 keeps up with playback.", buckets: RTFBuckets()},
			frames:       omniFamily{name: "audio_frames_total", help: "Audio frames generated."},
			underrun:     omniFamily{name: "audio_underrun_s", help: "Largest deficit in seconds of a simulated player over a request's stream; above 0 the listener heard a gap.", buckets: SecondsFastBuckets()},
			continuityOK: omniFamily{name: "audio_continuity_ok_total", help: "Streams whose largest underrun was at most threshold_ms; divide by audio_underrun_s_count."},
			skipped:      omniFamily{name: "audio_skipped_requests_total", help: "Requests that finished without any audio, by reason."},
		},
	}
	return c, c.SetContinuityThresholds(o.ContinuityThresholdsMS)
}

// SetContinuityThresholds changes the thresholds, in milliseconds, for streams
// to come; none is {DefaultContinuityThresholdMS}. The counters of thresholds
// that go stay as they are. The error is of a threshold below 0.
func (c *AudioCollector) SetContinuityThresholds(milliseconds []int) error {
	if len(milliseconds) == 0 {
		milliseconds = []int{DefaultContinuityThresholdMS}
	}
	thresholds := make([]continuityThreshold, 0, len(milliseconds))
	for _, ms := range slices.Compact(slices.Sorted(slices.Values(milliseconds))) {
		if ms < 0 {
			return fmt.Errorf("continuity threshold %d ms is below 0", ms)
		}
		thresholds = append(thresholds, continuityThreshold{strconv.Itoa(ms), float64(ms) / 1000})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.thresholds = thresholds
	return nil
}

// AudioFirstPacket records the seconds from a request's arrival to its first
// audio packet, once per request. While the replica is unknown nothing is
// counted and the answer is ErrReplicaUnknown; the next packet with a replica
// then counts under its own place with the time of the first. A time a little
// below 0 is clock skew and taken as 0. Errors also: ErrDuplicate,
// ErrUnknownRequest, ErrSeriesLimit, *FieldError.
func (c *AudioCollector) AudioFirstPacket(ref RequestRef, at Place, ttfp float64) error {
	if err := checkAudio(ref, at); err != nil {
		return err
	}
	ttfp, err := clampSkew("ttfp_s", ttfp)
	if err != nil {
		return err
	}
	t := c.requests
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.expire()
	r := t.find(ref)
	switch {
	case r == nil || r.firstPacket == firstPacketNone:
	case r.firstPacket == firstPacketPending:
		ttfp = r.ttfp
	default:
		return ErrDuplicate
	}
	if at.Replica == "" {
		r = t.keep(r, ref, now)
		r.firstPacket, r.ttfp = firstPacketPending, ttfp
		return ErrReplicaUnknown
	}
	key, err := audioKeyOf(r, ref, at)
	if err != nil {
		return err
	}
	if err := c.observeFirstPacket(key, ttfp); err != nil {
		return err
	}
	t.keep(r, ref, now).firstPacket = firstPacketCounted
	return nil
}

func (c *AudioCollector) observeFirstPacket(key audioKey, ttfp float64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.find(key)
	if err := c.budget.take(missing(s.ttfp)); err != nil {
		return err
	}
	c.series[key] = s
	if s.ttfp == nil {
		s.ttfp = c.histogram(c.families.ttfp, key.labels())
	}
	s.ttfp.Observe(ttfp)
	return nil
}

// AudioOutput is the audio that a request produced in one stage.
type AudioOutput struct {
	// Frames is samples per channel; 0 is a request without audio.
	Frames int64
	// SampleRate in Hz; DefaultSampleRate if 0 or less.
	SampleRate int
	// GenerationSeconds is the time the stage took; NaN if unknown, and then
	// no real-time factor is observed.
	GenerationSeconds float64
	// SkipReason says why there is no audio; used only when Frames is 0.
	// SkipReasonUnknown if empty.
	SkipReason string
}

// AudioFinished records the audio of a finished request, once per request and
// stage: frames, duration and real-time factor, or, without frames, a skipped
// request. Errors: ErrDuplicate, ErrReplicaUnknown, ErrUnknownRequest,
// ErrSeriesLimit, *FieldError.
func (c *AudioCollector) AudioFinished(ref RequestRef, at Place, out AudioOutput) error {
	if err := checkAudio(ref, at); err != nil {
		return err
	}
	if out.SkipReason == "" {
		out.SkipReason = SkipReasonUnknown
	}
	out.SampleRate = ResolveSampleRate(out.SampleRate)
	if err := out.check(); err != nil {
		return err
	}
	if at.Replica == "" {
		return ErrReplicaUnknown
	}
	return c.oncePerStage(ref, at, func(_ *request, guard stageGuard, key audioKey) (stageGuard, error) {
		if guard.finished {
			return guard, ErrDuplicate
		}
		guard.finished = true
		if out.Frames == 0 {
			return guard, c.countSkipped(key, out.SkipReason)
		}
		return guard, c.observeOutput(key, out)
	})
}

func (o AudioOutput) check() error {
	if err := checkLabel("reason", o.SkipReason, MaxLabelLength); err != nil {
		return err
	}
	if err := checkRange("audio_frames", float64(o.Frames), 0, float64(MaxAudioFrames)); err != nil {
		return err
	}
	if err := checkRange("sample_rate", float64(o.SampleRate), 1, MaxSampleRate); err != nil {
		return err
	}
	if math.IsNaN(o.GenerationSeconds) {
		return nil
	}
	return checkSeconds("stage_gen_time_s", o.GenerationSeconds)
}

func (c *AudioCollector) countSkipped(key audioKey, reason string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.find(key)
	if err := c.budget.take(missing(s.skipped[reason])); err != nil {
		return err
	}
	c.series[key] = s
	if s.skipped[reason] == nil {
		s.skipped[reason] = c.counter(c.families.skipped, key.labels("reason", reason))
	}
	s.skipped[reason].Inc()
	return nil
}

func (c *AudioCollector) observeOutput(key audioKey, out AudioOutput) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.find(key)
	timed := !math.IsNaN(out.GenerationSeconds)
	need := missing(s.frames, s.duration)
	if timed {
		need += missing(s.rtf)
	}
	if err := c.budget.take(need); err != nil {
		return err
	}
	c.series[key] = s
	if s.frames == nil {
		s.frames = c.counter(c.families.frames, key.labels())
		s.duration = c.histogram(c.families.duration, key.labels())
	}
	duration := float64(out.Frames) / float64(out.SampleRate)
	s.frames.Add(float64(out.Frames))
	s.duration.Observe(duration)
	if timed {
		if s.rtf == nil {
			s.rtf = c.histogram(c.families.rtf, key.labels())
		}
		s.rtf.Observe(out.GenerationSeconds / duration)
	}
	return nil
}

// find returns the series of a place, or new ones that are not yet kept.
func (c *AudioCollector) find(key audioKey) *audioSeries {
	if s := c.series[key]; s != nil {
		return s
	}
	return &audioSeries{
		continuityOK: make(map[string]prometheus.Counter),
		skipped:      make(map[string]prometheus.Counter),
	}
}

// stageObserver observes something of a stage and returns what is known of the
// stage from then on. The request is nil if nothing is known of it yet.
type stageObserver func(*request, stageGuard, audioKey) (stageGuard, error)

// oncePerStage runs observe with what is known of the request and of its stage,
// and keeps both if it succeeds.
func (c *AudioCollector) oncePerStage(ref RequestRef, at Place, observe stageObserver) error {
	t := c.requests
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.expire()
	r := t.find(ref)
	guard, err := r.stage(at.Stage)
	if err != nil {
		return err
	}
	key, err := audioKeyOf(r, ref, at)
	if err != nil {
		return err
	}
	if guard, err = observe(r, guard, key); err != nil {
		return err
	}
	t.keep(r, ref, now).setStage(guard)
	return nil
}

func checkAudio(ref RequestRef, at Place) error {
	if err := ref.check(); err != nil {
		return err
	}
	return at.check()
}

func audioKeyOf(r *request, ref RequestRef, at Place) (audioKey, error) {
	model, err := modelOf(r, ref)
	return audioKey{ref.Pipeline, model, at.Stage, at.Replica}, err
}
