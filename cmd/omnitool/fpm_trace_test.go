package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/summary"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace/tracetest"
)

// traces writes the traces of two workers, in two segments and one, whose rows take turns, and returns a pattern of
// their names and the lines in order of time.
func traces(t *testing.T) (pattern string, lines []string) {
	t.Helper()
	prefix := filepath.Join(t.TempDir(), "dynamo-fpm")
	files := make(map[trace.SegmentName][]trace.Row)
	for i := range uint64(100) {
		for j, worker := range []string{"100", "200"} {
			row := tracetest.Row(worker, i, tracetest.Start.Add(time.Duration(i)*100*time.Millisecond+time.Duration(j)*time.Millisecond))
			row.Record.DPRank = i % 2
			name := trace.SegmentName{Prefix: prefix, Producer: worker}
			if worker == "100" {
				name.Index = i / 50
			}
			files[name] = append(files[name], row)
			lines = append(lines, strings.TrimSuffix(string(row.AppendJSON(nil)), "\n"))
		}
	}
	for name, rows := range files {
		if err := tracetest.WriteFile(name.String(), rows, 7); err != nil {
			t.Fatal(err)
		}
	}
	return prefix + ".*", lines
}

func TestFPMCat(t *testing.T) {
	pattern, lines := traces(t)
	joined := func(keep func(i int) bool) string {
		var b strings.Builder
		for i, line := range lines {
			if keep(i) {
				b.WriteString(line + "\n")
			}
		}
		return b.String()
	}
	for _, test := range []struct {
		args []string
		keep func(i int) bool
	}{
		{nil, func(int) bool { return true }},
		{[]string{"--worker=200"}, func(i int) bool { return i%2 == 1 }},
		{[]string{"--worker=200", "--worker=100", "--rank=1"}, func(i int) bool { return i/2%2 == 1 }},
		{[]string{"--since=2026-06-30T20:00:02Z", "--until=2026-06-30T22:00:03.001+02:00"}, func(i int) bool { return i >= 40 && i <= 60 }},
		{[]string{"--worker=300"}, func(int) bool { return false }},
		{[]string{"--since=1ns"}, func(int) bool { return false }},
	} {
		got := omnitool(t, "", append([]string{"fpm", "cat", pattern}, test.args...)...)
		if want := joined(test.keep); got.code != 0 || got.err != "" || got.out != want {
			t.Errorf("%q: status %d, %d lines, want %d: %s", test.args, got.code, strings.Count(got.out, "\n"), strings.Count(want, "\n"), got.err)
		}
	}
}

func TestFPMTraceErrors(t *testing.T) {
	pattern, _ := traces(t)
	broken := file(t, "broken.jsonl.gz", "no gzip\x1b[2J")
	text := "{}\n"
	for range 30 {
		text += "{}\n"
	}
	many := filepath.Join(t.TempDir(), "many.jsonl.gz")
	if err := os.WriteFile(many, gzipped(t, text), 0o600); err != nil {
		t.Fatal(err)
	}
	picture := filepath.Join(t.TempDir(), "picture.svg")
	for _, test := range []struct {
		args     []string
		code     int
		out, err string
	}{
		{[]string{"cat"}, 2, "", "required"},
		{[]string{"cat", pattern, "--since=yesterday"}, 2, "", `--since: "yesterday" is neither a time`},
		{[]string{"cat", pattern, "--from-end"}, 2, "", "--from-end goes with --follow"},
		{[]string{"cat", pattern, "--rank=-1"}, 2, "", "rank"},
		{[]string{"cat", "/nowhere/*.gz"}, 1, "", "/nowhere/*.gz: no such file"},
		{[]string{"cat", "/nowhere/x.gz"}, 1, "", "/nowhere/x.gz"},
		{[]string{"cat", broken}, 1, "", "broken.jsonl.gz: gzip member at byte 0: this is no gzip file"},
		{[]string{"summary", broken, pattern}, 1, "100", "no gzip file"},
		{[]string{"summary", many}, 1, "worker", "line 20: forward-pass record refused (schema): event.schema: absent\nand 11 more problems"},
		{[]string{"plot", pattern, "-o", "picture.gif"}, 2, "", `"picture.gif" is neither an .svg nor a .png file`},
		{[]string{"plot", broken, "-o", picture}, 1, "", "no rows to draw"},
		{[]string{"plot", pattern, "-o", "/nowhere/picture.svg"}, 1, "", "write plot"},
		{[]string{"replay", pattern, "--listen-address=20380"}, 2, "", "--listen-address"},
		{[]string{"replay", pattern, "--speed=0"}, 2, "", "--speed"},
		{[]string{"replay", broken}, 1, "", "no rows to replay"},
	} {
		t.Run(strings.Join(test.args[:1], " "), func(t *testing.T) {
			omnitool(t, "", append([]string{"fpm"}, test.args...)...).demand(t, test.code, test.out, test.err)
		})
	}
	if _, err := os.Stat(picture); err == nil {
		t.Error("a picture of nothing was written")
	}
}

func TestFPMSummary(t *testing.T) {
	pattern, _ := traces(t)
	omnitool(t, "", "fpm", "summary", pattern).demand(t, 0, "20ms/20", "")
	got := omnitool(t, "", "fpm", "summary", "--output=json", "--worker=100", pattern)
	var ranks []summary.Rank
	if err := json.Unmarshal([]byte(got.out), &ranks); err != nil {
		t.Fatal(err)
	}
	if len(ranks) != 2 || ranks[1].WorkerID != "100" || ranks[1].DPRank != 1 || ranks[1].Rows != 50 || ranks[1].Lost != 49 || ranks[1].DecodeRequests != 200 {
		t.Errorf("%+v", ranks)
	}
}

func TestFPMPlot(t *testing.T) {
	pattern, _ := traces(t)
	for _, name := range []string{"picture.png", "picture.svg"} {
		path := filepath.Join(t.TempDir(), name)
		if got := omnitool(t, "", "fpm", "plot", "-o", path, "--title=Last night", pattern); got.code != 0 || got.err != "" {
			t.Fatalf("%+v", got)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".svg") {
			if !bytes.Contains(data, []byte("Last night")) {
				t.Error("no title")
			}
		} else if _, err := png.Decode(bytes.NewReader(data)); err != nil {
			t.Error(err)
		}
	}
}

// lockedBuffer is written by a command while a test reads it.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.more <- struct{}{}:
	default:
	}
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// awaitLines returns once the buffer holds so many lines.
func (b *lockedBuffer) awaitLines(t *testing.T, n int) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for strings.Count(b.String(), "\n") < n {
		select {
		case <-b.more:
		case <-deadline:
			t.Fatalf("%d lines, want %d", strings.Count(b.String(), "\n"), n)
		}
	}
}

// fpm cat --follow writes what is there, then what comes, until it is interrupted.
func TestFPMCatFollow(t *testing.T) {
	pattern, lines := traces(t)
	out, errs := &lockedBuffer{more: make(chan struct{}, 1)}, &lockedBuffer{more: make(chan struct{}, 1)}
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"fpm", "cat", "-f", pattern}, streams{strings.NewReader(""), out, errs})
	}()
	out.awaitLines(t, len(lines))
	next := tracetest.Row("300", 1, tracetest.Start)
	name := trace.SegmentName{Prefix: strings.TrimSuffix(pattern, ".*"), Producer: "300"}
	if err := tracetest.WriteFile(name.String(), []trace.Row{next}, 1); err != nil {
		t.Fatal(err)
	}
	out.awaitLines(t, len(lines)+1)
	interrupt()
	if code := <-ended; code != 0 || errs.String() != "" {
		t.Errorf("status %d: %s", code, errs.String())
	}
	if !strings.HasSuffix(out.String(), string(next.AppendJSON(nil))) {
		t.Errorf("the last lines are %s", out.String()[out.text.Len()-600:])
	}
}

// fpm replay says where it publishes what, and ends when all is published.
func TestFPMReplay(t *testing.T) {
	pattern, _ := traces(t)
	got := omnitool(t, "", "fpm", "replay", "--listen-address=127.0.0.1:0", "--speed=1000", "--wait=0s", "--worker=100", pattern)
	if got.code != 0 || !strings.Contains(got.err, "2 ranks are without a subscriber") {
		t.Fatalf("%+v", got)
	}
	for _, want := range []string{"worker 100 rank 0: 50 full rows\n", "worker 100 rank 1: 50 full rows\n", "tcp://127.0.0.1:", "2026-06-30 20:00:00 to 2026-06-30 20:00:09 UTC, takes 0s"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("output is\n%s\nwant %q", got.out, want)
		}
	}
}

func TestFPMReplaySampled(t *testing.T) {
	row := tracetest.Row("100", 1, tracetest.Start)
	row.Capture = fpm.CaptureSampled
	path := filepath.Join(t.TempDir(), "x.jsonl.gz")
	if err := tracetest.WriteFile(path, []trace.Row{row}, 1); err != nil {
		t.Fatal(err)
	}
	omnitool(t, "", "fpm", "replay", "--listen-address=127.0.0.1:0", "--wait=0s", path).demand(t, 0, "1 sampled rows", "1 rank is without")
}

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
