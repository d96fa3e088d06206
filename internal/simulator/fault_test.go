package simulator

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestFaultNames(t *testing.T) {
	p := newPipeline(t, Options{})
	if err := p.SetFault("no-such", true); err == nil || !strings.Contains(err.Error(), `"no-such"`) || !strings.Contains(err.Error(), "hang-stage") {
		t.Errorf("error %v", err)
	}
	one := newPipeline(t, Options{Stages: []Stage{{Name: "llm"}}})
	for _, f := range Faults() {
		err := one.SetFault(f, true)
		if needsTwo := f == SlowEdge || f == SilentAudio; needsTwo != (err != nil) {
			t.Errorf("%s on one stage: %v", f, err)
		}
	}
}

func TestKillReplica(t *testing.T) {
	p, events := collect(t, Options{Seed: 1})
	p.Step(time.Minute)
	before := len(*events)
	must(t, p.SetFault(KillReplica, true))
	must(t, p.SetFault(KillReplica, true)) // once more changes nothing
	p.Step(time.Minute)
	if all := string(page(p, 0)); strings.Contains(all, `engine="2"`) || !strings.Contains(all, `engine="1"`) {
		t.Error("engine 2 is on the page of a process that lost it")
	}
	failed := 0
	for _, e := range (*events)[before:] {
		if e.Type == RequestFailed {
			failed++
		}
		if e.Type == TransferRx && e.ToStage == "1" && e.ToReplica == "1" {
			t.Fatalf("a dead replica received %+v", e)
		}
	}
	if failed == 0 {
		t.Error("no request failed with its replica")
	}
	must(t, p.SetFault(KillReplica, false))
	p.Step(20 * time.Second)
	all := samples(t, page(p, 0), textType)
	checkIdentities(t, all, "2")
	if created := value(all, "vllm:prompt_tokens_created", `engine="2"`); created < float64(start.Unix()+120) {
		t.Errorf("the new process says it began at %v", created)
	}
}

func TestKillReplicaWithItsOwnServer(t *testing.T) {
	p := newPipeline(t, Options{Seed: 1, Layout: PerEngine})
	p.Step(30 * time.Second)
	server := httptest.NewServer(p.Handler(2))
	defer server.Close()
	get := func() error {
		response, err := server.Client().Get(server.URL + "/metrics")
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	must(t, get())
	must(t, p.SetFault(KillReplica, true))
	if get() == nil {
		t.Error("a dead server answers")
	}
	must(t, p.SetFault(KillReplica, false))
	must(t, get())
	if v := value(samples(t, page(p, 2), textType), "http_requests_total"); v != 0 {
		t.Errorf("a new process has answered %v requests", v)
	}
}

func TestHangStage(t *testing.T) {
	p, events := collect(t, Options{Seed: 1})
	p.Step(time.Minute)
	must(t, p.SetFault(HangStage, true))
	p.Step(10 * time.Second)
	frozen := samples(t, page(p, 0), textType)
	before := len(*events)
	p.Step(5 * time.Minute)
	now := samples(t, page(p, 0), textType)
	running := 0.0
	for _, engine := range []string{`engine="1"`, `engine="2"`} {
		running += value(now, "vllm:num_requests_running", engine)
		for _, name := range []string{"vllm:num_requests_running", "vllm:generation_tokens_total", "vllm:iteration_tokens_total_count"} {
			if a, b := value(frozen, name, engine), value(now, name, engine); a != b {
				t.Errorf("%s of %s moved from %v to %v", name, engine, a, b)
			}
		}
	}
	if running == 0 {
		t.Error("nothing was running when the stage hung")
	}
	tx, rx, failed, text := 0, 0, 0, 0
	for _, e := range (*events)[before:] {
		switch {
		case e.Type == TransferTx && e.ToStage == "1":
			tx++
		case e.Type == TransferRx && e.ToStage == "1":
			rx++
		case e.Type == RequestFailed:
			failed++
		case e.Type == RequestFinished:
			text++
		}
	}
	if tx == 0 || rx != 0 || failed == 0 || text == 0 {
		t.Errorf("%d sent, %d received, %d clients gave up, %d text requests finished", tx, rx, failed, text)
	}
	must(t, p.SetFault(HangStage, false))
	p.Step(time.Minute)
	after := samples(t, page(p, 0), textType)
	if value(after, "vllm:generation_tokens_total", `engine="1"`) <= value(now, "vllm:generation_tokens_total", `engine="1"`) {
		t.Error("the stage does not go on")
	}
}

func TestSlowEdge(t *testing.T) {
	p, events := collect(t, Options{Seed: 1})
	must(t, p.SetFault(SlowEdge, true))
	p.Step(2 * time.Minute)
	slow := 0
	for _, e := range *events {
		if e.Type != TransferRx {
			continue
		}
		hit := e.FromStage == "1" && e.FromReplica == "0" && e.ToReplica == "0"
		if hit {
			slow++
		}
		if hit != (e.InFlightMillis > 500) {
			t.Fatalf("%+v", e)
		}
	}
	if slow < 100 {
		t.Errorf("%d slow transfers", slow)
	}
}

func TestSilentAudio(t *testing.T) {
	p, events := collect(t, Options{Seed: 1})
	must(t, p.SetFault(SilentAudio, true))
	p.Step(3 * time.Minute)
	silent, all := map[string]float64{}, map[string]float64{}
	heard := map[string]bool{}
	for _, e := range *events {
		switch e.Type {
		case AudioFirstPacket, AudioStreamFinished:
			heard[e.RequestID] = true
		case AudioFinished:
			all[e.Replica]++
			if *e.AudioFrames == 0 {
				silent[e.Replica]++
				if heard[e.RequestID] {
					t.Fatalf("a silent answer was heard: %+v", e)
				}
			}
		}
	}
	if share := silent["1"] / all["1"]; share < 0.2 || share > 0.5 {
		t.Errorf("%v of replica 1's answers are silent", share)
	}
	if share := silent["0"] / all["0"]; share > 0.02 {
		t.Errorf("%v of replica 0's answers are silent", share)
	}
}

func TestSaturateKV(t *testing.T) {
	p := newPipeline(t, Options{Seed: 1})
	p.Step(time.Minute)
	must(t, p.SetFault(SaturateKV, true))
	p.Step(30 * time.Second)
	before := p.engines[0].metrics.preemptions
	for range 100 {
		p.Step(3 * time.Second)
		if e := p.engines[0]; e.kvUsage() < 0.96 || len(e.waiting) == 0 {
			t.Fatalf("KV usage %v, %d waiting", e.kvUsage(), len(e.waiting))
		}
	}
	if n := p.engines[0].metrics.preemptions - before; n < 100 {
		t.Errorf("%v preemptions in five minutes", n)
	}
	all := samples(t, page(p, 0), textType)
	checkIdentities(t, all, "0")
	if value(all, "vllm:num_requests_waiting_by_reason", `reason="capacity"`, `engine="0"`) == 0 {
		t.Error("nobody waits for capacity")
	}
}

func TestUnknownPath(t *testing.T) {
	p := newPipeline(t, Options{})
	for path, want := range map[string]int{"/metrics": 200, "/metrics/": 200, "/health": 200, "/": 404, "/metrics/x": 404} {
		w := httptest.NewRecorder()
		p.Handler(0).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s answers %d", path, w.Code)
		}
	}
	w := httptest.NewRecorder()
	p.Handler(0).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/metrics", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST answers %d", w.Code)
	}
}
