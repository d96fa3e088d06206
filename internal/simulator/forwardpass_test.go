package simulator

import (
	"encoding/json"
	"testing"
	"time"
)

func passes(t *testing.T, o Options) (*Pipeline, *[]ForwardPass, *[]time.Duration) {
	var all []ForwardPass
	var at []time.Duration
	var p *Pipeline
	o.ForwardPasses = func(f ForwardPass) { all, at = append(all, f), append(at, p.now) }
	p = newPipeline(t, o)
	return p, &all, &at
}

func TestForwardPasses(t *testing.T) {
	p, all, at := passes(t, Options{Seed: 1})
	for range 1200 {
		p.Step(100 * time.Millisecond)
	}
	p.SetArrivalRate(0)
	for range 900 {
		p.Step(100 * time.Millisecond)
	}
	next := map[int]uint64{}
	last := map[int]time.Duration{}
	var prefill, decodes, heartbeats int
	for i, f := range *all {
		if f.Sequence != next[f.DPRank] || f.CounterID != f.Sequence {
			t.Fatalf("record %d of rank %d has sequence %d and counter %d", next[f.DPRank], f.DPRank, f.Sequence, f.CounterID)
		}
		next[f.DPRank]++
		if gap := (*at)[i] - last[f.DPRank]; gap > 1300*time.Millisecond {
			t.Fatalf("rank %d was silent for %v", f.DPRank, gap)
		}
		last[f.DPRank] = (*at)[i]
		if f.Version != 1 || f.WorkerID != (*all)[0].WorkerID || f.WorkerID == "" || f.DPRank > 1 {
			t.Fatalf("%+v", f)
		}
		active := f.Scheduled.NumPrefillRequests+f.Scheduled.NumDecodeRequests > 0
		if active != (f.WallTime > 0) || f.WallTime > 1 {
			t.Fatalf("wall time of %+v", f)
		}
		if !active && (f.Scheduled != ScheduledRequests{} || f.Queued != QueuedRequests{}) {
			t.Fatalf("a heartbeat with content: %+v", f)
		}
		if !active {
			heartbeats++
		}
		prefill += f.Scheduled.SumPrefillTokens
		decodes += f.Scheduled.NumDecodeRequests
	}
	m := p.engines[0].metrics
	// Preempted prompts are computed again and aborted ones are not counted, hence not equal.
	if float64(prefill) < m.localCompute || float64(prefill) > 1.2*m.localCompute {
		t.Errorf("%d prefill tokens in records, %v on the page", prefill, m.localCompute)
	}
	if first := float64(m.ttft.count); float64(decodes) < 0.95*(m.generationTokens-first) || float64(decodes) > 1.05*(m.generationTokens-first) {
		t.Errorf("%d decodes in records, %v on the page", decodes, m.generationTokens-first)
	}
	if next[0] < 1000 || next[1] < 1000 || heartbeats < 100 {
		t.Errorf("%v records, %d heartbeats", next, heartbeats)
	}
}

func TestLoseFPM(t *testing.T) {
	p, all, _ := passes(t, Options{Seed: 1})
	must(t, p.SetFault(LoseFPM, true))
	p.Step(time.Minute)
	next, lost := map[int]uint64{}, map[int]uint64{}
	for _, f := range *all {
		lost[f.DPRank] += f.Sequence - next[f.DPRank]
		next[f.DPRank] = f.Sequence + 1
	}
	if lost[0] != 0 || lost[1] < next[1]/5 || lost[1] > next[1]/3 {
		t.Errorf("%v lost of %v", lost, next)
	}
}

func TestForwardPassJSON(t *testing.T) {
	line, err := json.Marshal(ForwardPass{Version: 1, WorkerID: "4192", Sequence: 7, CounterID: 7})
	must(t, err)
	want := `{"version":1,"worker_id":"4192","dp_rank":0,"counter_id":7,"wall_time":0,` +
		`"scheduled_requests":{"num_prefill_requests":0,"sum_prefill_tokens":0,"var_prefill_length":0,"sum_prefill_kv_tokens":0,` +
		`"num_decode_requests":0,"sum_decode_kv_tokens":0,"var_decode_kv_tokens":0},` +
		`"queued_requests":{"num_prefill_requests":0,"sum_prefill_tokens":0,"var_prefill_length":0,` +
		`"num_decode_requests":0,"sum_decode_kv_tokens":0,"var_decode_kv_tokens":0}}`
	if string(line) != want {
		t.Errorf("got  %s\nwant %s", line, want)
	}
}

func TestQueuedRequests(t *testing.T) {
	p, all, _ := passes(t, Options{Seed: 1})
	must(t, p.SetFault(SaturateKV, true))
	p.Step(2 * time.Minute)
	var prefills, decodes bool
	for _, f := range *all {
		prefills = prefills || f.Queued.NumPrefillRequests > 1 && f.Queued.VarPrefillLength > 0
		decodes = decodes || f.Queued.NumDecodeRequests > 0 && f.Queued.SumDecodeKVTokens > 0
	}
	if !prefills || !decodes {
		t.Errorf("queued prefills %v, queued (preempted) decodes %v", prefills, decodes)
	}
}

func TestVariance(t *testing.T) {
	var s spread
	if s.add(5); s.variance() != 0 {
		t.Errorf("variance of one value: %v", s.variance())
	}
	s.add(7)
	s.add(12)
	if got := s.variance(); !near(got, 26.0/3) {
		t.Errorf("population variance of 5, 7, 12: %v", got)
	}
}
