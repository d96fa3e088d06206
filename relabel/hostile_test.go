package relabel

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// Pages that a peer could send to make an exporter busy. Each is of a size at which
// work that grows with its square would take minutes.
func TestHostilePages(t *testing.T) {
	repeat := func(n int, line func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(line(i))
		}
		return b.String()
	}
	tests := map[string]struct {
		page   string
		format exposition.Format
	}{
		"labels in reverse": {page: "g{" + repeat(200_000, func(i int) string { return fmt.Sprintf("l%06d=\"\",", 999_999-i) }) + "} 1\n"},
		"names that escape to one": {page: "g{" + repeat(20_000, func(i int) string {
			return fmt.Sprintf("\"%c%c%c\"=\"1\",", 0x400+i%100, 0x400+i/100%100, 0x400+i/10000)
		}) + "} 1\n"},
		"families that escape to one": {page: repeat(50_000, func(i int) string {
			return fmt.Sprintf("{\"%c%c%c\"} 1\n", 0x400+i%100, 0x400+i/100%100, 0x400+i/10000)
		})},
		"one series, over and over": {page: strings.Repeat("a 1\n", 200_000)},
		"families, each twice":      {page: repeat(40_000, func(i int) string { return fmt.Sprintf("a%d 1\na%d 2\n", i, i) })},
		"families in turns":         {page: strings.Repeat("a 1\nb 1\n", 100_000)},
		"old names": {page: repeat(30_000, func(i int) string {
			return fmt.Sprintf("# TYPE vllm:a%d_total counter\nvllm:a%d_total_total 1\n", i, i)
		}) + "# EOF\n", format: exposition.OpenMetrics},
		"a current name in one line": {page: "# TYPE vllm:gpu_cache_usage_perc gauge\n# HELP a " + strings.Repeat("vllm:kv_cache_usage_perc ", 100_000) + "\n"},
		"engines":                    {page: repeat(100_000, func(i int) string { return fmt.Sprintf("g{engine=\"%d\"} 1\n", i) })},
		"buckets in turns":           {page: "# TYPE h histogram\n" + repeat(100_000, func(i int) string { return fmt.Sprintf("h_bucket{a=\"%d\",le=\"%d\"} 1\n", i%1000, i) })},
		"escapes":                    {page: "g{a=\"" + strings.Repeat(`\x\"`, 300_000) + "\"} 1\n"},
		"an exemplar of many labels": {page: "a 1 # {" + repeat(100_000, func(i int) string { return fmt.Sprintf("l%d=\"\",", i) }) + "} 1\n# EOF\n", format: exposition.OpenMetrics},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			target := NewTarget(NewRules(Options{Topology: FlatTopology([]Pool{{"0", 2}}), Aliases: true}), nil)
			merger := exposition.NewMerger(1)
			for i, page := range []string{tt.page, tt.page, "first 1\n" + tt.page} {
				r, _, err := target.Rewrite([]byte(page), tt.format)
				if err != nil {
					return // refused is fine
				}
				m := merger.Merge([]*exposition.Page{r.Page})
				for _, utf8 := range []bool{true, false} {
					for f := range 2 {
						if size := m.View(exposition.Format(f), utf8).Size(); size > 4*len(page)+1<<20 {
							t.Errorf("page %d of %d bytes became %d", i, len(page), size)
						}
					}
				}
			}
			if d := time.Since(start); d > time.Minute {
				t.Errorf("took %v", d) // linear work takes about a second
			}
		})
	}
}
