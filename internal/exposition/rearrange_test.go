package exposition_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// A merger of other sources says what a new one would, and goes on to.
func TestRearranged(t *testing.T) {
	a := textPage(t, "# TYPE x gauge\nx{i=\"a\"} 1\nboth 1\n")
	b := textPage(t, "# TYPE x gauge\nx{i=\"b\"} 2\nboth 2\n")
	c := textPage(t, "# TYPE x gauge\nx{i=\"c\"} 3\nboth 3\n")
	pages := func(list ...*exposition.Page) []*exposition.Page {
		for _, p := range list {
			if p != nil {
				p.Retain()
			}
		}
		return list
	}
	m := exposition.NewMerger(3)
	m.Merge(pages(a, b, nil)).Release()
	for name, test := range map[string]struct {
		from  []int
		pages []*exposition.Page
	}{
		"one left":       {[]int{1}, []*exposition.Page{b}},
		"one came":       {[]int{0, 1, -1}, []*exposition.Page{a, b, c}},
		"turned about":   {[]int{1, 0}, []*exposition.Page{b, a}},
		"one had none":   {[]int{2, 0}, []*exposition.Page{c, a}},
		"one has none":   {[]int{0, 1}, []*exposition.Page{nil, b}},
		"all are others": {[]int{-1, -1}, []*exposition.Page{c, a}},
		"none":           {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			rearranged := m.Rearranged(test.from)
			for range 2 {
				got := rearranged.Merge(pages(test.pages...))
				want := exposition.NewMerger(len(test.pages)).Merge(pages(test.pages...))
				if g, w := written(t, got, exposition.Text, false), written(t, want, exposition.Text, false); g != w {
					t.Errorf("got\n%s\nwant\n%s", g, w)
				}
				if got.Losses() != want.Losses() {
					t.Errorf("losses %+v, want %+v", got.Losses(), want.Losses())
				}
				got.Release()
				want.Release()
			}
		})
	}
}

// What one of a thousand targets that has gone costs the next page, with 500 lines a
// target: with a merger that knows the others, and with a new one.
func BenchmarkTargetGone(b *testing.B) {
	const targets, lines = 1000, 500
	pages := make([]*exposition.Page, targets)
	for i := range pages {
		var text strings.Builder
		for line := range lines {
			fmt.Fprintf(&text, "vllm:family_%d{engine=\"0\",le=\"%d\",model_name=\"m\",target=\"%d\"} 1\n", line/20, line%20, i)
		}
		r, _, err := newTarget().Rewrite([]byte(text.String()), exposition.Text)
		if err != nil {
			b.Fatal(err)
		}
		pages[i] = r.Page
	}
	known := exposition.NewMerger(targets)
	known.Merge(pages)
	from := make([]int, targets-1)
	for i := range from {
		from[i] = i + 1
	}
	b.Run("known", func(b *testing.B) {
		for b.Loop() {
			known.Rearranged(from).Merge(pages[1:])
		}
	})
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			exposition.NewMerger(targets - 1).Merge(pages[1:])
		}
	})
}
