package benchmark

import (
	"cmp"
	"slices"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// measurementCheck judges the benchmark_measurement of one retained FPM.
type measurementCheck struct {
	*groupCheck
	fpm, node, point doc.Node
	id, rank         int64
	position         int // of the group, which is how many points were completed before it
}

func (m *measurementCheck) check(wall float64, wallKnown bool) {
	if !m.hasProtocol {
		m.want(!m.node.Present(), m.node, RuleMeasurement, "none: the artifact has no measurement_protocol")
		return
	}
	version, ok := m.node.Key("schema_version").Int()
	if !m.want(ok && version == blockSchemaVersion, m.node, RuleMeasurement, "an object of schema_version %d", blockSchemaVersion) {
		return
	}
	rank, ok := m.node.Key("dp_rank").Int()
	m.want(ok && rank == m.rank, m.node.Key("dp_rank"), RuleMeasurementRank, "%d", m.rank)
	m.wantText(m.node.Key("point_key"), RulePointKey, PointKey(m.point))
	prep := m.node.Key("preparation")
	grid, _ := prep.Key("grid_digest").Text()
	m.want(m.gridDigest == "" || grid == m.gridDigest, prep.Key("grid_digest"), RuleMeasurementGrid, "%q, the artifact's", m.gridDigest)
	before, ok := prep.Key("completed_points_before").Int()
	m.want(ok && before == int64(m.position), prep.Key("completed_points_before"), RuleMeasurementOrder, "%d, the groups before this one", m.position)
	m.checkPrompts(m.node.Key("prompts"))
	samples := m.checkSamples()
	m.checkEstimate(samples, wall, wallKnown)
	if m.hasExecution {
		m.want(!m.fpm.Key("benchmark_sample").Present(), m.fpm.Key("benchmark_sample"), RuleRetainedSample,
			"none: the retained estimate can combine several samples")
		l, known := m.ledgers[m.rank]
		first, ok := m.node.Key("raw_fpms").At(0).Key("benchmark_sample").Key("forward_index").Int()
		m.checkWarmupReference(prep.Key("warmup_records_before"), l, known, first, ok)
	}
}

// checkPrompts judges what is recorded of the injected prompts: digests only with status recorded, slots in order.
func (m *measurementCheck) checkPrompts(p doc.Node) {
	if !m.oneOf(p.Key("status"), RulePromptEvidence, evidenceRecorded, evidenceUnavailable) {
		return
	}
	requests := p.Key("requests")
	if status, _ := p.Key("status").Text(); status == evidenceUnavailable {
		list, _ := requests.Array()
		m.want(p.Key("sha256").IsNone(), p.Key("sha256"), RulePromptEvidence, "null with status unavailable")
		m.want(requests.IsNone() || len(list) == 0, requests, RulePromptEvidence, "no requests with status unavailable")
		m.note(p, RulePromptUnavailable, evidenceUnavailable, "recorded prompts; missing evidence is not a match")
		return
	}
	list, ok := requests.Array()
	if !m.want(ok && len(list) > 0, requests, RulePromptEvidence, "the prompts of the requests") {
		return
	}
	good := m.want(isDigest(p.Key("sha256")), p.Key("sha256"), RulePromptEvidence, "a SHA-256 in hex")
	for i, r := range requests.Items() {
		slot, ok := r.Key("slot").Int()
		good = m.want(ok && slot == int64(i), r.Key("slot"), RulePromptEvidence, "%d, the position", i) && good
		_, ok = m.count(r.Key("num_tokens"), RulePromptEvidence)
		good = m.want(isDigest(r.Key("sha256")), r.Key("sha256"), RulePromptEvidence, "a SHA-256 in hex") && ok && good
	}
	if sum, _ := p.Key("sha256").Text(); good && sum != canonicalSHA256(requests.Value()) {
		m.note(p.Key("sha256"), RulePromptDigest, p.Key("sha256").Show(), "%q, the SHA-256 of the requests", canonicalSHA256(requests.Value()))
	}
}

// checkSamples judges raw_fpms one by one and returns their wall times; nil when one of them is not usable.
func (m *measurementCheck) checkSamples() []float64 {
	raw := m.node.Key("raw_fpms")
	list, ok := raw.Array()
	expected, okExpected := m.node.Key("expected_internal_samples").Int()
	if !m.want(okExpected && expected >= 1, m.node.Key("expected_internal_samples"), RuleRawSamples, "an integer >= 1") {
		expected = int64(len(list))
	}
	if !ok || len(list) == 0 || int64(len(list)) > expected {
		m.failFound(raw, RuleRawSamples, doc.Show(doc.Number(len(list)))+" samples", "1..%d samples, the number expected", expected)
		return nil
	}
	walls := make([]float64, 0, len(list))
	for i, s := range raw.Items() {
		wall, ok := m.sample(s, i)
		if ok {
			walls = append(walls, wall)
		}
	}
	if len(walls) != len(list) {
		return nil
	}
	return walls
}

func (m *measurementCheck) sample(s doc.Node, index int) (wall float64, ok bool) {
	counter, isInt := s.Key("counter_id").Int()
	m.want(isInt && counter == m.id, s.Key("counter_id"), RuleRawIdentity, "%d, the benchmark id", m.id)
	rank, isInt := s.Key("dp_rank").Int()
	m.want(isInt && rank == m.rank, s.Key("dp_rank"), RuleRawIdentity, "%d", m.rank)
	worker := m.fpm.Key("worker_id")
	m.want(doc.Equal(s.Key("worker_id").Value(), worker.Value()), s.Key("worker_id"), RuleRawIdentity, "%s, the retained FPM's", worker.Show())
	wall, ok = secondsOf(s.Key("wall_time"))
	m.want(ok, s.Key("wall_time"), RuleRawWallTime, "finite seconds >= 0")

	sample := s.Key("benchmark_sample")
	if !m.hasExecution {
		m.want(!sample.Present(), sample, RuleSampleWithout, "none: the protocol declares no execution_evidence")
		return wall, ok
	}
	at, isInt := sample.Key("sample_index").Int()
	m.want(isInt && at == int64(index), sample.Key("sample_index"), RuleSampleIndex, "%d, the position", index)
	last, seen := m.forwards[m.rank]
	if !seen {
		last = -1
	}
	forward, isInt := sample.Key("forward_index").Int()
	if m.want(isInt && forward > last, sample.Key("forward_index"), RuleForwardIndex, "more than %d, the rank's forward before", last) {
		m.forwards[m.rank] = forward
	}
	m.checkSampleTiming(sample, wall, ok)
	m.checkGraph(sample.Key("cudagraph"))
	return wall, ok
}

// Reductions of raw samples to the retained estimate (Measurement Protocol, estimate.method).
const (
	methodSingle = "single_step"
	methodLast   = "last_step"
	methodMedian = "adjacent_upper_median"
)

// checkEstimate judges that the retained wall time is the stated reduction of the stated samples.
func (m *measurementCheck) checkEstimate(walls []float64, wall float64, wallKnown bool) {
	e := m.node.Key("estimate")
	if !m.oneOf(e.Key("method"), RuleEstimateMethod, methodSingle, methodLast, methodMedian) {
		return
	}
	n := len(walls)
	if n == 0 {
		return
	}
	method, _ := e.Key("method").Text()
	expected, _ := m.node.Key("expected_internal_samples").Int()
	var from int
	switch method {
	case methodSingle:
		if !m.want(n == 1, e.Key("method"), RuleEstimateMethod, "another method: there are %d samples", n) {
			return
		}
	case methodLast:
		from = n - 1
	case methodMedian:
		// The first sample is the admission step, so a median needs a second one.
		if !m.want(n > 1 && expected > 1, e.Key("method"), RuleEstimateMethod, "another method: there is only the admission step") {
			return
		}
		from = 1
	}
	indices, ok := ints(e.Key("raw_sample_indices"))
	for i, at := range indices {
		ok = ok && at == int64(from+i)
	}
	if !m.want(ok && len(indices) == n-from, e.Key("raw_sample_indices"), RuleEstimateIndices, "%d..%d, what %s takes of %d samples", from, n-1, method, n) {
		return
	}
	sorted := slices.SortedFunc(slices.Values(walls[from:]), cmp.Compare)
	if reduced := sorted[len(sorted)/2]; wallKnown && !near(wall, reduced, sumTolerance) {
		m.fail(m.fpm.Key("wall_time"), RuleEstimateValue, "%s s, the %s of the samples", seconds(reduced), method)
	}
}
