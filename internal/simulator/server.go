package simulator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// Content types of the two front ends.
const (
	textType        = "text/plain; version=0.0.4; charset=utf-8"
	openMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8"
)

// server is one process with one or several engines and a metrics page. Pipeline.mu guards it.
type server struct {
	pipeline    *Pipeline
	engines     []*engine
	openMetrics bool
	created     float64

	answers, refusals uint64
	duration, highr   *histogram
	tools             [12]uint64
	size              int // of the last page, which is about the size of the next
}

// start sets everything that the process counts to zero.
func (s *server) start() {
	s.created = s.pipeline.unix()
	s.answers, s.refusals, s.tools = 0, 0, [12]uint64{}
	s.duration = newHistogram([]float64{.1, .5, 1})
	s.highr = newHistogram([]float64{.01, .025, .05, .075, .1, .25, .5, .75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60})
}

// answered counts an HTTP request that has got its answer.
func (p *Pipeline) answered(s *server, r *request, status int, took time.Duration) {
	s.answers++
	s.duration.observe(took.Seconds())
	s.highr.observe(took.Seconds())
	if status >= 500 {
		s.refusals++
		return
	}
	if p.chance(toolShare) {
		i := 0 // streaming, tool_call, chat_completions
		if !r.streaming {
			i += 6
		}
		if p.chance(0.3) {
			i += 3
		}
		s.tools[i]++
	}
}

// dead tells whether nothing of the server is left.
func (s *server) dead() bool {
	for _, e := range s.engines {
		if !e.dead {
			return false
		}
	}
	return true
}

func (s *server) page() []byte {
	b := make([]byte, 0, s.size+4096)
	if s.openMetrics {
		families := append(s.engineFamilies(), s.loraInfo())
		b = appendOpenMetrics(b, append(families, s.toolFamily()))
	} else {
		b = appendText(b, s.runtimeFamilies())
		b = appendText(b, s.engineFamilies())
		b = appendText(b, []family{s.loraInfo()})
		b = appendText(b, s.httpFamilies())
		b = appendText(b, []family{s.toolFamily()})
	}
	s.size = len(b)
	return b
}

// Handler returns one server's HTTP interface: /metrics, with and without a slash at its end, and /health. A server
// whose every engine has been killed drops connections without an answer. The number is one of 0 to len(Upstreams)-1;
// it panics on another.
func (p *Pipeline) Handler(number int) http.Handler {
	s := p.servers[number]
	metrics := func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		var page []byte
		dead := s.dead()
		if !dead {
			page = s.page()
		}
		p.mu.Unlock()
		if dead {
			panic(http.ErrAbortHandler)
		}
		kind := textType
		if s.openMetrics {
			kind = openMetricsType
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Length", strconv.Itoa(len(page)))
		_, _ = w.Write(page) // a caller that has gone is no concern of a server's
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", metrics)
	mux.HandleFunc("GET /metrics/{$}", metrics)
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	return mux
}

// Listen opens the servers' listeners, so that Upstreams has addresses before Serve runs.
func (p *Pipeline) Listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listeners != nil {
		return errors.New("simulated pipeline: it listens already")
	}
	var open []net.Listener
	for i := range p.servers {
		address := "127.0.0.1:0"
		if i < len(p.options.Listen) && p.options.Listen[i] != "" {
			address = p.options.Listen[i]
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			for _, l := range open {
				_ = l.Close()
			}
			return fmt.Errorf("simulated server %d: %w", i, err)
		}
		open = append(open, l)
	}
	p.listeners = open
	return nil
}

// Upstreams returns the servers' addresses as host:port, by number; none before Listen.
func (p *Pipeline) Upstreams() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var addresses []string
	for _, l := range p.listeners {
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}

// Serve answers on the listeners, which it opens if Listen has not, until ctx ends or one of them fails. Then it closes
// them all and returns the failure, if there was one.
func (p *Pipeline) Serve(ctx context.Context) error {
	p.mu.Lock()
	listening := p.listeners != nil
	p.mu.Unlock()
	if !listening {
		if err := p.Listen(); err != nil {
			return err
		}
	}
	p.mu.Lock()
	listeners := p.listeners
	p.mu.Unlock()

	group, ctx := errgroup.WithContext(ctx)
	for i, l := range listeners {
		hs := &http.Server{Handler: p.Handler(i), ReadHeaderTimeout: 5 * time.Second}
		group.Go(func() error {
			if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("simulated server %d: %w", i, err)
			}
			return nil
		})
		group.Go(func() error {
			<-ctx.Done()
			_ = hs.Close() // scrapes that are cut off are part of a simulation's end
			return nil
		})
	}
	err := group.Wait()
	p.mu.Lock()
	p.listeners = nil
	p.mu.Unlock()
	return err
}
