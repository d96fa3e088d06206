package relabel

import "testing"

func TestFlatTopology(t *testing.T) {
	tests := []struct {
		name  string
		pools []Pool
		want  map[string]Place
	}{
		// The example of vLLM-Omni's metrics design.
		{"stages of 1, 2 and 1 replicas", []Pool{{"0", 1}, {"1", 2}, {"2", 1}}, map[string]Place{
			"0": {"0", "0"}, "1": {"1", "0"}, "2": {"1", "1"}, "3": {"2", "0"},
		}},
		{"one stage of 8 ranks", []Pool{{"0", 8}}, map[string]Place{
			"0": {"0", "0"}, "1": {"0", "1"}, "2": {"0", "2"}, "3": {"0", "3"},
			"4": {"0", "4"}, "5": {"0", "5"}, "6": {"0", "6"}, "7": {"0", "7"},
		}},
		{"a stage without replicas", []Pool{{"0", 0}, {"1", 1}}, map[string]Place{"0": {"1", "0"}}},
		{"nothing", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			topology := FlatTopology(tt.pools)
			for _, engine := range engineValues() {
				got, ok := topology.Place([]byte(engine))
				want, mapped := tt.want[engine]
				if ok != mapped || got != want {
					t.Errorf("engine %q: %v, %t; want %v, %t", engine, got, ok, want, mapped)
				}
			}
			if own, ok := topology.Own(); ok {
				t.Errorf("a server of all stages stands at %v", own)
			}
		})
	}
}

// engineValues are the numbers that vLLM writes and what is none of them.
func engineValues() []string {
	return []string{
		"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "999999999",
		"", "00", "01", "+1", "-1", "1.0", "1e0", " 1", "1 ", "x", "0x1", "1000000000", "99999999999999999999", "١",
	}
}

func TestTargetTopology(t *testing.T) {
	tests := []struct {
		name           string
		stage, replica string
		ranks          int
		want           map[string]string // engine -> replica
	}{
		{"number", "1", "3", 0, map[string]string{
			"0": "3", "1": "3.1", "2": "3.2", "3": "3.3", "4": "3.4", "5": "3.5", "6": "3.6", "7": "3.7", "8": "3.8",
			"9": "3.9", "10": "3.10", "999999999": "3.999999999",
		}},
		{"address", "decode", "10.0.1.1:8000", 1, map[string]string{
			"0": "10.0.1.1:8000", "1": "10.0.1.1:8000.1", "2": "10.0.1.1:8000.2", "3": "10.0.1.1:8000.3",
			"4": "10.0.1.1:8000.4", "5": "10.0.1.1:8000.5", "6": "10.0.1.1:8000.6", "7": "10.0.1.1:8000.7",
			"8": "10.0.1.1:8000.8", "9": "10.0.1.1:8000.9", "10": "10.0.1.1:8000.10", "999999999": "10.0.1.1:8000.999999999",
		}},
		{"dense numbering", "0", "3", 2, map[string]string{"0": "6", "1": "7"}},
		{"dense numbering from 0", "0", "0", 4, map[string]string{"0": "0", "1": "1", "2": "2", "3": "3"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			topology := TargetTopology(tt.stage, tt.replica, tt.ranks)
			for _, engine := range engineValues() {
				got, ok := topology.Place([]byte(engine))
				replica, mapped := tt.want[engine]
				want := Place{}
				if mapped {
					want = Place{tt.stage, replica}
				}
				if ok != mapped || got != want {
					t.Errorf("engine %q: %v, %t; want %v", engine, got, ok, want)
				}
			}
			if own, ok := topology.Own(); !ok || own != (Place{tt.stage, tt.want["0"]}) {
				t.Errorf("own place %v, %t", own, ok)
			}
		})
	}
}

// Ranks of a replica that is no number are told apart by their own numbers.
func TestRanksOfAnAddress(t *testing.T) {
	topology := TargetTopology("0", "host:1", 2)
	if got, ok := topology.Place([]byte("1")); !ok || got.Replica != "host:1.1" {
		t.Errorf("engine 1 stands at %v, %t", got, ok)
	}
}

func TestZeroTopologyMapsNothing(t *testing.T) {
	var topology Topology
	if p, ok := topology.Place([]byte("0")); ok {
		t.Errorf("engine 0 stands at %v", p)
	}
	if p, ok := topology.Own(); ok {
		t.Errorf("own place %v", p)
	}
}
