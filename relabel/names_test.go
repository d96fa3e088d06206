package relabel

import (
	"testing"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

func TestNormalizePrefix(t *testing.T) {
	tests := []struct{ name, prefix, want string }{
		{"vllm_omni:audio_rtf", "vllm:omni_", "vllm:omni_audio_rtf"},
		{"vllm:omni_audio_rtf", "vllm:omni_", "vllm:omni_audio_rtf"},
		{"v_llm_omni:audio_rtf", "vllm:omni_", "vllm:omni_audio_rtf"},
		{"vllm:omni_audio_rtf", "vllm_omni:", "vllm_omni:audio_rtf"},
		{"vllm:omni_audio_rtf", KeepPrefix, "vllm:omni_audio_rtf"},
		{"vllm_omni:audio_rtf", KeepPrefix, "vllm_omni:audio_rtf"},
		{"vllm_omni:audio_rtf", "", "vllm_omni:audio_rtf"},
		{"vllm:num_requests_running", "vllm_omni:", "vllm:num_requests_running"},
		{"my_vllm_omni:x", "vllm:omni_", "my_vllm_omni:x"},
		{"vllm:omni", "vllm_omni:", "vllm:omni"},
	}
	for _, tt := range tests {
		if got := normalizePrefix(tt.name, tt.prefix); got != tt.want {
			t.Errorf("%q with prefix %q = %q, want %q", tt.name, tt.prefix, got, tt.want)
		}
	}
}

func TestCurrentName(t *testing.T) {
	tests := []struct {
		name string
		typ  exposition.Type
		want string // "" for none
	}{
		{"vllm:gpu_cache_usage_perc", exposition.Gauge, "vllm:kv_cache_usage_perc"},
		{"vllm:gpu_cache_usage_perc", exposition.Counter, ""},
		{"vllm:gpu_cache_usage_perc", exposition.Unknown, ""},
		{"vllm:gpu_prefix_cache_queries", exposition.Counter, "vllm:prefix_cache_queries"},
		{"vllm:gpu_prefix_cache_hits", exposition.Gauge, ""},
		{"vllm:time_per_output_token_seconds", exposition.Histogram, "vllm:inter_token_latency_seconds"},
		{"vllm:time_in_queue_requests", exposition.Histogram, "vllm:request_queue_time_seconds"},
		{"vllm:estimated_flops_per_gpu_total", exposition.Counter, "vllm:estimated_flops_per_gpu"}, // the Rust front end's
		{"vllm:iteration_tokens_total", exposition.Histogram, ""},
		{"other_total", exposition.Counter, ""},
		{"vllm:gpu_prefix_cache_hit_rate", exposition.Gauge, ""}, // a ratio: its successors are counters
		{"vllm:cpu_cache_usage_perc", exposition.Gauge, ""},
	}
	for _, tt := range tests {
		got, ok := currentName(tt.name, tt.typ)
		if ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("%v %q: %q, %t; want %q", tt.typ, tt.name, got, ok, tt.want)
		}
	}
}

// Old names get their current one if that is free, by type, in both formats.
func TestAliases(t *testing.T) {
	tests := []struct {
		name   string
		format exposition.Format
		page   string
		want   string // in text
	}{
		{"gauge", exposition.Text, `
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc 1
`, `# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc 1
`},
		{"the current one is there", exposition.Text, `
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc 1
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc 2
`, `# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc 1
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc 2
`},
		{"the current one is declared and empty", exposition.Text, `
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc 1
# TYPE vllm:kv_cache_usage_perc gauge
`, `# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc 1
`},
		{"the current one is only spoken of", exposition.Text, `
# HELP vllm:gpu_cache_usage_perc DEPRECATED: use vllm:kv_cache_usage_perc instead.
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{use="vllm:kv_cache_usage_perc 5"} 1
`, `# HELP vllm:kv_cache_usage_perc DEPRECATED: use vllm:kv_cache_usage_perc instead.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{use="vllm:kv_cache_usage_perc 5"} 1
`},
		{"wrong type", exposition.Text, `
# TYPE vllm:gpu_cache_usage_perc counter
vllm:gpu_cache_usage_perc 1
vllm:gpu_prefix_cache_hits_total 2
`, `# TYPE vllm:gpu_cache_usage_perc counter
vllm:gpu_cache_usage_perc 1
# TYPE vllm:gpu_prefix_cache_hits_total untyped
vllm:gpu_prefix_cache_hits_total 2
`},
		{"counters with their creation times", exposition.Text, `
# TYPE vllm:gpu_prefix_cache_hits_total counter
vllm:gpu_prefix_cache_hits_total 1
# TYPE vllm:gpu_prefix_cache_hits_created gauge
vllm:gpu_prefix_cache_hits_created 1.7e+09
`, `# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total 1
`},
		{"histogram", exposition.Text, `
# TYPE vllm:time_in_queue_requests histogram
vllm:time_in_queue_requests_bucket{le="+Inf"} 1
vllm:time_in_queue_requests_sum 2
`, `# TYPE vllm:request_queue_time_seconds histogram
vllm:request_queue_time_seconds_bucket{le="+Inf"} 1
vllm:request_queue_time_seconds_sum 2
`},
		{"the Rust front end", exposition.OpenMetrics, `
# TYPE vllm:estimated_flops_per_gpu_total counter
vllm:estimated_flops_per_gpu_total_total 1
# TYPE vllm:gpu_prefix_cache_hits counter
vllm:gpu_prefix_cache_hits_total 2
# EOF
`, `# TYPE vllm:estimated_flops_per_gpu_total counter
vllm:estimated_flops_per_gpu_total 1
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total 2
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := rewriteText(t, Options{Aliases: true}, tt.page[1:], tt.format)
			if got != tt.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
			plain, _ := rewriteText(t, Options{}, tt.page[1:], tt.format)
			if again, _ := rewriteText(t, Options{Aliases: true}, got, exposition.Text); again != got {
				t.Errorf("a second exporter changes it to:\n%s", again)
			}
			if tt.name == "gauge" && plain == got {
				t.Error("names change without being asked to")
			}
		})
	}
}

// rewriteText returns what becomes of a page, as a text page, and its summary.
func rewriteText(t *testing.T, o Options, page string, f exposition.Format) (string, *Summary) {
	t.Helper()
	r, _, err := NewTarget(NewRules(o), nil).Rewrite([]byte(page), f)
	if err != nil {
		t.Fatal(err)
	}
	return string(views(t, r.Page, true)[exposition.Text]), r.Summary
}
