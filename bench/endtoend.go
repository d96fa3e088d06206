package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// exporterBinary builds the real exporter and returns its path and what removes it.
func exporterBinary() (string, func(), error) {
	dir, err := os.MkdirTemp("", "omni_exporter-bench")
	if err != nil {
		return "", nil, err
	}
	path := filepath.Join(dir, "omni_exporter")
	build := exec.Command("go", "build", "-o", path, "./cmd/omni_exporter")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, fmt.Errorf("build the exporter: %w\n%s", err, out)
	}
	return path, func() { _ = os.RemoveAll(dir) }, nil
}

// startExporter starts the exporter over the targets, with a pipeline of one stage,
// and returns when it is ready. Targets are asked for every scrape.
func startExporter(binary string, targets []string) (*process, error) {
	var c strings.Builder
	fmt.Fprintf(&c, "global: {min_scrape_interval: 0s, scrape_timeout: 60s}\ninclude: [\"*\"]\npipelines:\n- stages: [{name: llm, replicas: %d}]\n  upstreams:\n  - static_configs: [{targets: [", len(targets))
	for i, t := range targets {
		if i > 0 {
			c.WriteByte(',')
		}
		fmt.Fprintf(&c, "%q", t)
	}
	c.WriteString("]}]\n")
	file := filepath.Join(filepath.Dir(binary), "omni_exporter.yml")
	if err := os.WriteFile(file, []byte(c.String()), 0o600); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	_ = l.Close()
	cmd := exec.Command(binary, "--config.file="+file, "--web.listen-address="+address, "--log.level=error", "--web.enable-pprof")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the exporter: %w", err)
	}
	p := &process{cmd: cmd, stdin: in, addresses: []string{address}}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get("http://" + address + "/-/ready")
		if err == nil {
			_ = resp.Body.Close()
			return p, nil
		}
		if time.Now().After(deadline) {
			p.stop()
			return nil, fmt.Errorf("the exporter is not ready: %w", err)
		}
	}
}

// answer is one scrape of a proxy.
type answer struct {
	firstByte, whole time.Duration
	size             int64
}

func scrapeProxy(p *process, body io.Writer) (answer, error) {
	start := time.Now()
	req, err := http.NewRequest(http.MethodGet, "http://"+p.addresses[0]+"/metrics", nil)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	a := answer{firstByte: time.Since(start)}
	if resp.StatusCode != http.StatusOK {
		return a, fmt.Errorf("HTTP status %d", resp.StatusCode)
	}
	a.size, err = io.Copy(body, resp.Body)
	a.whole = time.Since(start)
	return a, err
}

// endToEnd prints the processor time of a scrape through the exporter and through
// the concatenating proxy, in turn over the same upstreams.
func endToEnd(targets, scrapes int) error {
	upstreams, err := startRole(roleUpstreams, fmt.Sprint("-n=", targets), "-size=50000")
	if err != nil {
		return err
	}
	defer upstreams.stop()
	binary, remove, err := exporterBinary()
	if err != nil {
		return err
	}
	defer remove()
	exporter, err := startExporter(binary, upstreams.addresses)
	if err != nil {
		return err
	}
	defer exporter.stop()
	concat, err := startRole(roleConcat, upstreams.addresses...)
	if err != nil {
		return err
	}
	defer concat.stop()
	var page bytes.Buffer
	if _, err := scrapeProxy(exporter, &page); err != nil {
		return fmt.Errorf("scrape the exporter: %w", err)
	}
	if seen := strings.Count(page.String(), "\nomni_exporter_target_up{"); seen != targets || strings.Contains(page.String(), `_up{target="`+upstreams.addresses[0]+`"} 0`) {
		return fmt.Errorf("the exporter shows %d of %d targets", seen, targets)
	}
	proxies := []*process{exporter, concat}
	spent := make([]time.Duration, len(proxies))
	sizes := make([]int64, len(proxies))
	const turn = 20
	for done := 0; done < scrapes; done += turn {
		for i, p := range proxies {
			before, err := p.usage()
			if err != nil {
				return err
			}
			for range turn {
				a, err := scrapeProxy(p, io.Discard)
				if err != nil {
					return fmt.Errorf("scrape a proxy: %w", err)
				}
				sizes[i] = a.size
			}
			after, err := p.usage()
			if err != nil {
				return err
			}
			spent[i] += after.processor - before.processor
		}
	}
	t := table.NewWriter()
	t.SetOutputMirror(os.Stdout)
	t.SetTitle("%d upstreams of 50 kB, identity encoding, %d scrapes each", targets, scrapes)
	t.AppendHeader(table.Row{"", "processor time, times concatenating", "ms a scrape", "bytes"})
	for i, name := range []string{"omni_exporter", "fetch and concatenate"} {
		t.AppendRow(table.Row{
			name, fmt.Sprintf("%.2f", float64(spent[i])/float64(spent[1])),
			fmt.Sprintf("%.2f", spent[i].Seconds()*1e3/float64(scrapes)), sizes[i],
		})
	}
	t.Render()
	fmt.Println()
	return nil
}
