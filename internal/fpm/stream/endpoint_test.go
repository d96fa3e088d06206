package stream

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

func TestParseAddress(t *testing.T) {
	for address, want := range map[string]string{
		"tcp://127.0.0.1:20380":        "tcp 127.0.0.1:20380",
		"tcp://[::1]:1":                "tcp [::1]:1",
		"tcp://worker-0.workers:65535": "tcp worker-0.workers:65535",
		"ipc:///tmp/tmpab12cd.0":       "unix /tmp/tmpab12cd.0",
		"ipc://@abstract":              "unix @abstract",
	} {
		network, dial, err := ParseAddress(address)
		if err != nil || network+" "+dial != want {
			t.Errorf("%s: %s %s, %v; want %s", address, network, dial, err, want)
		}
	}
	for address, remedy := range map[string]string{
		"":                                   "needs a scheme",
		"10.0.0.5:20380":                     "needs a scheme",
		"udp://10.0.0.5:20380":               "use tcp:// or ipc://",
		"http://10.0.0.5:20380":              "use tcp:// or ipc://",
		"tcp://10.0.0.5":                     "needs host and port",
		"tcp://::1:20380":                    "needs host and port",
		"tcp://:20380":                       "name the publisher's address",
		"tcp://*:20380":                      "name the publisher's address",
		"tcp://eth0;10.0.0.5:1":              "name the publisher's address",
		"tcp://user@10.0.0.5:1":              "name the publisher's address",
		"tcp://10.0.0.5:0":                   "use 1 to 65535",
		"tcp://10.0.0.5:65536":               "use 1 to 65535",
		"tcp://10.0.0.5:http":                "use 1 to 65535",
		"ipc://":                             "needs the path",
		"ipc://*":                            "needs the path",
		"ipc:///" + strings.Repeat("p", 108): "at most 107",
	} {
		_, _, err := ParseAddress(address)
		if err == nil || !strings.Contains(err.Error(), remedy) || !strings.Contains(err.Error(), address) {
			t.Errorf("%q: error %v, want the address and %q", address, err, remedy)
		}
	}
}

func TestExpandRanks(t *testing.T) {
	labels := fpm.Labels{Namespace: "default", Component: "backend", Stage: "0"}
	list := func(rank int, addresses ...string) (out []Endpoint) {
		for i, a := range addresses {
			out = append(out, Endpoint{Address: a, Rank: rank + i, Labels: labels})
		}
		return out
	}
	for _, tc := range []struct {
		address string
		size    int
		want    []Endpoint
	}{
		{"tcp://10.0.0.5:20380", 0, list(fpm.UnknownRank, "tcp://10.0.0.5:20380")},
		{"tcp://10.0.0.5:20380", 1, list(fpm.UnknownRank, "tcp://10.0.0.5:20380")},
		{"tcp://10.0.0.5:20380", 2, list(0, "tcp://10.0.0.5:20380", "tcp://10.0.0.5:20381")},
		{"tcp://[fd00::5]:65534", 2, list(0, "tcp://[fd00::5]:65534", "tcp://[fd00::5]:65535")},
		{"ipc:///tmp/x.3", 1, list(fpm.UnknownRank, "ipc:///tmp/x.3")},
		{"ipc:///tmp/x", 3, list(0, "ipc:///tmp/x.0", "ipc:///tmp/x.1", "ipc:///tmp/x.2")},
	} {
		got, err := ExpandRanks(Endpoint{Address: tc.address, Rank: 7, Labels: labels}, tc.size)
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("%s x %d: %v %s", tc.address, tc.size, err, diff)
		}
	}
	for _, tc := range []struct {
		address string
		size    int
		remedy  string
	}{
		{"tcp://10.0.0.5:65535", 2, "lower base port"},
		{"tcp://10.0.0.5:20380", -1, "between 1 and"},
		{"tcp://10.0.0.5:20380", MaxDataParallelSize + 1, "between 1 and"},
		{"ipc:///" + strings.Repeat("p", 106), 2, "at most 107"},
		{"nonsense", 2, "needs a scheme"},
	} {
		if _, err := ExpandRanks(Endpoint{Address: tc.address}, tc.size); err == nil || !strings.Contains(err.Error(), tc.remedy) {
			t.Errorf("%s x %d: error %v, want %q", tc.address, tc.size, err, tc.remedy)
		}
	}
}
