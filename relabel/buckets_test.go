package relabel

import (
	"testing"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

func TestFindBound(t *testing.T) {
	for series, want := range map[string]string{
		`m_bucket{le="0.5"} `:                       "0.5",
		`m_bucket{engine="0",le="+Inf",model="a"} `: "+Inf",
		`m_bucket{a="x,le=",b="y",le="0.5"} `:       "0.5",
		`m_bucket{a="{le=\"1\"",le="2"} `:           "2",
		`m_bucket{a="\\",le="2"} `:                  "2",
		`m_bucket{a="1",fle="3"} `:                  "",
		`m_bucket{le="1\n"} `:                       "",
		`m_bucket{a = "1",le="2"} `:                 "",
		`{"m_bucket",le="2"} `:                      "",
		`m_bucket `:                                 "",
		`m_bucket{le="1`:                            "",
		`m_bucket{`:                                 "",
	} {
		start, end, ok := findBound([]byte(series))
		if got := series[start:end]; ok != (want != "") || ok && got != want {
			t.Errorf("%s: bound %q, %v, want %q", series, got, ok, want)
		}
	}
}

// TestBucketsThatOnlyLookAlike is about lines that a search for `,le="` would take
// for buckets of one histogram.
func TestBucketsThatOnlyLookAlike(t *testing.T) {
	const page = `# TYPE m histogram
m_bucket{a="x,le=",b="y",engine="0",le="1"} 1
m_bucket{a="x,le=",zz="y",engine="0",le="1"} 1
m_bucket{a="x,le=",engine="y",le="1"} 1
m_bucket{a="x,le=",engine="1",le="1"} 1
m_bucket{a="x,le=",engine="1",le="2.50"} 1
`
	const want = `m_bucket{a="x,le=",b="y",le="1",replica="0",stage="0"} 1
m_bucket{a="x,le=",le="1",replica="0",stage="0",zz="y"} 1
m_bucket{a="x,le=",engine="y",le="1"} 1
m_bucket{a="x,le=",le="1",replica="1",stage="0"} 1
m_bucket{a="x,le=",le="2.50",replica="1",stage="0"} 1
`
	rules := NewRules(Options{Topology: FlatTopology([]Pool{{Stage: "0", Replicas: 2}})})
	r, _, err := NewTarget(rules, nil).Rewrite([]byte(page), exposition.Text)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.Page.Text()); got != want {
		t.Errorf("page is\n%s\nwant\n%s", got, want)
	}
}
