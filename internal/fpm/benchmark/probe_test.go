package benchmark_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/benchmarktest"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// document turns plain values into a document's.
func document(t testing.TB, v any) any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := doc.Parse(bytes.NewReader(data), doc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func worker(dp, rank int, change ...func(m)) m {
	r := benchmarktest.Reply(dp, rank, 1, 1, 1)
	for _, c := range change {
		c(r)
	}
	return r
}

func scope(ranks ...int64) benchmark.ProbeScope {
	return benchmark.ProbeScope{Ranks: ranks, TP: 1, PCP: 1, PP: 1, SizesKnown: true, HasAttention: true}
}

// TestProbeResolutions has a case for every resolution, and for what decides between them.
func TestProbeResolutions(t *testing.T) {
	mode := func(s string) func(m) { return set("cudagraph_mode_resolved", s) }
	backend := func(layer, name string) func(m) {
		return func(r m) { r["attention_backends"] = m{layer: name} }
	}
	for _, tc := range []struct {
		name           string
		replies        any
		failure        string
		scope          benchmark.ProbeScope
		want           string
		attention      string // "" when the same
		observed       int
		complete       bool
		missing        []int64
		disagreements  []string
		backend, mla   any
		someIssue      string
		resolvedDPRank int64 // -1 when none
	}{
		{
			name: "complete", replies: l{worker(0, 0), worker(1, 0)}, scope: scope(0, 1), want: "worker_probe", observed: 2, complete: true,
			missing: []int64{}, backend: "FLASH_ATTN_MLA", mla: "FlashAttnPrefillBackend",
		},
		{
			name: "four ranks, only rank 0 replied", replies: l{worker(0, 0)}, scope: scope(0, 1, 2, 3), want: "worker_probe_partial", observed: 1,
			missing: []int64{1, 2, 3}, backend: "FLASH_ATTN_MLA", mla: "FlashAttnPrefillBackend",
		},
		{
			name: "the same for rank 0", replies: l{worker(0, 0)}, scope: scope(0), want: "worker_probe", observed: 1, complete: true,
			missing: []int64{}, backend: "FLASH_ATTN_MLA", mla: "FlashAttnPrefillBackend",
		},
		{
			name: "the same for rank 2", replies: l{worker(0, 0)}, scope: scope(2), want: "worker_probe_unobserved", missing: []int64{2}, resolvedDPRank: -1,
		},
		{
			name: "ranks unknown", replies: l{worker(7, 0)}, scope: benchmark.ProbeScope{TP: 1, PCP: 1, PP: 1, SizesKnown: true},
			want: "worker_probe_partial", observed: 1, backend: "FLASH_ATTN_MLA", mla: "FlashAttnPrefillBackend", resolvedDPRank: 7,
		},
		{
			name: "sizes unknown", replies: l{worker(0, 0)}, scope: benchmark.ProbeScope{Ranks: []int64{0}}, want: "worker_probe_partial", observed: 1,
			missing: []int64{}, backend: "FLASH_ATTN_MLA", mla: "FlashAttnPrefillBackend",
		},
		{
			name: "mixed graph modes", replies: l{worker(0, 0), worker(1, 0, mode("PIECEWISE"))}, scope: scope(0, 1), want: "worker_probe_mixed",
			observed: 2, complete: true, missing: []int64{}, disagreements: []string{"cudagraph_mode_resolved"},
			backend: "FLASH_ATTN_MLA", mla: "FlashAttnPrefillBackend",
		},
		{
			name: "mixed and incomplete", replies: l{worker(0, 0), worker(1, 0, set("cudagraph_capture_sizes_resolved", l{}))}, scope: scope(0, 1, 2),
			want: "worker_probe_mixed", observed: 2, missing: []int64{2}, disagreements: []string{"cudagraph_capture_sizes_resolved"},
			backend: "FLASH_ATTN_MLA", mla: "FlashAttnPrefillBackend",
		},
		{
			name: "one layer, two backends", replies: l{worker(0, 0), worker(1, 0, backend("model.layers.0.self_attn", "FLASHINFER"))}, scope: scope(0, 1),
			want: "worker_probe_mixed", observed: 2, complete: true, missing: []int64{}, disagreements: []string{"attention_backends"},
			mla: "FlashAttnPrefillBackend",
		},
		{
			name: "two layers, two backends", replies: l{worker(0, 0), worker(1, 0, backend("model.layers.9.self_attn", "FLASHINFER"))}, scope: scope(0, 1),
			want: "worker_probe", attention: "worker_probe_mixed", observed: 2, complete: true, missing: []int64{}, mla: "FlashAttnPrefillBackend",
		},
		{
			name: "a null setting does not disagree", replies: l{worker(0, 0), worker(1, 0, set("mla_prefill_backend", nil))}, scope: scope(0, 1),
			want: "worker_probe", observed: 2, complete: true, missing: []int64{}, backend: "FLASH_ATTN_MLA", mla: nil,
		},
		{
			name: "a failed layer", replies: l{worker(0, 0, set("capture_errors", m{"x": "boom"}))}, scope: scope(0), want: "worker_probe_partial",
			observed: 1, missing: []int64{}, backend: "FLASH_ATTN_MLA", mla: "FlashAttnPrefillBackend",
		},
		{
			name: "another rank's malformed reply spoils completeness", replies: l{worker(0, 0), worker(1, 0, del("tp_rank"))}, scope: scope(0),
			want: "worker_probe_partial", observed: 1, missing: []int64{}, someIssue: "missing or invalid tp_rank",
			backend: "FLASH_ATTN_MLA", mla: "FlashAttnPrefillBackend",
		},
		{
			name: "the same worker twice", replies: l{worker(0, 0), worker(0, 0), worker(1, 0)}, scope: scope(0, 1), want: "worker_probe_partial",
			observed: 1, missing: []int64{0}, someIssue: "duplicate (dp_rank, worker_rank)", backend: "FLASH_ATTN_MLA",
			mla: "FlashAttnPrefillBackend", resolvedDPRank: 1,
		},
		{
			name: "two workers in one place", replies: l{worker(0, 0), worker(0, 1, set("tp_rank", 0))}, scope: scope(0), want: "worker_probe_unobserved",
			missing: []int64{0}, someIssue: "duplicate (dp_rank, tp_rank, pcp_rank, pp_rank)", resolvedDPRank: -1,
		},
		{
			name: "ranks that do not fit", replies: l{worker(0, 0, set("pp_rank", nil))}, scope: scope(0), want: "worker_probe_unobserved",
			missing: []int64{0}, someIssue: "worker ranks disagree with TP/PCP/PP topology", resolvedDPRank: -1,
		},
		{
			name: "no replies", replies: l{}, scope: scope(0), want: "probe_failed: no valid worker probe responses", missing: []int64{0}, resolvedDPRank: -1,
		},
		{
			name: "only malformed replies", replies: l{nil, "x", m{}}, scope: scope(0), want: "probe_failed: no valid worker probe responses",
			missing: []int64{0}, someIssue: "response is not an object", resolvedDPRank: -1,
		},
		{
			name: "no list", replies: m{"dp_rank": 0}, scope: scope(0), want: "probe_failed: no valid worker probe responses",
			missing: []int64{0}, someIssue: "invalid cudagraph_capture_sizes_resolved", resolvedDPRank: -1,
		},
		{
			name: "timeout", replies: l{}, failure: "probe_failed: TimeoutError: ", scope: scope(0), want: "probe_failed: TimeoutError: ",
			missing: []int64{0}, resolvedDPRank: -1,
		},
		{
			name: "skipped", replies: l{}, failure: "probe_skipped: worker extension not installed (my.Ext)", scope: scope(0),
			want: "probe_skipped: worker extension not installed (my.Ext)", missing: []int64{0}, resolvedDPRank: -1,
		},
		{
			name: "failed with a valid reply", replies: l{worker(0, 0)}, failure: "probe_failed: X: y", scope: scope(0), want: "probe_failed: X: y",
			observed: 1, complete: true, missing: []int64{}, backend: "FLASH_ATTN_MLA", mla: "FlashAttnPrefillBackend",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := benchmark.Probe(benchmark.Replies(document(t, tc.replies)), tc.failure, tc.scope)
			if r.Resolution != tc.want {
				t.Errorf("resolution %q, want %q", r.Resolution, tc.want)
			}
			attention := tc.want
			if tc.attention != "" {
				attention = tc.attention
			}
			if r.AttentionResolution != attention {
				t.Errorf("attention resolution %q, want %q", r.AttentionResolution, attention)
			}
			if len(r.Observed) != tc.observed || r.Complete != tc.complete {
				t.Errorf("%d observed, complete %v; want %d, %v", len(r.Observed), r.Complete, tc.observed, tc.complete)
			}
			if !slices.Equal(r.MissingRanks, tc.missing) || (r.MissingRanks == nil) != (tc.missing == nil) {
				t.Errorf("missing %v, want %v", r.MissingRanks, tc.missing)
			}
			if !slices.Equal(r.Disagreements, tc.disagreements) {
				t.Errorf("disagreements %v, want %v", r.Disagreements, tc.disagreements)
			}
			if r.Backend != tc.backend || r.MLAPrefillBackend != tc.mla {
				t.Errorf("backends %v and %v, want %v and %v", r.Backend, r.MLAPrefillBackend, tc.backend, tc.mla)
			}
			issues := ""
			for _, reply := range r.Replies {
				issues += strings.Join(reply.Issues, "; ") + "\n"
			}
			if tc.someIssue == "" && strings.TrimSpace(issues) != "" || !strings.Contains(issues, tc.someIssue) {
				t.Errorf("issues %q, want %q", issues, tc.someIssue)
			}
			result := doc.Root(r.Result())
			rank, ok := result.Key("resolved").Key("dp_rank").Int()
			if ok != (tc.resolvedDPRank >= 0) || ok && rank != tc.resolvedDPRank {
				t.Errorf("resolved %s, want rank %d", result.Key("resolved").Show(), tc.resolvedDPRank)
			}
			if ok == result.Key("resolved_scope").IsNull() {
				t.Errorf("resolved_scope %s", result.Key("resolved_scope").Show())
			}
		})
	}
}

func TestReplyIssues(t *testing.T) {
	for _, tc := range []struct {
		change func(m)
		want   []string
	}{
		{set("dp_rank", true), []string{"missing or invalid dp_rank"}},
		{set("worker_rank", -1), []string{"missing or invalid worker_rank"}},
		{set("tp_rank", 0.0+1.5), []string{"missing or invalid tp_rank"}},
		{set("pp_rank", "0"), []string{"invalid pp_rank"}},
		{del("pcp_rank"), nil},
		{set("attention_backends", m{"a": ""}), []string{"invalid attention_backends"}},
		{set("attention_backends", m{}), nil},
		{set("mla_prefill_backend", 1), []string{"invalid mla_prefill_backend"}},
		{set("cudagraph_mode_resolved", l{}), []string{"invalid cudagraph_mode_resolved"}},
		{set("cudagraph_capture_sizes_resolved", l{1, 0}), []string{"invalid cudagraph_capture_sizes_resolved"}},
		{set("cudagraph_capture_sizes_resolved", nil), []string{"invalid cudagraph_capture_sizes_resolved"}},
		{func(r m) { clear(r) }, []string{
			"missing or invalid dp_rank", "missing or invalid worker_rank", "missing or invalid tp_rank", "invalid attention_backends",
			"invalid cudagraph_capture_sizes_resolved",
		}},
	} {
		replies := benchmark.Replies(document(t, l{worker(0, 0, tc.change)}))
		if !slices.Equal(replies[0].Issues, tc.want) {
			t.Errorf("issues %q, want %q", replies[0].Issues, tc.want)
		}
	}
}

// TestReferenceSidecar embeds the sidecar of Dynamo's reference, with only the fields that are printed there, in the run that it
// describes: two ranks, of which only rank 0 replied.
func TestReferenceSidecar(t *testing.T) {
	s := benchmarktest.New(t, benchmarktest.Options{Sidecar: func(root m) {
		reply := m{
			"tp_rank": 0, "pp_rank": 0, "pcp_rank": 0, "worker_rank": 0, "dp_rank": 0,
			"attention_backends": m{"model.layers.0.self_attn": "FLASH_ATTN_MLA"}, "mla_prefill_backend": "FlashAttnPrefillBackend",
			"cudagraph_mode_resolved": "FULL", "cudagraph_capture_sizes_resolved": l{1, 2, 4, 8, 16, 32}, "capture_errors": m{},
		}
		root["merged"] = m{
			"resolved": reply, "resolved_scope": "representative_worker", "resolution": "worker_probe_partial",
			"attention": m{
				"backend_resolved": "FLASH_ATTN_MLA", "mla_prefill_backend_resolved": "FlashAttnPrefillBackend", "resolution": "worker_probe_partial",
			},
		}
		root["ranks"] = m{
			"0": m{"rank_file": "/tmp/benchmark_results.json", "resolved_scope": "representative_worker", "resolution": "worker_probe"},
			"1": m{"rank_file": "/tmp/benchmark_results_dp1.json", "resolved": nil, "resolved_scope": nil, "resolution": "worker_probe_unobserved"},
		}
	}})
	r := benchmark.Verify(allFiles(t, s))
	if rules := ruleSet(r); !r.Valid || len(rules) != 1 || !rules[benchmark.RuleProbeEvidence] {
		t.Errorf("findings:\n%s", show(r))
	}
	run := benchmark.ReadRun(mergedFiles(t, s)[0], mergedFiles(t, s)[1])
	if e := run.Engine; e.AttentionResolved != "FLASH_ATTN_MLA" || e.Resolution != "worker_probe_partial" || e.ProbeKnown {
		t.Errorf("engine %+v", e)
	}
}

// TestReferenceSample embeds the per-sample evidence of Dynamo's reference.
func TestReferenceSample(t *testing.T) {
	s := benchmarktest.New(t, benchmarktest.Options{Ranks: 1, Points: 6, FPM: fpmOf(0, 6, func(f m) {
		f["wall_time"] = 0.062
		first := at(f, "benchmark_measurement", "raw_fpms", 0).(m)
		first["wall_time"] = 0.062
		first["benchmark_sample"] = m{
			"sample_index": 0, "forward_index": 12,
			"timing":    m{"basis": "schedule_to_output", "start_monotonic": 150.0, "end_monotonic": 150.062},
			"cudagraph": m{"status": "observed", "runtime_mode": "PIECEWISE", "num_unpadded_tokens": 80, "num_padded_tokens": 80, "num_paddings": 0},
		}
	})})
	if r := benchmark.Verify(allFiles(t, s)); !r.Valid || len(r.Findings) > 0 {
		t.Errorf("findings:\n%s", show(r))
	}
}

// TestUnserializableReplyIsKept: what was not JSON is recorded as a type and a text; nothing more can be recomputed from it.
func TestUnserializableReplyIsKept(t *testing.T) {
	issues := l{"non-JSON response: ValueError", "invalid mla_prefill_backend"}
	s := benchmarktest.New(t, benchmarktest.Options{
		Replies: func(r l) l { return append(r, m{"unserializable_type": "dict", "repr": "{'x': nan}"}) },
		Sidecar: func(root m) {
			for _, result := range []any{root["merged"], at(root, "ranks", "0"), at(root, "ranks", "1")} {
				at(result, "worker_probe", "responses", 2).(m)["issues"] = issues
				at(result, "worker_probe", "coverage").(m)["complete"] = false
				result.(m)["resolution"] = "worker_probe_partial"
				at(result, "attention").(m)["resolution"] = "worker_probe_partial"
			}
		},
	})
	r := benchmark.Verify(mergedFiles(t, s))
	if rules := ruleSet(r); !r.Valid || len(rules) != 1 || !rules[benchmark.RuleProbeIncomplete] {
		t.Errorf("findings:\n%s", show(r))
	}
}

// TestOlderProbeInsideTheArtifact: before there was a sidecar, the results stood in the engine blocks.
func TestOlderProbeInsideTheArtifact(t *testing.T) {
	s := benchmarktest.New(t, benchmarktest.Options{Ranks: 4, Replies: func(r l) l { return r[:1] }})
	result, _ := s.Sidecar.Get("merged")
	engine, _ := s.Merged.Get("engine")
	benchmark.ApplyProbe(engine.(*doc.Object), result.(*doc.Object))
	for rank, d := range s.RankDocs {
		ranks, _ := s.Sidecar.Get("ranks")
		result, _ := ranks.(*doc.Object).Get(string(doc.Number(rank)))
		engine, _ := d.Get("engine")
		benchmark.ApplyProbe(engine.(*doc.Object), result.(*doc.Object))
	}
	s.Sidecar = nil
	files := allFiles(t, s)
	r := benchmark.Verify(files)
	rules := ruleSet(r)
	if !r.Valid || !rules[benchmark.RuleProbeIncomplete] || !rules[benchmark.RuleSidecarMissing] || len(rules) != 2 {
		t.Errorf("findings:\n%s", show(r))
	}
	run := benchmark.ReadRun(files[4], nil)
	if e := run.Engine; e.Resolution != "worker_probe_partial" || !e.ProbeKnown || e.ProbeComplete || e.AttentionResolved != "FLASH_ATTN_MLA" {
		t.Errorf("engine %+v", e)
	}

	// A merge of such rank files has the view of all ranks, not the first one's.
	merged, _, err := benchmark.Merge(files[:4], "/tmp/out_merged.json")
	if err != nil {
		t.Fatal(err)
	}
	if !doc.Equal(first(t, merged, "engine"), engine) {
		t.Errorf("merged engine differs from the older merged artifact's")
	}

	// A claim that does not follow from the replies is found there as well.
	engine.(*doc.Object).Set("resolution", "worker_probe")
	r = benchmark.Verify([]*benchmark.File{file(t, "merged.json", s.Merged)})
	if rules := ruleSet(r); r.Valid || !rules[benchmark.RuleProbeResolution] {
		t.Errorf("findings:\n%s", show(r))
	}
}

func first(t testing.TB, o *doc.Object, key string) any {
	t.Helper()
	v, ok := o.Get(key)
	if !ok {
		t.Fatalf("no %s", key)
	}
	return v
}
