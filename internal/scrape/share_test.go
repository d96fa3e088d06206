package scrape

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// The tests of this file run on synctest's clock: its seconds pass at once, and
// exactly.

const (
	fastPage = "vllm:fast{engine=\"0\"} 1\n"
	fastLine = `vllm:fast{replica="0",stage="0"} 1`
	slowPage = "vllm:slow{engine=\"0\"} 1\n"
	slowLine = `vllm:slow{replica="0",stage="0"} 1`
)

func twoTargets(global string) string {
	return fmt.Sprintf(`
global: {%s}
pipelines:
  - stages: [{}]
    upstreams: [{static_configs: [{targets: ["fast:1", "slow:1"]}]}]
`, global)
}

// seen is what one caller got.
type seen struct {
	took   time.Duration
	lines  []string
	states []State
	err    error
}

// ask scrapes as a caller who waits for a time.
func ask(ctx context.Context, t *testing.T, p *Pool, wait time.Duration) seen {
	began := time.Now()
	page, err := p.Scrape(ctx, began.Add(wait), "test")
	s := seen{took: time.Since(began), err: err}
	if err == nil {
		s.lines, s.states = samples(render(t, page, exposition.Text)), page.States
		page.Release()
	}
	return s
}

func (s *seen) demand(t *testing.T, took time.Duration, lines ...string) {
	t.Helper()
	if s.err != nil {
		t.Fatal(s.err)
	}
	if s.took != took {
		t.Errorf("took %v, want %v", s.took, took)
	}
	if !slices.Equal(s.lines, lines) {
		t.Errorf("page holds %q, want %q", s.lines, lines)
	}
}

// counting counts the requests of a transport.
func counting(n *atomic.Int64, next transport) transport {
	return func(r *http.Request) (*http.Response, error) {
		n.Add(1)
		return next(r)
	}
}

func TestOverlappingCallersShareOneScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 50
		var asked atomic.Int64
		p := offline(t, twoTargets("min_scrape_interval: 0s"), after(0, fastPage), counting(&asked, after(3*time.Second, slowPage)))
		defer p.Close()
		answers := make(chan seen, callers)
		for i := range callers {
			go func() {
				late := time.Duration(i) * 50 * time.Millisecond // up to 2.45 s: before the answer
				time.Sleep(late)
				s := ask(t.Context(), t, p, time.Minute)
				s.took += late
				answers <- s
			}()
		}
		for range callers {
			s := <-answers
			s.demand(t, 3*time.Second, fastLine, slowLine)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("%d overlapping callers caused %d scrapes, want 1", callers, n)
		}
		// The next one is not of that run.
		s := ask(t.Context(), t, p, time.Minute)
		s.demand(t, 3*time.Second, fastLine, slowLine)
		if n := asked.Load(); n != 2 {
			t.Errorf("%d scrapes after a second run, want 2", n)
		}
	})
}

func TestLeavingCallerCancelsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		p := offline(t, twoTargets(""), after(0, fastPage), counting(&asked, after(3*time.Second, slowPage)))
		defer p.Close()
		impatient, leave := context.WithCancel(t.Context())
		left, stayed := make(chan seen, 1), make(chan seen, 1)
		go func() { left <- ask(impatient, t, p, time.Minute) }()
		synctest.Wait()
		go func() { stayed <- ask(t.Context(), t, p, time.Minute) }()
		time.Sleep(time.Second)
		leave()
		if s := <-left; !errors.Is(s.err, context.Canceled) || s.took != time.Second {
			t.Errorf("the caller who left got %v after %v, want its context's end at once", s.err, s.took)
		}
		s := <-stayed
		s.demand(t, 3*time.Second, fastLine, slowLine)
		if n := asked.Load(); n != 1 {
			t.Errorf("%d scrapes, want 1", n)
		}
	})
}

// The scrape of a caller who was alone and left goes on, and its page is there for
// the next one.
func TestScrapeOutlivesItsOnlyCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		p := offline(t, twoTargets("min_scrape_interval: 30s"), after(0, fastPage), counting(&asked, after(3*time.Second, slowPage)))
		defer p.Close()
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if s := ask(ctx, t, p, time.Minute); !errors.Is(s.err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want the end of the caller's context", s.err)
		}
		time.Sleep(4 * time.Second)
		s := ask(t.Context(), t, p, time.Minute)
		s.demand(t, 0, fastLine, slowLine)
		if n := asked.Load(); n != 1 {
			t.Errorf("%d scrapes, want 1", n)
		}
	})
}

// A caller whose deadline comes before a target's answer gets those that are there,
// and the reason for the other.
func TestShortDeadlineGetsWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := offline(t, twoTargets(""), after(0, fastPage), after(5*time.Second, slowPage))
		defer p.Close()
		s := ask(t.Context(), t, p, time.Second)
		s.demand(t, time.Second, fastLine)
		demandGood(t, s.states[0])
		demandFailure(t, s.states[1], ReasonTimeout)
	})
}

// A scrape goes on for the caller who waits longest: one in a hurry costs nobody
// else a target.
func TestHurriedCallerCostsOthersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := offline(t, twoTargets(""), after(0, fastPage), after(5*time.Second, slowPage))
		defer p.Close()
		hurried, patient := make(chan seen, 1), make(chan seen, 1)
		go func() { hurried <- ask(t.Context(), t, p, time.Second) }()
		synctest.Wait()
		go func() { patient <- ask(t.Context(), t, p, 8*time.Second) }()

		s := <-hurried
		s.demand(t, time.Second+lastWords, fastLine)
		if s.states[1].Outcome != nil {
			t.Errorf("the slow target's outcome is %+v before it has one", s.states[1].Outcome)
		}
		s = <-patient
		s.demand(t, 5*time.Second, fastLine, slowLine)
		if n := s.states[1].Counts.Failures[ReasonTimeout]; n != 0 {
			t.Errorf("%d timeouts counted of a scrape that went well", n)
		}
	})
}

// However long a caller waits, a target has its own timeout.
func TestTargetTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := offline(t, twoTargets("scrape_timeout: 2s"), after(0, fastPage), after(5*time.Second, slowPage))
		defer p.Close()
		patient, morePatient := make(chan seen, 1), make(chan seen, 1)
		go func() { patient <- ask(t.Context(), t, p, time.Minute) }()
		synctest.Wait()
		go func() { morePatient <- ask(t.Context(), t, p, time.Hour) }()
		for _, caller := range []chan seen{patient, morePatient} {
			s := <-caller
			s.demand(t, 2*time.Second, fastLine)
			demandFailure(t, s.states[1], ReasonTimeout)
		}
	})
}

// A target that does not end with its deadline holds up nobody, whatever keeps it.
func TestHungScrapeHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		hung := func(*http.Request) (*http.Response, error) { <-release; return reply(slowPage), nil }
		p := offline(t, twoTargets("min_scrape_interval: 0s, scrape_timeout: 1s"), after(0, fastPage), hung)
		defer p.Close()
		for range 2 {
			s := ask(t.Context(), t, p, 10*time.Second)
			s.demand(t, 10*time.Second+lastWords, fastLine)
		}
		close(release)
		synctest.Wait()
		s := ask(t.Context(), t, p, 10*time.Second)
		s.demand(t, 0, fastLine, slowLine)
	})
}

func TestMinScrapeInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var good, bad atomic.Int64
		broken := func(*http.Request) (*http.Response, error) { return nil, errors.New("broken") }
		p := offline(t, twoTargets("min_scrape_interval: 2s"), counting(&good, after(time.Second, fastPage)), counting(&bad, broken))
		defer p.Close()
		for _, step := range []struct {
			at     time.Duration // since the start of the last scrape
			took   time.Duration
			scrape int64 // so far
		}{
			{took: time.Second, scrape: 1},
			{at: time.Second, scrape: 1}, // its page is a moment old, its start a second
			{at: 2*time.Second - 1, scrape: 1},
			{at: 2 * time.Second, took: time.Second, scrape: 2},
			{at: time.Second, scrape: 2},
		} {
			began := time.Now()
			if last := p.Targets()[0].Last(); last != nil {
				time.Sleep(time.Until(last.Started.Add(step.at)))
			}
			s := ask(t.Context(), t, p, time.Minute)
			s.demand(t, step.took, fastLine)
			if good.Load() != step.scrape || bad.Load() != step.scrape {
				t.Fatalf("after %v: %d scrapes of the good target and %d of the bad one, want %d", time.Since(began), good.Load(), bad.Load(), step.scrape)
			}
			if n := s.states[1].Counts.Failures[ReasonConnect]; n != step.scrape {
				t.Errorf("%d failures counted, want one a scrape, %d", n, step.scrape)
			}
		}
	})
}

// The target is told how long its caller waits, and through whom the scrape went.
func TestTimeoutAndHopHeaders(t *testing.T) {
	for name, test := range map[string]struct {
		wait time.Duration
		want string
	}{
		"the caller's": {wait: 9500 * time.Millisecond, want: "9.500"},
		"its own":      {wait: time.Hour, want: "10.000"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var header http.Header
				p := offline(t, twoTargets(""), after(0, fastPage), func(r *http.Request) (*http.Response, error) {
					header = r.Header
					return reply(slowPage), nil
				})
				defer p.Close()
				s := ask(t.Context(), t, p, test.wait)
				s.demand(t, 0, fastLine, slowLine)
				if got := header.Get("X-Prometheus-Scrape-Timeout-Seconds"); got != test.want {
					t.Errorf("timeout header %q, want %q", got, test.want)
				}
				if got := header.Get(HopHeader); got != "test" {
					t.Errorf("hop header %q, want %q", got, "test")
				}
			})
		})
	}
}

// Closing a pool ends its scrapes, and its callers are answered.
func TestCloseEndsScrapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := offline(t, twoTargets(""), after(0, fastPage), after(time.Hour, slowPage))
		caller := make(chan seen, 1)
		go func() { caller <- ask(t.Context(), t, p, time.Minute) }()
		synctest.Wait()
		p.Close()
		s := <-caller
		s.demand(t, 0, fastLine)
		if s.states[1].Outcome == nil || s.states[1].Outcome.Failure == nil {
			t.Errorf("outcome %+v, want a failure", s.states[1].Outcome)
		}
	})
}

// TestPagesAreNeverMixed has callers read pages whose lines all carry the number of
// the scrape, some of them while others still wait for the rest of the run: buffers
// go from page to page, and none may show in another.
func TestPagesAreNeverMixed(t *testing.T) {
	const patient, hurried, rounds, lines = 4, 3, 60, 300
	var scrapes atomic.Int64
	numbered := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", textType)
		n := scrapes.Add(1)
		var b strings.Builder
		for i := range lines + int(n/5%3) { // the layout changes now and then
			fmt.Fprintf(&b, "vllm:x{engine=\"0\",i=\"%d\"} %d\n", i, n)
		}
		_, _ = w.Write([]byte(b.String()))
	}
	asked := make(chan struct{}, patient*rounds)
	var held atomic.Pointer[chan struct{}] // what the second target waits for in this round
	second := func(w http.ResponseWriter, _ *http.Request) {
		wait := *held.Load()
		asked <- struct{}{}
		<-wait
		answer(textType, "vllm:second 1\n")(w, nil)
	}
	p, _ := start(t, flatConfig(serve(t, numbered), serve(t, second)))

	read := func(round int, wait time.Duration) error {
		page, err := p.Scrape(t.Context(), time.Now().Add(wait), "")
		if err != nil {
			return err
		}
		defer page.Release()
		format := exposition.Format(round % 2)
		if zipped, err := page.Encoded(format, false, Gzip); err != nil || len(zipped) == 0 {
			return fmt.Errorf("compressed: %d bytes, %w", len(zipped), err)
		}
		numbers := map[string]int{}
		for _, line := range samples(render(t, page, format)) {
			if strings.HasPrefix(line, "vllm:x") {
				numbers[line[strings.LastIndexByte(line, ' '):]]++
			}
		}
		if len(numbers) > 1 {
			return fmt.Errorf("one page holds lines of several scrapes: %v", numbers)
		}
		for _, n := range numbers {
			if n >= lines {
				return nil
			}
		}
		if wait == patience {
			return fmt.Errorf("a page holds %v lines, want at least %d", numbers, lines)
		}
		return nil // the first target had not answered yet
	}
	for round := range rounds {
		hold := make(chan struct{})
		held.Store(&hold)
		var waiting, leaving errgroup.Group
		for range patient {
			waiting.Go(func() error { return read(round, patience) })
		}
		<-asked
		for range hurried {
			leaving.Go(func() error { return read(round, time.Millisecond) })
		}
		if err := leaving.Wait(); err != nil {
			t.Error(err)
		}
		close(hold)
		if err := waiting.Wait(); err != nil {
			t.Error(err)
		}
	}
}
