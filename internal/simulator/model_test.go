package simulator

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

var perRequest = []string{
	"e2e_request_latency_seconds", "request_queue_time_seconds", "request_inference_time_seconds",
	"request_prefill_time_seconds", "request_decode_time_seconds", "request_time_per_output_token_seconds",
	"request_prompt_tokens", "request_generation_tokens", "request_max_num_generation_tokens", "request_params_n",
	"request_params_max_tokens", "request_prefill_kv_computed_tokens",
}

// checkIdentities checks what vLLM's counters say about each other, for one engine of a page.
func checkIdentities(t *testing.T, all map[string]float64, engine string) {
	t.Helper()
	get := func(name string, parts ...string) float64 {
		return value(all, "vllm:"+name, append(parts, `engine="`+engine+`"`)...)
	}
	same := func(what string, a, b float64) {
		t.Helper()
		if !near(a, b) {
			t.Errorf("engine %s: %s: %v is not %v", engine, what, a, b)
		}
	}
	done := get("request_success_total")
	if done == 0 {
		t.Errorf("engine %s: no request has come to an end", engine)
	}
	for _, name := range perRequest {
		same(name+" counts every request", get(name+"_count"), done)
	}
	for _, name := range append([]string{"time_to_first_token_seconds", "inter_token_latency_seconds", "iteration_tokens_total"}, perRequest...) {
		same(name+" +Inf", get(name+"_bucket", `le="+Inf"`), get(name+"_count"))
	}
	same("prompt tokens by source", get("prompt_tokens_by_source_total"), get("prompt_tokens_total"))
	same("cached prompt tokens", get("prompt_tokens_cached_total"), get("prompt_tokens_by_source_total", `source="local_cache_hit"`))
	same("tokens of iterations", get("iteration_tokens_total_sum"),
		get("prompt_tokens_by_source_total", `source="local_compute"`)+get("generation_tokens_total"))
	same("waiting by reason", get("num_requests_waiting_by_reason"), get("num_requests_waiting"))
	if hits, queries := get("prefix_cache_hits_total"), get("prefix_cache_queries_total"); hits > queries {
		t.Errorf("engine %s: %v prefix cache hits in %v queries", engine, hits, queries)
	}
	if use := get("kv_cache_usage_perc"); use < 0 || use > 1 {
		t.Errorf("engine %s: KV-cache usage %v", engine, use)
	}
	if ttft := get("time_to_first_token_seconds_count"); ttft < done {
		t.Errorf("engine %s: %v first tokens for %v requests", engine, ttft, done)
	}
}

func TestAccountingHolds(t *testing.T) {
	for _, layout := range []Layout{Shared, PerEngine, PerEngineGlobalIndex} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("layout %d seed %d", layout, seed), func(t *testing.T) {
				p := newPipeline(t, Options{Seed: seed, Layout: layout})
				for range 3 {
					p.Step(100 * time.Second)
					for i, s := range p.servers {
						all := samples(t, page(p, i), textType)
						for _, e := range s.engines {
							checkIdentities(t, all, e.label)
						}
						if a, b := value(all, "http_request_duration_highr_seconds_count"), value(all, "http_request_duration_seconds_count"); a != b || a == 0 {
							t.Errorf("%v and %v HTTP requests", a, b)
						}
					}
				}
			})
		}
	}
}

func TestLoadThatStopsRunsOut(t *testing.T) {
	for _, fault := range append(Faults(), "") {
		t.Run(string(fault), func(t *testing.T) {
			p := newPipeline(t, Options{Seed: 7})
			p.Step(time.Minute)
			if fault != "" {
				must(t, p.SetFault(fault, true))
				p.Step(3 * time.Minute)
				must(t, p.SetFault(fault, false))
			}
			p.SetArrivalRate(0)
			p.Step(3 * time.Minute)
			all := samples(t, page(p, 0), textType)
			for _, name := range []string{"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"} {
				if v := value(all, name); v != 0 {
					t.Errorf("%s is %v without load", name, v)
				}
			}
			if p.inFlight != 0 {
				t.Errorf("%d requests are under way", p.inFlight)
			}
			if len(p.agenda) > 8 {
				t.Errorf("%d things are still to happen without load", len(p.agenda))
			}
			for _, e := range p.engines {
				if e.used != 0 {
					t.Errorf("engine %d holds %d KV blocks without a request", e.index, e.used)
				}
			}
			p.SetArrivalRate(6)
			before := p.engines[4].metrics.e2e.count
			p.Step(30 * time.Second)
			if p.engines[4].metrics.e2e.count == before {
				t.Error("nothing moves after the load came back")
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCountersNeverGoBack(t *testing.T) {
	p := newPipeline(t, Options{Seed: 2})
	before := map[string]float64{}
	moved := 0
	for range 40 {
		p.Step(3 * time.Second)
		now := samples(t, page(p, 0), textType)
		for series, v := range now {
			if !strings.Contains(series, "_total") && !strings.Contains(series, "_bucket") && !strings.Contains(series, "_count") && !strings.Contains(series, "_sum") {
				continue
			}
			if old, known := before[series]; known && v < old {
				t.Errorf("%s went from %v to %v", series, old, v)
			} else if v > old {
				moved++
			}
		}
		if len(before) > 0 && len(before) != len(now) {
			t.Errorf("the page went from %d to %d series", len(before), len(now))
		}
		before = now
	}
	if moved < 1000 {
		t.Errorf("only %d counters moved", moved)
	}
}

func TestHistoryFollowsFromSeed(t *testing.T) {
	run := func(seed uint64, step time.Duration) ([]Event, []ForwardPass, string) {
		var events []Event
		var passes []ForwardPass
		p := newPipeline(t, Options{
			Seed: seed, Events: func(e []Event) { events = append(events, e...) },
			ForwardPasses: func(f ForwardPass) { passes = append(passes, f) },
		})
		for p.now < 30*time.Second {
			p.Step(step)
		}
		return events, passes, string(page(p, 0))
	}
	events, passes, text := run(1, 100*time.Millisecond)
	events2, passes2, text2 := run(1, 15*time.Second)
	if !reflect.DeepEqual(events, events2) || !reflect.DeepEqual(passes, passes2) || text != text2 {
		t.Error("one seed has two histories")
	}
	if _, _, other := run(2, time.Second); other == text {
		t.Error("two seeds have one history")
	}
}

func TestLoadHasWavesAndBursts(t *testing.T) {
	p := newPipeline(t, Options{Seed: 3, WavePeriod: time.Minute})
	var low, high, most float64 = 1e9, 0, 0
	waited := 0
	for range 1200 {
		p.Step(500 * time.Millisecond)
		rate := p.currentRate()
		low = min(low, rate)
		most = max(most, rate)
		if p.now >= p.burstEnd {
			high = max(high, rate)
		}
		waited = max(waited, len(p.engines[0].waiting))
	}
	if low > 6*0.65 || high < 6*1.35 || most < 6*1.8 {
		t.Errorf("rates went from %.1f to %.1f, and %.1f in bursts", low, high, most)
	}
	if waited < 3 {
		t.Errorf("the queue never grew past %d", waited)
	}
}

func TestSlowReplicaIsSlow(t *testing.T) {
	p := newPipeline(t, Options{Seed: 4})
	p.Step(5 * time.Minute)
	mean := func(e *engine) float64 { return e.metrics.itl.sum / float64(e.metrics.itl.count) }
	if fast, slow := mean(p.engines[1]), mean(p.engines[2]); slow < 1.2*fast {
		t.Errorf("tokens of the slow talker come every %.4f s, of the other every %.4f s", slow, fast)
	}
}

func TestOtherShapes(t *testing.T) {
	shapes := map[string][]Stage{
		"one stage":   {{Name: "llm", Replicas: 2}},
		"two stages":  {{Name: "talker"}, {Name: "vocoder", Replicas: 3}},
		"four stages": {{Name: "a"}, {Name: "b"}, {Name: "c", Replicas: 2}, {Name: "d"}},
	}
	for name, stages := range shapes {
		t.Run(name, func(t *testing.T) {
			p := newPipeline(t, Options{Seed: 5, Stages: stages})
			p.Step(2 * time.Minute)
			all := samples(t, page(p, 0), textType)
			for _, e := range p.engines {
				checkIdentities(t, all, e.label)
			}
		})
	}
}

func TestOverloadStaysBounded(t *testing.T) {
	p := newPipeline(t, Options{Seed: 6, ArrivalRate: 200})
	for range 20 {
		p.Step(10 * time.Second)
		if p.inFlight > maxInFlight || len(p.engines[0].waiting) > maxQueue+textSeqs || // preempted requests wait again
			len(p.agenda) > 20*maxInFlight {
			t.Fatalf("%d requests under way, %d waiting, %d planned", p.inFlight, len(p.engines[0].waiting), len(p.agenda))
		}
	}
	if p.servers[0].refusals == 0 {
		t.Error("nobody was turned away")
	}
	checkIdentities(t, samples(t, page(p, 0), textType), "0")
}

func TestDefaultStages(t *testing.T) {
	p := newPipeline(t, Options{})
	var got []string
	for _, s := range p.Stages() {
		got = append(got, fmt.Sprintf("%s x%d", s.Name, s.Replicas))
	}
	if want := "thinker x1, talker x2, code2wav x2"; strings.Join(got, ", ") != want {
		t.Errorf("stages %q, want %q", got, want)
	}
}

func TestOptionsOutOfRange(t *testing.T) {
	tests := map[string]Options{
		"arrival rate":      {ArrivalRate: -1},
		"time scale":        {TimeScale: 1e6},
		"text share":        {TextShare: 2},
		"wave period":       {WavePeriod: time.Millisecond},
		"ranks":             {Ranks: 1000},
		"KV blocks":         {Stages: []Stage{{KVBlocks: 3}}},
		"replicas":          {Stages: []Stage{{Replicas: -1}}},
		"engines":           {Stages: []Stage{{Replicas: 1000}}},
		"only 1 servers":    {OpenMetrics: []int{1}},
		"listen addresses":  {Listen: []string{"", ""}},
		"server -1 is":      {OpenMetrics: []int{-1}, Layout: PerEngine},
		"seats must be pos": {Stages: []Stage{{MaxNumSeqs: -2}}},
	}
	for want, o := range tests {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error %v", want, err)
		}
	}
}
