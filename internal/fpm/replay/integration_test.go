//go:build integration

package replay

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
)

// A real libzmq subscriber, with heartbeats on, gets every row of a replay.
func TestReplayToLibzmq(t *testing.T) {
	paths, want := write(t, false)
	plan, err := Look(t.Context(), paths, "127.0.0.1", 0, trace.Filter{Workers: []string{"200"}}, trace.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := plan.Start(t.Context(), discard)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	python := cmp.Or(os.Getenv("OMNI_PYTHON"), "/usr/bin/python3")
	peer := exec.CommandContext(t.Context(), python, filepath.Join("testdata", "subscriber.py"), r.Endpoints()[0], "40")
	var out strings.Builder
	peer.Stdout, peer.Stderr = &out, t.Output()
	if err := peer.Start(); err != nil {
		t.Fatal(err)
	}
	if without := r.AwaitSubscribers(t.Context(), 30*time.Second); without > 0 {
		t.Error("the peer did not subscribe")
	}
	// Over more than a second, so that its heartbeats are answered or it leaves.
	if err := r.Run(t.Context(), paths, 0.15, trace.Filter{Workers: []string{"200"}}, nil); err != nil {
		t.Error(err)
	}
	if err := peer.Wait(); err != nil {
		t.Fatalf("subscriber.py: %v", err)
	}
	d := fpm.NewDecoder()
	records := want["200/0"]
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var sequence uint64
		var text string
		if _, err := fmt.Sscan(line, &sequence, &text); err != nil {
			t.Fatal(err)
		}
		payload, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		var got fpm.Record
		if why := d.Decode(payload, &got); why != nil {
			t.Fatal(why)
		}
		if got != records[i] || sequence != records[i].CounterID {
			t.Errorf("message %d is number %d, %+v, want %+v", i, sequence, got, records[i])
		}
	}
}
