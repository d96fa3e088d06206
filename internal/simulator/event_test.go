package simulator

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// eventKeys are the keys of each event type's JSON, as POST /api/v1/events takes them.
var eventKeys = map[EventType]string{
	RequestStarted:      "model_name request_id type",
	RequestScheduled:    "request_id type",
	RequestFinished:     "e2e_s finished_reason request_id type",
	RequestFailed:       "request_id type",
	AudioFirstPacket:    "model_name replica request_id stage ttfp_s type",
	AudioFinished:       "audio_frames model_name replica request_id sample_rate stage stage_gen_time_s type",
	AudioStreamFinished: "arrivals_s bytes_per_sample channels chunk_bytes model_name replica request_id sample_rate stage type",
	TransferTx:          "from_replica from_stage model_name size_bytes to_replica to_stage tx_ms type",
	TransferRx:          "from_replica from_stage in_flight_ms model_name rx_ms to_replica to_stage type",
}

func collect(t *testing.T, o Options) (*Pipeline, *[]Event) {
	var events []Event
	o.Events = func(e []Event) { events = append(events, e...) }
	return newPipeline(t, o), &events
}

func TestEventJSON(t *testing.T) {
	p, events := collect(t, Options{Seed: 1})
	p.Step(time.Minute)
	must(t, p.SetFault(SilentAudio, true)) // audio_frames 0 is written, too
	p.Step(time.Minute)
	seen := map[EventType]int{}
	silent := 0
	for _, e := range *events {
		seen[e.Type]++
		line, err := json.Marshal(e)
		must(t, err)
		var fields map[string]any
		must(t, json.Unmarshal(line, &fields))
		if got := strings.Join(keys(fields), " "); got != eventKeys[e.Type] {
			t.Fatalf("%s has keys %q, want %q", line, got, eventKeys[e.Type])
		}
		if fields["audio_frames"] == 0.0 {
			silent++
		}
	}
	for kind := range eventKeys {
		if seen[kind] == 0 {
			t.Errorf("no %s in two minutes", kind)
		}
	}
	if silent == 0 {
		t.Error("no audio_frames 0 among silent answers")
	}
	p, events = collect(t, Options{Seed: 1, Pipeline: "qwen"})
	p.Step(5 * time.Second)
	for _, e := range *events {
		if e.Pipeline != "qwen" {
			t.Fatalf("%+v has no pipeline", e)
		}
	}
}

// TestEventsAgreeWithRequests follows every request through its events.
func TestEventsAgreeWithRequests(t *testing.T) {
	p, events := collect(t, Options{Seed: 9})
	p.Step(5 * time.Minute)
	p.SetArrivalRate(0)
	p.Step(2 * time.Minute)
	byRequest := map[string][]Event{}
	count := map[EventType]int{}
	for _, e := range *events {
		count[e.Type]++
		if e.RequestID != "" {
			byRequest[e.RequestID] = append(byRequest[e.RequestID], e)
		}
	}
	order := []EventType{RequestStarted, RequestScheduled, AudioFirstPacket, AudioFinished, AudioStreamFinished, RequestFinished, RequestFailed}
	for id, story := range byRequest {
		last := -1
		for _, e := range story {
			i := slices.Index(order, e.Type)
			if i <= last {
				t.Fatalf("%s: %s comes out of order or twice", id, e.Type)
			}
			last = i
			if e.Type == AudioStreamFinished {
				checkStream(t, e, story)
			}
			if e.Type == RequestFinished && (e.E2ESeconds <= 0 || e.FinishedReason != "stop" && e.FinishedReason != "length") {
				t.Fatalf("%+v", e)
			}
		}
		if story[0].Type != RequestStarted || last < slices.Index(order, RequestFinished) {
			t.Fatalf("%s begins with %s and has no end", id, story[0].Type)
		}
	}
	if count[RequestStarted] < 1000 || count[RequestFailed] == 0 || count[TransferTx] < count[TransferRx] || count[TransferRx] == 0 {
		t.Errorf("counts %v", count)
	}
	all := samples(t, page(p, 0), textType)
	audio := value(all, "vllm:request_success_total", `engine="3"`) + value(all, "vllm:request_success_total", `engine="4"`)
	if audio != float64(count[AudioFinished]) {
		t.Errorf("%v audio requests on the page, %d among the events", audio, count[AudioFinished])
	}
}

func checkStream(t *testing.T, e Event, story []Event) {
	t.Helper()
	if len(e.ArrivalsSeconds) != len(e.ChunkBytes) || !slices.IsSorted(e.ArrivalsSeconds) {
		t.Fatalf("chunks do not fit: %+v", e)
	}
	bytes := 0
	for _, b := range e.ChunkBytes {
		if b <= 0 || b%2 != 0 {
			t.Fatalf("a chunk of %d bytes", b)
		}
		bytes += b
	}
	for _, other := range story {
		if other.Type == AudioFinished && int(*other.AudioFrames)*2 != bytes {
			t.Fatalf("%d bytes for %d frames", bytes, *other.AudioFrames)
		}
		if other.Type == AudioFirstPacket && other.TTFPSeconds != e.ArrivalsSeconds[0] {
			t.Fatalf("first packet at %v, stream begins at %v", other.TTFPSeconds, e.ArrivalsSeconds[0])
		}
	}
}

// underrun is the longest that a player without a buffer of its own would have had to wait, in seconds.
func underrun(e Event) float64 {
	worst, received := 0.0, 0
	for i, at := range e.ArrivalsSeconds {
		if i > 0 {
			worst = max(worst, at-e.ArrivalsSeconds[0]-float64(received)/(sampleRate*bytesPerSample))
		}
		received += e.ChunkBytes[i]
	}
	return worst
}

// TestHealthyTraffic keeps a pipeline without a fault inside the objectives that alerts watch by default, and shows that
// it is not spotless.
func TestHealthyTraffic(t *testing.T) {
	p, events := collect(t, Options{Seed: 11})
	p.Step(20 * time.Minute)
	var streams, gaps, answers, silent, ended, aborted, late, slow, flights, overRTF int
	for _, e := range *events {
		switch e.Type {
		case AudioStreamFinished:
			streams++
			if underrun(e) > 0.1 {
				gaps++
			}
			if e.ArrivalsSeconds[0] > 1 {
				late++
			}
		case AudioFinished:
			answers++
			if *e.AudioFrames == 0 {
				silent++
			} else if e.StageGenTimeSeconds > float64(*e.AudioFrames)/sampleRate {
				overRTF++
			}
		case RequestFailed:
			ended++
			aborted++
		case RequestFinished:
			ended++
		case TransferRx:
			flights++
			if e.InFlightMillis > 100 {
				slow++
			}
		}
	}
	share := func(what string, part, whole int, low, high float64) {
		t.Helper()
		if got := float64(part) / float64(whole); whole < 1000 || got < low || got > high {
			t.Errorf("%s: %d of %d", what, part, whole)
		}
	}
	share("streams with a gap over 100 ms", gaps, streams, 0.0005, 0.009)
	share("first packets after a second", late, streams, 0, 0.009)
	share("silent answers", silent, answers, 0.0001, 0.008)
	share("real-time factors over 1", overRTF, answers, 0, 0.001)
	share("aborts", aborted, ended, 0.001, 0.03)
	share("transfers over 100 ms", slow, flights, 0, 0)
	for _, e := range p.engines {
		m := e.metrics
		over := func(what string, h *histogram, bound float64) {
			t.Helper()
			beyond := uint64(0)
			for i := range h.counts {
				if i == len(h.bounds) || h.bounds[i] > bound {
					beyond += h.counts[i]
				}
			}
			if float64(beyond) > 0.009*float64(h.count) {
				t.Errorf("engine %d: %d of %d %s over %v s", e.index, beyond, h.count, what, bound)
			}
		}
		over("first tokens", m.ttft, 1)
		over("tokens", m.itl, 0.1)
		over("requests", m.e2e, 30)
		if m.preemptions > 0.1*p.now.Seconds() {
			t.Errorf("engine %d: %v preemptions", e.index, m.preemptions)
		}
	}
}
