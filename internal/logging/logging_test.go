package logging_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/alecthomas/kingpin/v2"

	"github.com/omni-exporter/omni_exporter/internal/logging"
)

func TestLevelsAndFormats(t *testing.T) {
	for _, test := range []struct {
		args []string
		want []string // messages that are logged
		json bool
	}{
		{nil, []string{"w", "e"}, false},
		{[]string{"--log.level=debug"}, []string{"d", "i", "w", "e"}, false},
		{[]string{"--log.level=error", "--log.format=json"}, []string{"e"}, true},
	} {
		app := kingpin.New("x", "")
		f := logging.AddFlags(app, "warn")
		if _, err := app.Parse(test.args); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		logger := f.New(&out)
		logger.Debug("d")
		logger.Info("i")
		logger.Warn("w")
		logger.Error("e", "token", "a\nb")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != len(test.want) {
			t.Errorf("%q: %d lines, want %d:\n%s", test.args, len(lines), len(test.want), out.String())
			continue
		}
		for i, line := range lines {
			if json.Valid([]byte(line)) != test.json {
				t.Errorf("%q: JSON is %v, want %v: %s", test.args, !test.json, test.json, line)
			}
			if !strings.Contains(line, "msg="+test.want[i]) && !strings.Contains(line, `"msg":"`+test.want[i]+`"`) {
				t.Errorf("%q: line %d is %s, want message %q", test.args, i, line, test.want[i])
			}
		}
	}
}

func TestUnknownLevelIsRefused(t *testing.T) {
	app := kingpin.New("x", "")
	logging.AddFlags(app.Command("run", ""), "info")
	if _, err := app.Parse([]string{"run", "--log.level=loud"}); err == nil || !strings.Contains(err.Error(), "loud") {
		t.Errorf("got %v, want an error that names the level", err)
	}
}
