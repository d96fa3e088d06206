package collector

import (
	"math"
	"testing"
)

// The worked values of the continuity algorithm: 24 kHz, one channel, 16 bit.
func TestSimulatePlayback(t *testing.T) {
	const rate = 48000.0
	for _, c := range []struct {
		name            string
		arrivals, bytes []float64
		rate            float64
		underrun        float64
		events          int
		continuous      bool
	}{
		{"chunks in time", []float64{0.5, 1, 1.5}, []float64{24000, 24000, 24000}, rate, 0, 0, true},
		{"late chunk", []float64{0, 2}, []float64{24000, 24000}, rate, 1.5, 1, false},
		{"short chunk", []float64{0.25, 0.5}, []float64{4800, 4800}, rate, 0.15, 1, false},
		{"single chunk", []float64{0.5}, []float64{1}, rate, 0, 0, true},
		{"threshold is included", []float64{0, 0.6}, []float64{24000, 24000}, rate, 0.1, 1, true},
		{"deficits add up", []float64{0, 1, 2}, []float64{24000, 24000, 24000}, rate, 1, 2, false},
		{"first chunk is large", []float64{0, 1, 2}, []float64{96000, 1, 1}, rate, 0, 0, true},
		{"worst is not last", []float64{0, 2, 2.1}, []float64{24000, 96000, 1}, rate, 1.5, 1, false},
		{"empty", nil, nil, rate, 0, 0, true},
		{"lists differ", []float64{0, 9}, []float64{1}, rate, 0, 0, true},
		{"no rate", []float64{0, 9}, []float64{1, 1}, 0, 0, 0, true},
		{"time runs backwards", []float64{1, 0.5}, []float64{1, 1}, rate, 0, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := SimulatePlayback(c.arrivals, c.bytes, c.rate)
			if math.Abs(p.Underrun-c.underrun) > 1e-12 || p.Events != c.events || p.Continuous(0.1) != c.continuous {
				t.Errorf("got %+v, continuous %v; want %+v", p, p.Continuous(0.1), c)
			}
		})
	}
}

func TestResolveSampleRate(t *testing.T) {
	for _, c := range []struct {
		candidates []int
		want       int
	}{
		{nil, 24000},
		{[]int{0, -1, 0, 0, 0}, 24000},
		{[]int{0, 0, 16000, 44100, 48000}, 16000},
		{[]int{48000, 16000, 0, 0, 0}, 48000},
		{[]int{-1, 0, 0, 0, 44100}, 44100},
	} {
		if got := ResolveSampleRate(c.candidates...); got != c.want {
			t.Errorf("%v: got %d, want %d", c.candidates, got, c.want)
		}
	}
}
