//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fleet is a configuration of upstreams, good ones and bad ones, in one pipeline.
type fleet struct {
	good    []string          // host:port
	reasons map[string]string // host:port of a bad one -> the reason it must be counted under
}

// startFleet starts three good peers and one of each fault, and takes the further bad addresses as they are.
func startFleet(t *testing.T, further map[string]string) fleet {
	t.Helper()
	f := fleet{reasons: further}
	for fault, reason := range map[string]string{
		"status": "status", "html": "content_type", "empty": "empty", "truncate": "truncated", "endless": "body_size",
	} {
		f.reasons[startPeer(t, "--fault="+fault)] = reason
	}
	for i, manner := range []string{"--engines=2", "--engines=2", "--openmetrics"} {
		f.good = append(f.good, startPeer(t, fmt.Sprintf("--model=good-%d", i), manner))
	}
	return f
}

// config puts the bad ones first: what comes after them must not suffer.
func (f fleet) config(t *testing.T, global string) string {
	t.Helper()
	var yaml strings.Builder
	fmt.Fprintf(&yaml, "global: {body_size_limit: 256KB, %s}\npipelines:\n  - stages: [{replicas: 1}]\n    upstreams:\n", global)
	upstream := func(replica, address string) {
		fmt.Fprintf(&yaml, "      - {stage: \"0\", replica: %q, static_configs: [{targets: [%q]}]}\n", replica, address)
	}
	for address, reason := range f.reasons {
		upstream("bad-"+reason, address)
	}
	for i, address := range f.good {
		upstream(fmt.Sprint("good-", i), address)
	}
	return writeConfig(t, yaml.String())
}

// goodPages are what the good ones show in text, with the places config gives them.
func (f fleet) goodPages(t *testing.T, twins []string) []upstreamPage {
	t.Helper()
	pages := make([]upstreamPage, len(f.good))
	for i, address := range twins {
		pages[i] = upstreamPage{
			page:   get(t, "http://"+address+"/page", acceptText),
			places: fmt.Sprintf("0=0/good-%d,1=0/good-%d.1,*=0/good-%d", i, i, i),
		}
	}
	return pages
}

// TestBadUpstreamsCostTheirOwnSeries scrapes ten upstreams of which seven misbehave, each in another way.
func TestBadUpstreamsCostTheirOwnSeries(t *testing.T) {
	const scrapeTimeout = 3 * time.Second
	f := startFleet(t, map[string]string{
		startPeer(t, "--hold"): "timeout",
		freeAddress(t):         "connect",
	})
	_, exporter := startExporter(t, "--web.disable-exporter-metrics",
		"--config.file="+f.config(t, fmt.Sprintf("scrape_timeout: %s", scrapeTimeout)))

	began := time.Now()
	page := get(t, exporter+"/metrics", acceptText)
	if took := time.Since(began); took > scrapeTimeout+time.Second {
		t.Errorf("the page took %v, want at most a second more than the scrape timeout of %v", took, scrapeTimeout)
	}

	twins := []string{f.good[0], f.good[1], startPeer(t, "--model=good-2")}
	compare(t, page, f.goodPages(t, twins)...)
	own := families(t, page)
	for _, address := range f.good {
		if up := value(t, own, "omni_exporter_target_up", map[string]string{"target": address}); up != 1 {
			t.Errorf("omni_exporter_target_up of the good %s is %v, want 1", address, up)
		}
	}
	for address, reason := range f.reasons {
		if up := value(t, own, "omni_exporter_target_up", map[string]string{"target": address}); up != 0 {
			t.Errorf("omni_exporter_target_up of %s (%s) is %v, want 0", address, reason, up)
		}
		failures := value(t, own, "omni_exporter_target_scrape_failures_total",
			map[string]string{"target": address, "reason": reason})
		if failures != 1 {
			t.Errorf("%s: %v failures counted as %s, want 1", address, failures, reason)
		}
	}
}

// TestThousandScrapesLeakNothing demands that file descriptors and goroutines stay where they are while good and bad
// upstreams are scraped over and over.
func TestThousandScrapesLeakNothing(t *testing.T) {
	const warm, scrapes = 50, 1000
	// More than what a scrape holds while it renders its own page; a leak of one a scrape is far beyond it.
	const slack = 20
	f := startFleet(t, map[string]string{freeAddress(t): "connect"})
	exporter, url := startExporter(t, "--config.file="+f.config(t, "min_scrape_interval: 0s"))

	held := func(times int) (descriptors, goroutines float64) {
		for range times {
			get(t, url+"/metrics", acceptText)
		}
		own := families(t, get(t, url+"/metrics", acceptText))
		return value(t, own, "process_open_fds", nil), value(t, own, "go_goroutines", nil)
	}
	descriptorsBefore, goroutinesBefore := held(warm)
	held(scrapes)
	// What the last scrape still holds may take a moment to be let go.
	await(t, "return of descriptors and goroutines", readyTimeout, exporter, func(context.Context) error {
		descriptors, goroutines := held(0)
		t.Logf("descriptors %v -> %v, goroutines %v -> %v", descriptorsBefore, descriptors, goroutinesBefore, goroutines)
		if descriptors > descriptorsBefore+slack || goroutines > goroutinesBefore+slack {
			return fmt.Errorf("descriptors %v -> %v, goroutines %v -> %v",
				descriptorsBefore, descriptors, goroutinesBefore, goroutines)
		}
		return nil
	})
	exporter.endsCleanly(t, syscall.SIGTERM)
}
