package benchmark

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// Phases of a point, its point_type.
const (
	PhasePrefill = "prefill"
	PhaseDecode  = "decode"
)

// PointKey is the identity of a point's coordinates: the SHA-256, in hex, of the canonical JSON of its type, batch size,
// token counts and, where the grid has them, partition and rows. It depends neither on the grid nor on the benchmark id, so
// it names the same shape in two runs (Measurement Protocol, point_key). A point recorded as giant_fake_off_by_batch is named
// by its recorded coordinates.
func PointKey(point doc.Node) string {
	identity := doc.NewObject()
	for _, key := range []string{"point_type", "batch_size"} {
		identity.Set(key, point.Key(key).Value())
	}
	for _, key := range []string{"total_prefill_tokens", "total_kv_read_tokens"} {
		v := point.Key(key)
		if !v.Present() {
			identity.Set(key, json.Number("0"))
			continue
		}
		identity.Set(key, v.Value())
	}
	for _, key := range []string{"partition", "rows"} {
		identity.Set(key, point.Key(key).Value())
	}
	return canonicalSHA256(identity)
}

func canonicalSHA256(v any) string {
	sum := sha256.Sum256(doc.Canonical(v))
	return hex.EncodeToString(sum[:])
}

// isDigest says whether n is a SHA-256 in lower-case hex.
func isDigest(n doc.Node) bool {
	s, ok := n.Text()
	if !ok || len(s) != 2*sha256.Size {
		return false
	}
	for _, r := range s {
		if (r < '0' || r > '9') && (r < 'a' || r > 'f') {
			return false
		}
	}
	return true
}

// checkPoint judges a point's coordinates and that the benchmark's mode has its phase.
func (a *artifact) checkPoint(p doc.Node) {
	if _, ok := p.Object(); !a.want(ok, p, RulePoint, "an object") {
		return
	}
	batch, ok := p.Key("batch_size").Int()
	a.want(ok && batch >= 1, p.Key("batch_size"), RulePoint, "an integer >= 1")
	for _, key := range []string{"total_prefill_tokens", "total_kv_read_tokens"} {
		if p.Key(key).Present() {
			a.count(p.Key(key), RulePoint)
		}
	}
	if !a.oneOf(p.Key("point_type"), RulePoint, PhasePrefill, PhaseDecode) {
		return
	}
	phase, _ := p.Key("point_type").Text()
	mode, _ := a.Root.Key("config").Key("mode").Text()
	a.want(mode != PhasePrefill && mode != PhaseDecode || mode == phase, p.Key("point_type"), RulePointPhase,
		"%q, the only phase of benchmark mode %s", mode, mode)
}

// checkShape compares the scheduled counts of a retained FPM with its point. The producer skips a point whose batch came out
// differently, so a difference is odd, but no rule of the artifact.
func (a *artifact) checkShape(fpm, point doc.Node) {
	scheduled := fpm.Key("scheduled_requests")
	pairs := [][2]string{{"num_prefill_requests", "batch_size"}, {"sum_prefill_tokens", "total_prefill_tokens"}}
	if phase, _ := point.Key("point_type").Text(); phase == PhaseDecode {
		pairs = [][2]string{{"num_decode_requests", "batch_size"}}
	}
	for _, p := range pairs {
		got, ok1 := scheduled.Key(p[0]).Int()
		want, ok2 := point.Key(p[1]).Int()
		if ok1 && ok2 && got != want {
			a.note(scheduled.Key(p[0]), RuleFPMShape, scheduled.Key(p[0]).Show(), "%d, the point's %s", want, p[1])
		}
	}
}
