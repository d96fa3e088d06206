package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/simulator"
)

// enginePage returns the page of one server with that many engines, after two
// simulated minutes of traffic.
func enginePage(engines int) ([]byte, error) {
	p, err := simulator.New(simulator.Options{
		Seed: 1, Stages: []simulator.Stage{{Name: "llm", Replicas: engines}}, ArrivalRate: float64(engines),
	})
	if err != nil {
		return nil, fmt.Errorf("simulate %d engines: %w", engines, err)
	}
	p.Step(2 * time.Minute)
	w := httptest.NewRecorder()
	p.Handler(0).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.Bytes(), nil
}

// changed returns the page with that share of its sample lines, in percent, having
// another value of the same length.
func changed(page []byte, percent int, seed uint64) []byte {
	rnd := rand.New(rand.NewPCG(seed, 0))
	out := bytes.Clone(page)
	for line := range bytes.Lines(out) {
		if line[0] == '#' || rnd.IntN(100) >= percent {
			continue
		}
		value := line[bytes.LastIndexByte(line, ' ')+1:]
		for i, c := range value {
			if c >= '0' && c <= '9' {
				value[i] = '0' + (c-'0'+1+byte(rnd.IntN(8)))%10
				break
			}
		}
	}
	return out
}

// shuffled returns the page with the lines of each family in another order, as
// servers send them that keep series in a hash map.
func shuffled(page []byte, seed uint64) []byte {
	rnd := rand.New(rand.NewPCG(seed, 0))
	var out []byte
	var samples [][]byte
	flush := func() {
		rnd.Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
		for _, s := range samples {
			out = append(out, s...)
		}
		samples = samples[:0]
	}
	for line := range bytes.Lines(page) {
		if line[0] == '#' {
			flush()
			out = append(out, line...)
			continue
		}
		samples = append(samples, line)
	}
	flush()
	return out
}
