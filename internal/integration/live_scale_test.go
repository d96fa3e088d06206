//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

// startShard runs a Prometheus server that takes its share of the exporter's targets by hashmod.
func startShard(t *testing.T, exporterURL string, index, count int) *prometheus {
	t.Helper()
	return startPrometheus(t, prometheusPath(t, "prometheus"), fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: omni
    honor_labels: true
    http_sd_configs: [{url: %s/api/v1/http_sd, refresh_interval: 1s}]
    relabel_configs:
      - {source_labels: [__param_pipeline, __param_target], modulus: %d, target_label: __tmp_shard, action: hashmod}
      - {source_labels: [__tmp_shard], regex: "%d", action: keep}
`, exporterURL, count, index))
}

// Two Prometheus servers share twelve upstreams and the exporter's own families by /api/v1/http_sd and hashmod: each is
// scraped by exactly one, through /probe, under its own instance, and is in the right place.
func TestLivePrometheusShards(t *testing.T) {
	const upstreams, shards = 12, 2
	var targets []string
	for i := range upstreams {
		targets = append(targets, strconv.Quote(startUpstream(t, i).address))
	}
	exporter, url := startExporter(t, "--config.file="+writeConfig(t, fmt.Sprintf(`
pipelines:
- name: disaggregated
  stages: [{name: prefill}, {name: decode}]
  upstreams:
  - {stage: "0", static_configs: [{targets: [%s]}]}
  - {stage: "1", static_configs: [{targets: [%s]}]}
`, strings.Join(targets[:4], ","), strings.Join(targets[4:], ","))))
	servers := make([]*prometheus, shards)
	for i := range servers {
		servers[i] = startShard(t, url, i, shards)
	}

	scrapedBy := map[string][]int{}
	await(t, "scrapes of all upstreams", readyTimeout, exporter, func(ctx context.Context) error {
		clear(scrapedBy)
		for i, server := range servers {
			vector, err := server.query(ctx, `count_over_time(vllm:num_requests_running[1d]) >= 3`)
			if err != nil {
				return err
			}
			for _, sample := range vector {
				place := fmt.Sprintf("%s %s/%s", sample.Metric["instance"], sample.Metric["stage"], sample.Metric["replica"])
				scrapedBy[place] = append(scrapedBy[place], i)
			}
		}
		if len(scrapedBy) < upstreams {
			return fmt.Errorf("%d so far", len(scrapedBy))
		}
		return nil
	})
	if len(scrapedBy) != upstreams {
		t.Errorf("series of %d engines, want %d: %v", len(scrapedBy), upstreams, scrapedBy)
	}
	for i, target := range targets {
		stage, replica := 0, i
		if i >= 4 {
			stage, replica = 1, i-4
		}
		address, _ := strconv.Unquote(target)
		place := fmt.Sprintf("%s %d/%d", address, stage, replica)
		if by := scrapedBy[place]; len(by) != 1 {
			t.Errorf("engine %s is scraped by shards %v, want one", place, by)
		}
	}
	shares := map[int]int{}
	owners := 0
	for i, server := range servers {
		list, err := server.api.Targets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range list.Active {
			if target.Health != promv1.HealthGood {
				t.Errorf("shard %d: %s is %s: %s", i, target.ScrapeURL, target.Health, target.LastError)
			}
		}
		shares[i] = len(list.Active)
		own, err := server.query(t.Context(), `omni_exporter_engines_seen`)
		if err != nil {
			t.Fatal(err)
		}
		if len(own) > 0 {
			owners++
			for _, sample := range own {
				want := map[string]float64{"0": 4, "1": 8}[string(sample.Metric["stage"])]
				if float64(sample.Value) != want {
					t.Errorf("engines_seen of stage %s is %v, want %v", sample.Metric["stage"], sample.Value, want)
				}
			}
		}
	}
	if shares[0]+shares[1] != upstreams+1 || shares[0] == 0 || shares[1] == 0 {
		t.Errorf("shares %v of %d upstreams and the exporter itself", shares, upstreams)
	}
	if owners != 1 {
		t.Errorf("%d shards have the exporter's own families, want one", owners)
	}
	t.Logf("shares of the shards: %v", shares)
}

// footprint is what the exporter says of itself.
type footprint struct {
	Goroutines, Descriptors, RSS, Heap float64
}

func footprintOf(t *testing.T, url string) footprint {
	t.Helper()
	page := families(t, get(t, url+"/metrics?targets=none", acceptText))
	of := func(name string) float64 { return value(t, page, name, nil) }
	return footprint{of("go_goroutines"), of("process_open_fds"), of("process_resident_memory_bytes"), of("go_memstats_heap_inuse_bytes")}
}

// Of a thousand targets, a hundred go and a hundred others come, ten times: as many as in ten minutes at a tenth a
// minute. Memory, goroutines and descriptors stay where they were.
func TestLiveChurn(t *testing.T) {
	const targets, churn, steps = 1000, 100, 10
	// Every address of 127.0.0.0/8 is ours: one listener is as many targets as are wanted.
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	var page strings.Builder
	for i := range 50 {
		fmt.Fprintf(&page, "# TYPE vllm:family_%d gauge\nvllm:family_%d{engine=\"0\",model_name=\"m\"} %d\n", i, i, i)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", acceptText)
		_, _ = w.Write([]byte(page.String()))
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })

	file := filepath.Join(t.TempDir(), "targets.json")
	first := 0
	list := func() string {
		addresses := make([]string, targets)
		for i := range addresses {
			n := first + i
			addresses[i] = fmt.Sprintf("127.1.%d.%d:%d", n/250, 1+n%250, port)
		}
		out, err := json.Marshal([]map[string]any{{"targets": addresses}})
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	replaceFile(t, file, list())
	exporter, url := startExporter(t, "--config.file="+writeConfig(t, fmt.Sprintf(`
global: {min_scrape_interval: 0s}
pipelines: [{stages: [{}], upstreams: [{stage: "0", file_sd_configs: [{files: [%q]}]}]}]
`, file)))
	settled := func() {
		newest := first + targets - 1
		label := fmt.Sprintf(`{target="127.1.%d.%d:%d"} 1`, newest/250, 1+newest%250, port)
		await(t, "page with the newest target", readyTimeout, exporter, func(ctx context.Context) error {
			body, err := fetch(ctx, url+"/metrics", acceptText)
			if err != nil {
				return err
			}
			if !strings.Contains(body, "omni_exporter_target_up"+label) {
				return errors.New("not there")
			}
			if up := strings.Count(body, "\nomni_exporter_target_up{"); up != targets {
				return fmt.Errorf("%d targets", up)
			}
			if series := strings.Count(body, "\nvllm:family_0{"); series != targets {
				return fmt.Errorf("series of %d targets", series)
			}
			return nil
		})
	}
	settled()
	var before footprint
	for step := range steps + 2 {
		if step == 2 { // the first changes fill the pools of buffers
			before = footprintOf(t, url)
		}
		first += churn
		replaceFile(t, file, list())
		began := time.Now()
		settled()
		t.Logf("step %d: %v, %+v", step, time.Since(began).Round(time.Millisecond), footprintOf(t, url))
	}
	var after footprint
	await(t, "connections to targets that went to be closed", readyTimeout, exporter, func(context.Context) error {
		after = footprintOf(t, url)
		if after.Descriptors > before.Descriptors+churn/2 || after.Goroutines > before.Goroutines+churn {
			return fmt.Errorf("before %+v, now %+v", before, after)
		}
		return nil
	})
	if after.Heap > 1.5*before.Heap || after.RSS > 1.5*before.RSS {
		t.Errorf("memory went from %+v to %+v", before, after)
	}
	t.Logf("before %+v, after %+v", before, after)
}

// Clients that send their headers or a body slowly, or not at all, are cut off, and meanwhile cost others nothing.
func TestLiveSlowClients(t *testing.T) {
	t.Parallel() // it waits for time limits of ten seconds
	exporter, url := startExporter(t, "--web.max-connections=50")
	address := strings.TrimPrefix(url, "http://")
	ctx, cancel := context.WithTimeout(t.Context(), readyTimeout)
	defer cancel()
	var slow sync.WaitGroup
	for name, request := range map[string]string{
		"no byte":            "",
		"headers cut short":  "GET /metrics HTTP/1.1\r\nHost: a\r\nX: ",
		"body never sent":    "POST /-/reload HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n",
		"body of a GET":      "GET /metrics?targets=none HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n",
		"chunk never sent":   "PUT /-/quit HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
		"endless body":       "DELETE / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n",
		"events never sent":  "POST /api/v1/events HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n",
		"no HTTP":            "\x16\x03\x01",
		"an unknown version": "GET / HTTP/9.9\r\n\r\n",
	} {
		for range 3 {
			slow.Go(func() {
				began := time.Now()
				if _, err := exchange(ctx, address, request); err != nil && !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("%s: not cut off after %v: %v", name, time.Since(began), err)
				}
			})
		}
	}
	for range 5 {
		get(t, url+"/metrics", acceptText)
	}
	slow.Wait()
	await(t, "end of the slow connections", readyTimeout, exporter, func(ctx context.Context) error {
		page, err := fetch(ctx, url+"/metrics", acceptText)
		if err == nil && !strings.Contains(page, "omni_exporter_open_connections 1\n") {
			err = errors.New("some are open")
		}
		return err
	})
}

// Nothing of a request becomes an address: whatever the parameters say, the exporter asks its targets and nobody else.
func TestLiveNoForgedRequests(t *testing.T) {
	target, victim := startUpstream(t, 1), startUpstream(t, 2)
	_, url := startExporter(t, "--upstream="+target.address)
	bait := "http://" + victim.address + "/"
	for _, path := range []string{"/", "/metrics", "/probe", "/api/v1/targets", "/api/v1/http_sd", "/api/v1/status", "/-/ready"} {
		for _, parameter := range []string{"target", "targets", "pipeline", "url", "module", "host", "match[]", "name[]"} {
			for _, forged := range []string{victim.address, bait, "//" + victim.address, target.address + "@" + victim.address, "..%2f" + victim.address} {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path+"?"+parameter+"="+forged, nil)
				if err != nil {
					t.Fatal(err)
				}
				request.Host = victim.address
				request.Header.Set("X-Forwarded-Host", victim.address)
				request.Header.Set("Referer", bait)
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				if response.StatusCode >= http.StatusInternalServerError || response.StatusCode/100 == 3 {
					t.Errorf("%s: status %d", request.URL, response.StatusCode)
				}
			}
		}
	}
	if n := victim.scrapes.Load(); n != 0 {
		t.Errorf("%d requests reached a server that is no target", n)
	}
	if target.scrapes.Load() == 0 {
		t.Error("the target was never asked")
	}
}
