package deploy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLimitsAreDocumented holds the table of docs/security.md against the constants:
// whoever changes one is led to the other.
func TestLimitsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []struct{ file, constant, row string }{
		{"internal/config/pipeline.go", "BodySizeLimit:     32 * units.MiB", "decompressed | 32 MiB | `body_size_limit`"},
		{"internal/config/pipeline.go", "ScrapeTimeout:     model.Duration(10 * time.Second)", "| 10 s, and the caller's | `scrape_timeout`"},
		{"internal/scrape/fetch.go", "maxDrain = 64 << 10", "to keep a connection | 64 KiB |"},
		{"internal/scrape/fetch.go", "maxRedirects = 3", "| redirects | 3,"},
		{"cmd/omni_exporter/main.go", "readHeaderTimeout = 10 * time.Second", "headers are there; size of them | 10 s; 64 KiB"},
		{"cmd/omni_exporter/main.go", "maxHeaderBytes = 64 << 10", "headers are there; size of them | 10 s; 64 KiB"},
		{"cmd/omni_exporter/main.go", "idleTimeout = 5 * time.Minute", "| idle connection | 5 min |"},
		{"internal/web/guard.go", "answerTimeout = time.Minute", "answer has been taken | 1 min |"},
		{"internal/config/config.go", "MaxBodySize:            units.MiB", "| 1 MiB | `events.max_body_size`"},
		{"internal/config/config.go", "MaxSeries:              10000", "| 10,000 | `events.max_series`"},
		{"internal/events/handler.go", "maxLineLength = 512 << 10", "| event | 512 KiB |"},
		{"internal/events/handler.go", "maxConcurrentBodies = 64", "time to send one | 64; 30 s |"},
		{"internal/events/handler.go", "bodyReadTimeout = 30 * time.Second", "time to send one | 64; 30 s |"},
		{"collector/guard.go", "MaxLabelLength = 1024", "| 1024 B, 512 B |"},
		{"collector/guard.go", "MaxRequestIDLength = 512", "| 1024 B, 512 B |"},
		{"collector/guard.go", "MaxSeconds = 7 * 24 * 3600.0", "| 7 days; 1 s |"},
		{"collector/guard.go", "MaxClockSkew = 1.0", "| 7 days; 1 s |"},
		{"collector/guard.go", "MaxTransferBytes = 1 << 50", "| 1 PiB |"},
		{"internal/fpm/stream/limits.go", "maxFrame = 64 << 10", "command | 64 KiB; 8; 4 KiB |"},
		{"internal/fpm/stream/limits.go", "maxParts = 8", "command | 64 KiB; 8; 4 KiB |"},
		{"internal/fpm/stream/limits.go", "maxCommand = 4 << 10", "command | 64 KiB; 8; 4 KiB |"},
		{"internal/fpm/stream/limits.go", "maxJunk = 10_000", "in a second | 10,000 |"},
		{"internal/fpm/stream/limits.go", "Ping: 5 * time.Second, Idle: 15 * time.Second", "given up | 5 s; 15 s |"},
		{"collector/fpm.go", "DefaultFPMMaxIdentities = 4096", "| 4096; 128 |"},
		{"collector/fpm.go", "maxIdentitiesPerOrigin = 128", "| 4096; 128 |"},
		{"internal/fpm/decode.go", "maxText      = 256", "| 256 B; 1 h; 65,535 |"},
		{"internal/fpm/record.go", "MaxWallTime = 3600.0", "| 256 B; 1 h; 65,535 |"},
		{"internal/fpm/record.go", "MaxDPRank = 65535", "| 256 B; 1 h; 65,535 |"},
		{"internal/fpm/trace/decode.go", "MaxLine = 1 << 20", "| 1 MiB; 64 MiB; 10,000 |"},
		{"internal/fpm/trace/follower.go", "maxMember = 64 << 20", "| 1 MiB; 64 MiB; 10,000 |"},
		{"internal/fpm/trace/follower.go", "maxFiles = 10_000", "| 1 MiB; 64 MiB; 10,000 |"},
		{"internal/fpm/benchmark/doc/parse.go", "DefaultBytes  = 64 << 20", "| 64 MiB; 64; 4,000,000; 256 |"},
		{"internal/fpm/benchmark/doc/parse.go", "DefaultDepth  = 64", "| 64 MiB; 64; 4,000,000; 256 |"},
		{"internal/fpm/benchmark/doc/parse.go", "DefaultValues = 4_000_000", "| 64 MiB; 64; 4,000,000; 256 |"},
		{"collector/fpm_benchmark.go", "maxBenchmarkFiles = 256", "| 64 MiB; 64; 4,000,000; 256 |"},
		{"internal/web/status_page.go", "maxShownTargets  = 500", "| 500, 200, 500;"},
		{"internal/web/status_page.go", "maxShownEngines  = 200", "| 500, 200, 500;"},
		{"internal/web/status_page.go", "maxShownRanks    = 500", "| 500, 200, 500;"},
	} {
		source, err := os.ReadFile(filepath.Join("..", limit.file))
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.Contains(string(source), limit.constant) {
			t.Errorf("%s has no %q any more: change this test, and the row %q of docs/security.md", limit.file, limit.constant, limit.row)
		}
		if !strings.Contains(string(doc), limit.row) {
			t.Errorf("docs/security.md has no row with %q", limit.row)
		}
	}
}
