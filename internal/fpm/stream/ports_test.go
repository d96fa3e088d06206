package stream

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLintPorts(t *testing.T) {
	linux := PortRange{32768, 60999}
	for _, tc := range []struct {
		name   string
		blocks []Block
		want   []string // what the warnings contain, in order
	}{
		{"defaults", []Block{{"tcp://a:20380", 1}, {"tcp://b:20380", 8}, {"ipc:///tmp/x", 8}, {"nonsense", 1}}, nil},
		{"side by side", []Block{{"tcp://a:20380", 2}, {"tcp://a:20383", 2}}, nil},
		{"single ranks side by side", []Block{{"tcp://a:20380", 1}, {"tcp://a:20381", 1}}, nil},
		{"last rank on the next base", []Block{{"tcp://a:20380", 2}, {"tcp://a:20381", 1}}, []string{"ports 20381 overlap ports 20380-20382"}},
		{"synchroniser on the next base", []Block{{"tcp://a:20380", 2}, {"tcp://a:20382", 2}}, []string{"ports 20382-20384 overlap ports 20380-20382"}},
		{"twice the same", []Block{{"tcp://a:20380", 0}, {"tcp://a:20380", 0}}, []string{"ports 20380 overlap ports 20380"}},
		{"ephemeral", []Block{{"tcp://a:40000", 1}}, []string{"ports 40000 overlap the ephemeral port range 32768-60999"}},
		{"last rank below, synchroniser in it", []Block{{"tcp://a:32766", 2}}, []string{"to a base below 32766"}},
		{"ends just below", []Block{{"tcp://a:32765", 2}}, nil},
		{"both", []Block{{"tcp://a:32768", 1}, {"tcp://a:32767", 4}}, []string{"base below 32768", "base below 32764", "overlap ports 32768"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := LintPorts(tc.blocks, linux)
			if len(got) != len(tc.want) {
				t.Fatalf("warnings %q, want %q", got, tc.want)
			}
			for i, text := range tc.want {
				if !strings.Contains(got[i], text) || !strings.Contains(got[i], "DYN_FORWARDPASS_METRIC_PORT") {
					t.Errorf("warning %q, want %q and the remedy", got[i], text)
				}
			}
		})
	}
	if got := LintPorts([]Block{{"tcp://a:40000", 1}}, PortRange{}); got != nil {
		t.Errorf("warnings without a known range: %q", got)
	}
}

func TestReadEphemeralRange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ip_local_port_range")
	for text, want := range map[string]PortRange{"32768\t60999\n": {32768, 60999}, "1 65535": {1, 65535}, "60999 32768": {}, "": {}, "a b": {}, "1 2 3": {}, "1 65536": {}} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadEphemeralRange(path); got != want || (err == nil) != (want != PortRange{}) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if _, err := ReadEphemeralRange(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("no error for an absent file")
	}
}
