package exposition_test

import (
	"testing"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

const utf8Page = `# HELP "a.b" words
# TYPE "a.b" counter
{"a.b",x="1"} 1
# TYPE plain gauge
plain{"l.m"="1",l_m="2"} 2
plain{"l.m"="1"} 3
plain{"l:m"="1",z="\\"} 4
# TYPE h histogram
h_bucket{le="1","é"="x"} 5
`

func TestUTF8Names(t *testing.T) {
	m := merge(textPage(t, utf8Page))
	want(t, m, openMetrics, true, `
		# HELP "a.b" words
		# TYPE "a.b" unknown
		{"a.b",x="1"} 1
		# TYPE h histogram
		h_bucket{le="1.0","é"="x"} 5
		# TYPE plain gauge
		plain{"l.m"="1",l_m="2"} 2
		plain{"l.m"="1"} 3
		plain{"l:m"="1",z="\\"} 4
	`)
	want(t, m, openMetrics, false, `
		# HELP a_b words
		# TYPE a_b unknown
		a_b{x="1"} 1
		# TYPE h histogram
		h_bucket{_="x",le="1.0"} 5
		# TYPE plain gauge
		plain{U__l_2e_m="1",l_m="2"} 2
		plain{l_m="1"} 3
		plain{l_m="1",z="\\"} 4
	`)
	want(t, m, text, false, `
		# HELP a_b words
		# TYPE a_b counter
		a_b{x="1"} 1
		# TYPE h histogram
		h_bucket{_="x",le="1"} 5
		# TYPE plain gauge
		plain{U__l_2e_m="1",l_m="2"} 2
		plain{l_m="1"} 3
		plain{l_m="1",z="\\"} 4
	`)
	requireLosses(t, m, exposition.Losses{})
}

// A family that would pass for another one is left out, and counted.
func TestEscapedNamesThatClash(t *testing.T) {
	m := merge(textPage(t, "a_b 1\n"+`{"a.b"} 2
{"c-d"} 3
{"c.d"} 4
# TYPE e_f_total counter
e_f_total 5
{"e.f"} 6
# TYPE "g.h_total" counter
{"g.h_total"} 7
# TYPE g_h gauge
g_h 8
{"one",x="1"} 9
{"two","x.y"="1"} 10
{"two","x-y"="1"} 11
`))
	want(t, m, text, false, `
		# TYPE a_b untyped
		a_b 1
		# TYPE c_d untyped
		c_d 3
		# TYPE e_f_total counter
		e_f_total 5
		# TYPE g_h_total counter
		g_h_total 7
		# TYPE g_h gauge
		g_h 8
		# TYPE one untyped
		one{x="1"} 9
		# TYPE two untyped
		two{x_y="1"} 10
	`)
	want(t, m, openMetrics, false, `
		# TYPE a_b unknown
		a_b 1
		# TYPE c_d unknown
		c_d 3
		# TYPE e_f counter
		e_f_total 5
		# TYPE g_h_total unknown
		g_h_total 7
		# TYPE g_h gauge
		g_h 8
		# TYPE one unknown
		one{x="1"} 9
		# TYPE two unknown
		two{x_y="1"} 10
	`)
	requireLosses(t, m, exposition.Losses{EscapedSamples: 3})
}
