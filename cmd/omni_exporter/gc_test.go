package main

import "testing"

func TestGCPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 20, 1: 100, 16 << 20: 100, 32 << 20: 100, 64 << 20: 50, 160 << 20: 20, 4 << 30: 20} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d bytes in use: %d %%, want %d", live, got, want)
		}
	}
}
