package collector

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// omniUnderTest is the three collectors and what they share.
type omniUnderTest struct {
	pipeline *PipelineCollector
	audio    *AudioCollector
	transfer *TransferCollector
	requests *RequestTable
	budget   *SeriesBudget
}

func newOmni(t testing.TB, o OmniOptions, table RequestTableOptions) *omniUnderTest {
	t.Helper()
	if o.Budget == nil {
		o.Budget = NewSeriesBudget(DefaultMaxSeries)
	}
	o.Requests = NewRequestTable(table)
	pipeline, err := NewPipelineCollector(o)
	if err != nil {
		t.Fatal(err)
	}
	audio, err := NewAudioCollector(o)
	if err != nil {
		t.Fatal(err)
	}
	transfer, err := NewTransferCollector(o)
	if err != nil {
		t.Fatal(err)
	}
	return &omniUnderTest{pipeline, audio, transfer, o.Requests, o.Budget}
}

// page is what a scrape of the collectors shows.
func (o *omniUnderTest) page(t testing.TB) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(o.pipeline, o.audio, o.transfer, o.requests)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// wantLines fails for each line that the page lacks.
func wantLines(t testing.TB, page string, lines ...string) {
	t.Helper()
	have := strings.Split(page, "\n")
	for _, l := range lines {
		if !slices.Contains(have, l) {
			t.Errorf("page lacks %s\n%s", l, page)
		}
	}
}

func wantNothingOf(t testing.TB, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(page, text) {
			t.Errorf("page has %q\n%s", text, page)
		}
	}
}

func wantErr(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("error is %v, want %v", got, want)
	}
}

// fakeClock is advanced by hand.
type fakeClock struct {
	mu  sync.Mutex
	now time.Time
}

func newFakeClock() *fakeClock { return &fakeClock{now: time.Unix(1_800_000_000, 0)} }

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func ref(id string) RequestRef { return RequestRef{ID: id, Model: "m"} }

func TestNoFamilyBeforeTheFirstObservation(t *testing.T) {
	o := newOmni(t, OmniOptions{}, RequestTableOptions{})
	wantNothingOf(t, o.page(t), "vllm:omni_")
}

func TestPrefix(t *testing.T) {
	o := newOmni(t, OmniOptions{Prefix: "vllm_omni:"}, RequestTableOptions{})
	wantErr(t, o.pipeline.RequestStarted(ref("1")), nil)
	page := o.page(t)
	wantLines(t, page, `vllm_omni:num_requests_waiting{model_name="m"} 1`)
	wantNothingOf(t, page, "vllm:omni_")

	for _, prefix := range []string{"1omni_", "om ni", "omni-"} {
		if _, err := NewTransferCollector(OmniOptions{Prefix: prefix}); err == nil || !strings.Contains(err.Error(), prefix) {
			t.Errorf("prefix %q: error is %v", prefix, err)
		}
	}
}

func TestNamedAndUnnamedPipelinesShareFamilies(t *testing.T) {
	o := newOmni(t, OmniOptions{}, RequestTableOptions{})
	wantErr(t, o.pipeline.RequestStarted(ref("1")), nil)
	wantErr(t, o.pipeline.RequestStarted(RequestRef{ID: "1", Model: "m", Pipeline: "a"}), nil)
	wantErr(t, o.pipeline.RequestScheduled(RequestRef{ID: "1", Pipeline: "a"}), nil)
	page := o.page(t)
	wantLines(t, page,
		`vllm:omni_num_requests_waiting{model_name="m"} 1`,
		`vllm:omni_num_requests_waiting{model_name="m",pipeline="a"} 0`,
		`vllm:omni_num_requests_running{model_name="m",pipeline="a"} 1`)
	if n := strings.Count(page, "# TYPE vllm:omni_num_requests_waiting "); n != 1 {
		t.Errorf("%d TYPE lines", n)
	}
	wantNothingOf(t, page, `pipeline=""`)
}

func TestRunningAndWaiting(t *testing.T) {
	o := newOmni(t, OmniOptions{}, RequestTableOptions{})
	load := func(running, waiting int) {
		t.Helper()
		wantLines(t, o.page(t),
			fmt.Sprintf(`vllm:omni_num_requests_running{model_name="m"} %d`, running),
			fmt.Sprintf(`vllm:omni_num_requests_waiting{model_name="m"} %d`, waiting))
	}
	for _, id := range []string{"1", "2", "3"} {
		wantErr(t, o.pipeline.RequestStarted(ref(id)), nil)
	}
	load(0, 3)
	wantErr(t, o.pipeline.RequestScheduled(RequestRef{ID: "1"}), nil)
	wantErr(t, o.pipeline.RequestScheduled(RequestRef{ID: "2"}), nil)
	load(2, 1)
	wantErr(t, o.pipeline.RequestSucceeded(RequestRef{ID: "1"}, 1, ""), nil)
	load(1, 1)
	wantErr(t, o.pipeline.RequestFailed(RequestRef{ID: "3"}), nil) // never scheduled
	load(1, 0)
	wantErr(t, o.pipeline.RequestFailed(RequestRef{ID: "2"}), nil)
	load(0, 0)

	// Late and repeated events move nothing.
	wantErr(t, o.pipeline.RequestStarted(ref("1")), ErrDuplicate)
	wantErr(t, o.pipeline.RequestScheduled(ref("3")), ErrDuplicate)
	load(0, 0)
	// Scheduled without started is started and scheduled; started is late then.
	wantErr(t, o.pipeline.RequestScheduled(ref("4")), nil)
	wantErr(t, o.pipeline.RequestStarted(ref("4")), ErrDuplicate)
	load(1, 0)
	wantErr(t, o.pipeline.RequestScheduled(RequestRef{ID: "5"}), ErrUnknownRequest)
	load(1, 0)
}

func TestRequestThatNeverFinishesExpires(t *testing.T) {
	clock := newFakeClock()
	o := newOmni(t, OmniOptions{}, RequestTableOptions{Timeout: time.Minute, Clock: clock.Now})
	wantErr(t, o.pipeline.RequestStarted(ref("lost")), nil)
	clock.advance(50 * time.Second)
	wantErr(t, o.pipeline.RequestStarted(ref("late")), nil)
	wantErr(t, o.pipeline.RequestScheduled(ref("late")), nil)
	clock.advance(10 * time.Second)
	wantLines(t, o.page(t),
		`vllm:omni_num_requests_running{model_name="m"} 1`,
		`vllm:omni_num_requests_waiting{model_name="m"} 0`,
		`omni_exporter_events_expired_requests_total 1`)
	clock.advance(50 * time.Second)
	wantLines(t, o.page(t),
		`vllm:omni_num_requests_running{model_name="m"} 0`,
		`omni_exporter_events_expired_requests_total 2`,
		`omni_exporter_events_tracked_requests{state="active"} 0`,
		`omni_exporter_events_tracked_requests{state="remembered"} 2`)
	// The end comes after all: it counts, and the gauges stay right.
	wantErr(t, o.pipeline.RequestSucceeded(RequestRef{ID: "late"}, 70, ""), nil)
	wantLines(t, o.page(t),
		`vllm:omni_num_requests_running{model_name="m"} 0`,
		`vllm:omni_requests_success_total{finished_reason="stop",model_name="m"} 1`)
	clock.advance(time.Minute)
	o.page(t)
	if n := o.requests.Len(); n != 0 {
		t.Errorf("%d requests remembered, want 0", n)
	}
}

func TestExpiredRequestThatIsScheduledRunsAgain(t *testing.T) {
	clock := newFakeClock()
	o := newOmni(t, OmniOptions{}, RequestTableOptions{Timeout: time.Minute, Clock: clock.Now})
	wantErr(t, o.pipeline.RequestStarted(ref("1")), nil)
	clock.advance(time.Minute)
	wantErr(t, o.pipeline.RequestScheduled(RequestRef{ID: "1"}), nil)
	wantLines(t, o.page(t), `vllm:omni_num_requests_running{model_name="m"} 1`, `omni_exporter_events_expired_requests_total 1`)
}

func TestRequestTimeoutCanChange(t *testing.T) {
	clock := newFakeClock()
	o := newOmni(t, OmniOptions{}, RequestTableOptions{Clock: clock.Now})
	wantErr(t, o.pipeline.RequestStarted(ref("1")), nil)
	clock.advance(time.Minute)
	o.requests.SetTimeout(time.Minute)
	wantLines(t, o.page(t), `vllm:omni_num_requests_waiting{model_name="m"} 0`, `omni_exporter_events_expired_requests_total 1`)
	o.requests.SetTimeout(0)
	clock.advance(time.Minute)
	o.page(t)
	if n := o.requests.Len(); n != 1 {
		t.Errorf("%d requests remembered, want 1", n)
	}
}

func TestRequestTableIsBounded(t *testing.T) {
	o := newOmni(t, OmniOptions{}, RequestTableOptions{MaxRequests: 10})
	for i := range 5 {
		wantErr(t, o.pipeline.RequestStarted(ref(fmt.Sprint("done", i))), nil)
		wantErr(t, o.pipeline.RequestFailed(ref(fmt.Sprint("done", i))), nil)
	}
	for i := range 12 {
		wantErr(t, o.pipeline.RequestStarted(ref(fmt.Sprint("open", i))), nil)
	}
	if n := o.requests.Len(); n != 10 {
		t.Errorf("%d requests remembered, want 10", n)
	}
	// The five that ended went first, then the two that had been open longest.
	wantLines(t, o.page(t),
		`vllm:omni_num_requests_waiting{model_name="m"} 10`,
		`omni_exporter_events_expired_requests_total 2`)
	wantErr(t, o.pipeline.RequestFailed(RequestRef{ID: "open0"}), ErrUnknownRequest)
	wantErr(t, o.pipeline.RequestFailed(RequestRef{ID: "open2"}), nil)
}

func TestRefusedObservationPushesNoRequestOut(t *testing.T) {
	o := newOmni(t, OmniOptions{Budget: NewSeriesBudget(2)}, RequestTableOptions{MaxRequests: 1})
	wantErr(t, o.pipeline.RequestStarted(ref("1")), nil)
	wantErr(t, o.pipeline.RequestStarted(RequestRef{ID: "2", Model: "other"}), ErrSeriesLimit)
	wantErr(t, o.audio.AudioFirstPacket(ref("3"), Place{"2", "0"}, 1), ErrSeriesLimit)
	wantErr(t, o.audio.AudioFinished(ref("3"), Place{"2", "0"}, AudioOutput{Frames: 1}), ErrSeriesLimit)
	wantLines(t, o.page(t), `vllm:omni_num_requests_waiting{model_name="m"} 1`, `omni_exporter_events_expired_requests_total 0`)
	if n := len(o.pipeline.series) + len(o.audio.series); n != 1 {
		t.Errorf("%d series bundles kept, want 1", n)
	}
}

func TestSeriesBudgetIsAllOrNothing(t *testing.T) {
	o := newOmni(t, OmniOptions{Budget: NewSeriesBudget(4)}, RequestTableOptions{})
	edge := Edge{Model: "m", FromStage: "0", FromReplica: "0", ToStage: "1", ToReplica: "0"}
	wantErr(t, o.transfer.TransferSent(edge, 1, 1), nil)
	wantErr(t, o.transfer.TransferReceived(edge, 1, math.NaN()), nil)
	other := edge
	other.ToReplica = "1"
	wantErr(t, o.transfer.TransferSent(other, 1, 1), ErrSeriesLimit) // needs two, one is left
	wantErr(t, o.transfer.TransferReceived(edge, 1, 0.5), nil)       // takes the last
	wantErr(t, o.transfer.TransferSent(edge, 1, 1), nil)             // needs none
	if o.budget.Used() != 4 {
		t.Errorf("%d used, want 4", o.budget.Used())
	}
	o.budget.SetLimit(6)
	wantErr(t, o.transfer.TransferSent(other, 1, 1), nil)
}

func TestBadValuesAreRefusedNotFatal(t *testing.T) {
	o := newOmni(t, OmniOptions{}, RequestTableOptions{})
	at := Place{"2", "0"}
	edge := Edge{Model: "m", FromStage: "0", FromReplica: "0", ToStage: "1", ToReplica: "0"}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, MaxSeconds * 1.01} {
		for name, err := range map[string]error{
			"e2e":        o.pipeline.RequestSucceeded(ref("1"), v, ""),
			"ttfp":       o.audio.AudioFirstPacket(ref("1"), at, v),
			"arrival":    o.audio.AudioStreamFinished(ref("1"), at, AudioStream{Arrivals: []float64{v}, ChunkBytes: []float64{1}}),
			"tx":         o.transfer.TransferSent(edge, 1, v),
			"rx":         o.transfer.TransferReceived(edge, v, 0),
			"size":       o.transfer.TransferSent(edge, -math.Abs(v), 1),
			"chunk":      o.audio.AudioStreamFinished(ref("1"), at, AudioStream{Arrivals: []float64{1}, ChunkBytes: []float64{-math.Abs(v)}}),
			"in flight":  o.transfer.TransferReceived(edge, 1, -1-math.Abs(v)),
			"generation": o.audio.AudioFinished(ref("1"), at, AudioOutput{Frames: 1, GenerationSeconds: -1 - math.Abs(v)}),
		} {
			var field *FieldError
			if !errors.As(err, &field) && !(math.IsNaN(v) && (name == "in flight" || name == "generation")) {
				t.Errorf("%s of %v: error is %v", name, v, err)
			}
		}
	}
	for _, out := range []AudioOutput{
		{Frames: -1},
		{Frames: MaxAudioFrames + 1},
		{Frames: 1, SampleRate: MaxSampleRate + 1},
		{SkipReason: strings.Repeat("x", MaxLabelLength+1)},
	} {
		var field *FieldError
		if err := o.audio.AudioFinished(ref("2"), at, out); !errors.As(err, &field) {
			t.Errorf("%+v: error is %v", out, err)
		}
	}
	for _, bad := range []RequestRef{
		{Model: "m"},
		{ID: strings.Repeat("x", MaxRequestIDLength+1), Model: "m"},
		{ID: "1", Model: "m\xff"},
		{ID: "1", Model: "m", Pipeline: "\xff"},
		{ID: "1", Model: strings.Repeat("x", MaxLabelLength+1)},
		{ID: "1"},
	} {
		var field *FieldError
		if err := o.pipeline.RequestStarted(bad); !errors.As(err, &field) {
			t.Errorf("%.40q: error is %v", bad, err)
		}
	}
	// in flight and generation of NaN are "unknown"; all else left no trace.
	wantNothingOf(t, o.page(t), "omni_e2e", "omni_num_requests", "omni_audio_ttfp", "omni_audio_underrun", "omni_transfer_size", "omni_transfer_tx", "omni_transfer_in_flight")
}

func TestContinuityThresholds(t *testing.T) {
	o := newOmni(t, OmniOptions{ContinuityThresholdsMS: []int{200, 50, 100, 50}}, RequestTableOptions{})
	stream := AudioStream{Arrivals: []float64{0.25, 0.5}, ChunkBytes: []float64{4800, 4800}} // underrun 0.15
	wantErr(t, o.audio.AudioStreamFinished(ref("1"), Place{"2", "0"}, stream), nil)
	wantLines(t, o.page(t),
		`vllm:omni_audio_continuity_ok_total{model_name="m",replica="0",stage="2",threshold_ms="50"} 0`,
		`vllm:omni_audio_continuity_ok_total{model_name="m",replica="0",stage="2",threshold_ms="100"} 0`,
		`vllm:omni_audio_continuity_ok_total{model_name="m",replica="0",stage="2",threshold_ms="200"} 1`)
	if err := o.audio.SetContinuityThresholds([]int{-1}); err == nil {
		t.Error("a threshold below 0 was taken")
	}
	if err := o.audio.SetContinuityThresholds(nil); err != nil {
		t.Error(err)
	}
	wantErr(t, o.audio.AudioStreamFinished(ref("2"), Place{"2", "0"}, AudioStream{Arrivals: []float64{1}, ChunkBytes: []float64{1}}), nil)
	wantLines(t, o.page(t),
		`vllm:omni_audio_continuity_ok_total{model_name="m",replica="0",stage="2",threshold_ms="100"} 1`,
		`vllm:omni_audio_continuity_ok_total{model_name="m",replica="0",stage="2",threshold_ms="200"} 1`)
	if _, err := NewAudioCollector(OmniOptions{ContinuityThresholdsMS: []int{-5}}); err == nil {
		t.Error("a threshold below 0 was taken")
	}
}

func TestStagesPerRequestAreBounded(t *testing.T) {
	o := newOmni(t, OmniOptions{}, RequestTableOptions{})
	for i := range MaxStagesPerRequest {
		wantErr(t, o.audio.AudioFinished(ref("1"), Place{fmt.Sprint(i), "0"}, AudioOutput{Frames: 1}), nil)
	}
	var field *FieldError
	if err := o.audio.AudioFinished(ref("1"), Place{"more", "0"}, AudioOutput{Frames: 1}); !errors.As(err, &field) {
		t.Errorf("error is %v", err)
	}
}

func TestConcurrentObservationsAndScrapes(t *testing.T) {
	o := newOmni(t, OmniOptions{}, RequestTableOptions{})
	const workers, each = 8, 200
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			at := Place{"2", fmt.Sprint(w % 2)}
			edge := Edge{Model: "m", FromStage: "1", FromReplica: "0", ToStage: "2", ToReplica: at.Replica}
			for i := range each {
				r := ref(fmt.Sprint(w, "-", i))
				_ = o.pipeline.RequestStarted(r)
				_ = o.pipeline.RequestScheduled(r)
				_ = o.transfer.TransferSent(edge, 1, 1)
				_ = o.audio.AudioFirstPacket(r, at, 1)
				_ = o.audio.AudioFinished(r, at, AudioOutput{Frames: 10})
				_ = o.pipeline.RequestSucceeded(r, 1, "")
				_ = o.pipeline.RequestFailed(r)
			}
		})
	}
	group.Go(func() {
		for range 20 {
			o.page(t)
		}
	})
	group.Wait()
	wantLines(t, o.page(t),
		fmt.Sprintf(`vllm:omni_requests_success_total{finished_reason="stop",model_name="m"} %d`, workers*each),
		`vllm:omni_num_requests_running{model_name="m"} 0`,
		fmt.Sprintf(`vllm:omni_audio_frames_total{model_name="m",replica="0",stage="2"} %d`, workers/2*each*10),
		fmt.Sprintf(`vllm:omni_transfer_tx_s_count{from_replica="0",from_stage="1",model_name="m",to_replica="1",to_stage="2"} %d`, workers/2*each))
}

// Observing what is known must stay cheap: 100,000 events a second go this way.
func TestKnownSeriesAllocateNothing(t *testing.T) {
	o := newOmni(t, OmniOptions{}, RequestTableOptions{})
	edge := Edge{Pipeline: "p", Model: "m", FromStage: "0", FromReplica: "0", ToStage: "1", ToReplica: "0"}
	r, at := ref("1"), Place{"2", "0"}
	observe := func() {
		_ = o.transfer.TransferSent(edge, 1, 1)
		_ = o.transfer.TransferReceived(edge, 1, 1)
		_ = o.pipeline.RequestStarted(r)
		_ = o.pipeline.RequestScheduled(r)
		_ = o.pipeline.RequestSucceeded(r, 1, "")
		_ = o.audio.AudioFirstPacket(r, at, 1)
		_ = o.audio.AudioFinished(r, at, AudioOutput{Frames: 1})
	}
	observe()
	if n := testing.AllocsPerRun(100, observe); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
