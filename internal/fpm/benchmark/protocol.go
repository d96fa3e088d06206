package benchmark

import "github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"

// fixedText is a member whose value the version-1 protocol fixes.
type fixedText struct{ key, value string }

// protocolTexts are the fixed values of measurement_protocol (Measurement Protocol, first table).
func protocolTexts() []fixedText {
	return []fixedText{
		{"content_identity", "coordinate_rank_slot_v1"},
		{"prompt_hash_encoding", "uint32_le"},
		{"timing_metric", "scheduler_wall_time"},
		{"input_evidence_scope", "injected_prompt_token_ids"},
	}
}

// executionTexts are the fixed values of measurement_protocol.execution_evidence, the contract for benchmark_sample and
// warmup_evidence (Per-Sample Timing and Graph Dispatch, Warmup Completion Evidence).
func executionTexts() []fixedText {
	return []fixedText{
		{"sample_field", "benchmark_sample"},
		{"warmup_field", "warmup_evidence"},
		{"forward_index_scope", "rank_process"},
		{"timing_clock", "process_local_monotonic"},
		{"cudagraph_source", "ModelRunnerOutput.cudagraph_stats"},
		{"warmup_scope", "request_completion_and_existing_shape_validation"},
	}
}

// Content modes of the synthetic prompts.
func contentModes() []string { return []string{"random", "sharegpt", "sharegpt_chain", "zeros"} }

func (a *artifact) protocol() doc.Node { return a.Root.Key("measurement_protocol") }

// checkProtocol judges measurement_protocol. A run without one is a legacy run: readable, but with nothing to show for how it
// was measured.
func (a *artifact) checkProtocol() {
	p := a.protocol()
	a.hasProtocol = p.Present()
	if !a.hasProtocol {
		a.note(p, RuleProtocolAbsent, "a legacy artifact", "a measurement_protocol; without one nothing shows how the run was measured")
		return
	}
	if _, ok := p.Object(); !a.want(ok, p, RuleProtocol, "an object") {
		return
	}
	a.wantInt(p.Key("schema_version"), RuleProtocol, blockSchemaVersion)
	a.wantInt(p.Key("independent_repetitions"), RuleProtocol, 1)
	for _, f := range protocolTexts() {
		a.wantText(p.Key(f.key), RuleProtocol, f.value)
	}
	a.checkProtocolSettings(p)
	contract := p.Key("execution_evidence")
	a.hasExecution = contract.Present()
	if !a.hasExecution {
		return
	}
	a.wantInt(contract.Key("schema_version"), RuleExecutionContract, blockSchemaVersion)
	for _, f := range executionTexts() {
		a.wantText(contract.Key(f.key), RuleExecutionContract, f.value)
	}
}

func (a *artifact) wantInt(n doc.Node, rule Rule, want int64) {
	v, ok := n.Int()
	a.want(ok && v == want, n, rule, "%d", want)
}

func (a *artifact) wantText(n doc.Node, rule Rule, want string) {
	s, ok := n.Text()
	a.want(ok && s == want, n, rule, "%q", want)
}

func (a *artifact) checkProtocolSettings(p doc.Node) {
	for _, key := range []string{"content_seed", "synthetic_pool_tag"} {
		_, ok := p.Key(key).Text()
		a.want(ok, p.Key(key), RuleProtocolSettings, "a string")
	}
	a.oneOf(p.Key("synthetic_content"), RuleProtocolSettings, contentModes()...)
	unobserved := p.Key("unobserved")
	items, ok := unobserved.Array()
	for _, v := range items {
		s, isText := v.(string)
		ok = ok && isText && s != ""
	}
	a.want(ok, unobserved, RuleProtocolSettings, "an array of names")
	prep := p.Key("preparation")
	for _, key := range []string{"warmup_iterations", "giant_kv_threshold", "giant_kv_repeats"} {
		a.count(prep.Key(key), RuleProtocolSettings)
	}
	for _, key := range []string{"prefill_real_seed", "decode_real_kv_warmup"} {
		_, ok := prep.Key(key).Bool()
		a.want(ok, prep.Key(key), RuleProtocolSettings, "true or false")
	}
}

// checkSameProtocol compares the protocols of two files of a run (Measurement Protocol, last paragraph).
func (a *artifact) checkSameProtocol(first *artifact) {
	switch {
	case a.hasProtocol != first.hasProtocol:
		found, want := "a protocol", "none"
		if !a.hasProtocol {
			found, want = want, found
		}
		a.failFound(a.protocol(), RuleProtocolMixed, found, "%s as in %s: a legacy run and one with a protocol do not mix", want, first.Path)
	case !doc.Equal(a.protocol().Value(), first.protocol().Value()):
		at, other := firstDifference(a.protocol(), first.protocol())
		a.fail(at, RuleProtocolMismatch, "%s as in %s", other.Show(), first.Path)
	}
}

// firstDifference goes down two unequal values to the first place where they differ.
func firstDifference(a, b doc.Node) (left, right doc.Node) {
	oa, okA := a.Object()
	ob, okB := b.Object()
	if okA && okB {
		for key := range oa.All() {
			if l, r := a.Key(key), b.Key(key); l.Present() != r.Present() || !doc.Equal(l.Value(), r.Value()) {
				return firstDifference(l, r)
			}
		}
		for key := range ob.All() {
			if l := a.Key(key); !l.Present() {
				return l, b.Key(key)
			}
		}
	}
	xs, okA := a.Array()
	ys, okB := b.Array()
	if okA && okB {
		for i := range max(len(xs), len(ys)) {
			if l, r := a.At(i), b.At(i); l.Present() != r.Present() || !doc.Equal(l.Value(), r.Value()) {
				return firstDifference(l, r)
			}
		}
	}
	return a, b
}
