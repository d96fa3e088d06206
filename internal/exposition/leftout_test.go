package exposition

import (
	"slices"
	"testing"
)

// leftOutPage builds a page of families in the order of their first line. A line is a
// family's key, its type, and the series.
func leftOutPage(t *testing.T, lines ...[3]string) *Page {
	t.Helper()
	var b Builder
	b.Reset(nil, 64, len(lines))
	families := map[[2]string]int{}
	for _, l := range lines {
		typ, ok := ParseType([]byte(l[1]), OpenMetrics)
		if !ok {
			t.Fatalf("no type %q", l[1])
		}
		key := [2]string{l[0], l[1]}
		if _, ok := families[key]; !ok {
			families[key] = b.Family(Family{Key: l[0], Type: typ})
		}
		var s Sample
		if err := ParseSample([]byte(l[2]+" 1\n"), 1, Text, &s); err != nil {
			t.Fatal(err)
		}
		b.Line(families[key], s.Name, s.Labels, &s, Text)
	}
	return b.Finish()
}

func TestLeftOut(t *testing.T) {
	first := leftOutPage(t,
		[3]string{"a", "gauge", `a{x="1"}`},
		[3]string{"b", "gauge", "b"},
		[3]string{"a", "gauge", `a{x="2"}`},
		[3]string{"a", "gauge", `a{x="1"}`}, // twice
		[3]string{"a", "counter", "a"},      // another type
		[3]string{"g", "gaugehistogram", `g_bucket{le="1"}`},
	)
	second := leftOutPage(t,
		[3]string{"b", "histogram", "b_count"}, // another type than in the first
		[3]string{"a", "gauge", `a{x="2"}`},    // in the first too
		[3]string{"a", "gauge", `a{x="3"}`},
	)
	m := NewMerger(3).Merge([]*Page{first, nil, second})
	if got, want := m.LeftOut(0), []Loss{LossNone, LossNone, LossNone, LossDuplicate, LossType, LossFormat}; !slices.Equal(got, want) {
		t.Errorf("first source: %v, want %v", got, want)
	}
	if got := m.LeftOut(1); got != nil {
		t.Errorf("absent source: %v, want none", got)
	}
	if got, want := m.LeftOut(2), []Loss{LossType, LossDuplicate, LossNone}; !slices.Equal(got, want) {
		t.Errorf("third source: %v, want %v", got, want)
	}

	// What is told line by line adds up to what is counted.
	counts := map[Loss]int{}
	for _, source := range []int{0, 2} {
		for _, loss := range m.LeftOut(source) {
			counts[loss]++
		}
	}
	l := m.Losses()
	if counts[LossType] != l.TypeSamples || counts[LossDuplicate] != l.DuplicateSamples || counts[LossFormat] != l.GaugeHistogramSamples {
		t.Errorf("told %v, counted %+v", counts, l)
	}
}
