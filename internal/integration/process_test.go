//go:build integration

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// builder builds this repository's programs once for all tests.
type builder struct {
	once sync.Once
	dir  string
	err  error
}

// programs is written by TestMain and path only.
var programs builder

func TestMain(m *testing.M) {
	code := m.Run()
	if programs.dir != "" {
		_ = os.RemoveAll(programs.dir)
	}
	os.Exit(code)
}

// path returns where the program of cmd/name is, built from the tree as it is.
func (b *builder) path(t *testing.T, name string) string {
	t.Helper()
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "omni-integration-"); b.err != nil {
			return
		}
		build := exec.Command("go", "build", "-o", b.dir+"/", "./cmd/omni_exporter", "./cmd/omnitool")
		build.Dir = filepath.Join("..", "..")
		if out, err := build.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return filepath.Join(b.dir, name)
}

// output keeps what a process wrote, for looking at it while it runs and for the log of a failed test.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// outputLimit bounds what is kept of one process; what comes later is dropped.
const outputLimit = 1 << 20

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if room := outputLimit - o.buf.Len(); room > 0 {
		o.buf.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// process is a program that a test started. It is ended with the test, and must end on SIGTERM.
type process struct {
	name    string
	cmd     *exec.Cmd
	out     output
	done    chan struct{} // closed when the process has ended
	waitErr error         // what Wait returned; to be read after done
}

// stopTimeout is how long a process may take to end after a signal.
const stopTimeout = 20 * time.Second

// start runs a program until the test ends.
func start(t *testing.T, path string, args ...string) *process {
	t.Helper()
	p := &process{name: filepath.Base(path), cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", path, err)
	}
	go func() {
		p.waitErr = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.end(t, syscall.SIGTERM)
		if t.Failed() {
			t.Logf("output of %s %q:\n%s", p.name, args, p.out.String())
		}
	})
	return p
}

// end signals the process unless it has ended already, and awaits its end.
func (p *process) end(t *testing.T, signal os.Signal) {
	t.Helper()
	select {
	case <-p.done:
		return
	default:
	}
	// It may end between the look and the signal.
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signalling %s: %v", p.name, err)
	}
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		t.Errorf("%s still runs %v after %v", p.name, stopTimeout, signal)
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// endsCleanly signals the process and demands exit status 0.
func (p *process) endsCleanly(t *testing.T, signal os.Signal) {
	t.Helper()
	p.end(t, signal)
	if p.waitErr != nil {
		t.Errorf("%s after %v: %v", p.name, signal, p.waitErr)
	}
}

// pollInterval is the time between two looks of await.
const pollInterval = 50 * time.Millisecond

// await looks until check returns nil, and fails the test when that takes longer than within or a process it depends on
// ends first.
func await(t *testing.T, what string, within time.Duration, p *process, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-p.done:
			t.Fatalf("%s ended while waiting for %s: %v", p.name, what, p.waitErr)
		case <-ctx.Done():
			t.Fatalf("no %s within %v: %v", what, within, err)
		case <-tick.C:
		}
	}
}

// freeAddress returns a loopback address that nobody listens on. Another process could take it before the one it is for;
// the programs started here can be told no other way where to listen and still be found.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
