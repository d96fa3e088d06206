package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// result is how a run of the program ended.
type result struct {
	code     int
	out, err string
}

// omnitool runs the program over what it is to read.
func omnitool(t *testing.T, in string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), args, streams{strings.NewReader(in), &out, &errs})
	return result{code, out.String(), errs.String()}
}

// demand compares the status, and looks for text in what was written.
func (r result) demand(t *testing.T, code int, out, err string) {
	t.Helper()
	if r.code != code {
		t.Errorf("status %d, want %d", r.code, code)
	}
	if !strings.Contains(r.out, out) || out == "" && r.out != "" {
		t.Errorf("output is\n%s\nwant %q", r.out, out)
	}
	if !strings.Contains(r.err, err) || err == "" && r.err != "" {
		t.Errorf("errors are\n%s\nwant %q", r.err, err)
	}
}

// file writes a file and returns its path.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUsage(t *testing.T) {
	for _, test := range []struct {
		args     []string
		code     int
		out, err string
	}{
		{nil, 2, "usage: omnitool", ""},
		{[]string{"help"}, 0, "check metrics", ""},
		{[]string{"--help"}, 0, "check metrics", ""},
		{[]string{"relabel", "--help"}, 0, "explain", ""},
		{[]string{"--version"}, 0, "omnitool, version", ""},
		{[]string{"check"}, 2, "", "subcommand"},
		{[]string{"check", "config"}, 2, "", "file"},
		{[]string{"chekc"}, 2, "", `"chekc"`},
		{[]string{"demo", "--fault=tea"}, 2, "", "kill-replica"},
		{[]string{"demo", "--seed=x"}, 2, "", `"x"`},
		{[]string{"demo", "--warm-up=-1s"}, 2, "", "--warm-up"},
		{[]string{"check", "metrics", "--output=xml"}, 2, "", "xml"},
		{[]string{"check", "metrics", "--target=a:1"}, 2, "", "add --config.file"},
		{[]string{"relabel"}, 2, "", "--stages"},
		{[]string{"relabel", "--stages=1", "--config.file=x"}, 2, "", "exclude"},
		{[]string{"relabel", "--stages=1", "--output=json"}, 2, "", "--explain"},
		{[]string{"relabel", "--stages=1", "--pipeline=p"}, 2, "", "add --config.file"},
		{[]string{"relabel", "--stages=one"}, 1, "", "--stages"},
		{[]string{"fpm", "watch"}, 2, "", "endpoint"},
		{[]string{"fpm", "watch", "http://a:1"}, 2, "", "tcp://"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			omnitool(t, "", test.args...).demand(t, test.code, test.out, test.err)
		})
	}
}

// decode reads what a command wrote for programs.
func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return v
}

// TestDemo runs the demo and watches its forward passes, both until an interrupt.
// What the demo serves is tested in its own package.
func TestDemo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // what only a hang exceeds
	defer cancel()
	read, write := io.Pipe()
	var errs bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"demo", "--web.listen-address=127.0.0.1:0", "--seed=7", "--warm-up=10s"}, streams{nil, write, &errs})
		write.Close()
	}()
	said := awaitText(t, read, "Ctrl-C")
	endpoints := regexp.MustCompile(`tcp://127\.0\.0\.1:\d+`).FindAllString(said, -1)
	if len(endpoints) != 2 {
		t.Fatalf("%d publishers named, want two:\n%s", len(endpoints), said)
	}

	watching, stop := context.WithCancel(ctx)
	defer stop()
	table, rows := io.Pipe()
	watched := make(chan int, 1)
	go func() {
		watched <- run(watching, append([]string{"fpm", "watch"}, endpoints...), streams{nil, rows, io.Discard})
		rows.Close()
	}()
	awaitText(t, table, endpoints[1])
	stop()
	if code := <-watched; code != 0 {
		t.Errorf("fpm watch: status %d, want 0", code)
	}

	cancel()
	if code := <-ended; code != 0 || errs.Len() > 0 {
		t.Errorf("status %d, want 0; errors:\n%s", code, errs.String())
	}
}

// awaitText reads until a text has come, and lets the rest go by.
func awaitText(t *testing.T, r io.Reader, text string) string {
	t.Helper()
	var all strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(all.String(), text) {
		n, err := r.Read(buf)
		all.Write(buf[:n])
		if err != nil {
			t.Fatalf("%v before %q:\n%s", err, text, all.String())
		}
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	return all.String()
}
