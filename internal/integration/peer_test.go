//go:build integration

package integration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// readyTimeout is how long a program may take to start on a busy machine.
const readyTimeout = time.Minute

// python returns the interpreter that has Debian's python3-prometheus-client: the system's, whatever is first in PATH.
func python() string {
	return cmp.Or(os.Getenv("OMNI_PYTHON"), "/usr/bin/python3")
}

// startPeer runs peers/vllm_peer.py and returns its host:port.
func startPeer(t *testing.T, args ...string) string {
	t.Helper()
	peer := start(t, python(), append([]string{filepath.Join("peers", "vllm_peer.py")}, args...)...)
	var address string
	await(t, "address of the vLLM peer", readyTimeout, peer, func(context.Context) error {
		line, _, whole := strings.Cut(peer.out.String(), "\n")
		if !whole {
			return errors.New("nothing printed")
		}
		address = line
		return nil
	})
	return address
}

// startExporter runs omni_exporter and returns it and its base URL once it is ready.
func startExporter(t *testing.T, args ...string) (exporter *process, url string) {
	t.Helper()
	address := freeAddress(t)
	exporter = start(t, programs.path(t, "omni_exporter"), append(args, "--web.listen-address="+address)...)
	url = "http://" + address
	awaitReady(t, exporter, url)
	return exporter, url
}

// awaitReady awaits that the server answers on /-/ready, as this exporter and Prometheus do.
func awaitReady(t *testing.T, p *process, url string) {
	t.Helper()
	await(t, "ready "+p.name, readyTimeout, p, func(ctx context.Context) error {
		_, err := fetch(ctx, url+"/-/ready", "")
		return err
	})
}

// writeConfig writes an exporter configuration and returns its path.
func writeConfig(t *testing.T, yaml string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "omni_exporter.yml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// upstreamPage is what one upstream shows, and the place of each of its engines: "engine=stage/replica,...".
type upstreamPage struct {
	page, places string
}

// compare holds the exporter's page against its upstreams' with peers/compare.py.
func compare(t *testing.T, exporterPage string, upstreams ...upstreamPage) {
	t.Helper()
	dir := t.TempDir()
	save := func(name, page string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	args := []string{filepath.Join("peers", "compare.py"), save("exporter", exporterPage)}
	for i, upstream := range upstreams {
		args = append(args, "--upstream", save(fmt.Sprint("upstream", i), upstream.page), upstream.places)
	}
	out, err := exec.CommandContext(t.Context(), python(), args...).CombinedOutput()
	if err != nil {
		t.Errorf("compare.py: %v\n%s", err, out)
		return
	}
	t.Logf("compare.py: %s", out)
}
