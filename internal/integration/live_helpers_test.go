//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// upstreamServer is an engine's page of a few families, told apart by an index.
type upstreamServer struct {
	address string
	scrapes atomic.Int64
}

// startUpstream serves a page at a loopback address of its own choice.
func startUpstream(t *testing.T, index int) *upstreamServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstreamServer{address: listener.Addr().String()}
	serveEngine(t, listener, func() int { u.scrapes.Add(1); return index })
	return u
}

// serveEngine answers each request at the listener with an engine's page.
func serveEngine(t *testing.T, listener net.Listener, index func() int) {
	t.Helper()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i := index()
		w.Header().Set("Content-Type", acceptText)
		_, _ = fmt.Fprintf(w, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"m\"} %d\n", i)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
}

// replaceFile replaces a file as a whole.
func replaceFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// awaitTargets waits until the exporter's list of targets is the one wanted, and demands that the next scrape shows
// those targets and no other.
func awaitTargets(t *testing.T, exporter *process, url string, want ...string) {
	t.Helper()
	await(t, fmt.Sprint("targets ", want), readyTimeout, exporter, func(ctx context.Context) error {
		body, err := fetch(ctx, url+"/api/v1/targets", "")
		if err != nil {
			return err
		}
		for _, address := range want {
			if !strings.Contains(body, fmt.Sprintf(`"target":%q`, address)) {
				return fmt.Errorf("%s is not among %s", address, body)
			}
		}
		if n := strings.Count(body, `"target":`); n != len(want) {
			return fmt.Errorf("%d targets", n)
		}
		return nil
	})
	page := families(t, get(t, url+"/metrics", acceptText))
	for _, address := range want {
		if up := value(t, page, "omni_exporter_target_up", map[string]string{"target": address}); up != 1 {
			t.Errorf("target_up of %s is %v in the first scrape after the change", address, up)
		}
	}
	if n := len(page["omni_exporter_target_up"].GetMetric()); n != len(want) {
		t.Errorf("%d targets in the first scrape after the change, want %d", n, len(want))
	}
	if n := len(page["vllm:num_requests_running"].GetMetric()); n != len(want) {
		t.Errorf("series of %d engines in the first scrape after the change, want %d", n, len(want))
	}
}

// exchange writes bytes to an address and returns what comes back until the other side closes.
func exchange(ctx context.Context, address, request string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return string(answer), err
}
