package scrape

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	promdiscovery "github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/targetgroup"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// engineServer is an upstream that tells of its connections.
type engineServer struct {
	address string

	mu     sync.Mutex
	opened int
	open   map[net.Conn]bool
	change chan struct{} // closed at the next change of open
}

func newEngineServer(t *testing.T, h http.HandlerFunc) *engineServer {
	t.Helper()
	e := &engineServer{open: map[net.Conn]bool{}, change: make(chan struct{})}
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnState = e.connState
	s.Start()
	t.Cleanup(s.Close)
	e.address = s.Listener.Addr().String()
	return e
}

func (e *engineServer) connState(c net.Conn, s http.ConnState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch s {
	case http.StateNew:
		e.opened++
		e.open[c] = true
	case http.StateClosed:
		delete(e.open, c)
	}
	close(e.change)
	e.change = make(chan struct{})
}

func (e *engineServer) demandOpened(t *testing.T, want int) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opened != want {
		t.Errorf("%d connections were made to %s, want %d", e.opened, e.address, want)
	}
}

func (e *engineServer) awaitNoneOpen(t *testing.T) {
	t.Helper()
	deadline := time.After(patience)
	for {
		e.mu.Lock()
		open, change := len(e.open), e.change
		e.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-change:
		case <-deadline:
			t.Fatalf("%d connections to %s stay open", open, e.address)
		}
	}
}

func (p *Pool) mustUpdate(t *testing.T, yaml string) {
	t.Helper()
	if err := p.Update(parseConfig(t, yaml), p.options.Own); err != nil {
		t.Fatal(err)
	}
}

const aPage, bPage = "vllm:a{engine=\"0\"} 1\n", "vllm:b{engine=\"1\"} 1\n"

// A target that a new configuration describes alike goes on; one that it does not
// name leaves the page at once, and its connection is closed.
func TestUpdate(t *testing.T) {
	a, b := newEngineServer(t, answer(textType, aPage)), newEngineServer(t, answer(textType, bPage))
	p, _ := start(t, flatConfig(a.address, b.address))
	page, _ := look(t, p)
	if got := len(samples(page)); got != 2 {
		t.Fatalf("page has %d samples, want 2:\n%s", got, page)
	}
	before := p.Targets()

	p.mustUpdate(t, flatConfig(b.address))
	page, states := look(t, p)
	if got := samples(page); !slices.Equal(got, []string{`vllm:b{replica="1",stage="0"} 1`}) {
		t.Errorf("samples after a target has gone: %q", got)
	}
	if len(states) != 1 || states[0].Target != before[1] {
		t.Errorf("the target that stayed is another one")
	}
	if got := states[0].Counts; got.Scrapes != 2 || got.LineHits != 1 {
		t.Errorf("counts of the target that stayed: %+v, want 2 scrapes and 1 line known", got)
	}
	a.awaitNoneOpen(t)
	b.demandOpened(t, 1)

	p.mustUpdate(t, flatConfig(a.address, b.address))
	page, _ = look(t, p)
	if got := len(samples(page)); got != 2 {
		t.Errorf("page has %d samples after the target came back, want 2:\n%s", got, page)
	}
	a.demandOpened(t, 2)
	b.demandOpened(t, 1)
}

// A target that is scraped in another way from now on keeps its counts, and its
// connection if that is as before.
func TestUpdateOfATargetKeepsItsCounts(t *testing.T) {
	a := newEngineServer(t, answer(textType, aPage))
	p, totals := start(t, flatConfig(a.address))
	look(t, p)
	for i, options := range []string{"sample_limit: 10", "sample_limit: 10, metric_relabel_configs: [{target_label: x, replacement: y}]"} {
		before := p.Targets()[0]
		p.mustUpdate(t, flatConfig(a.address+" "+options))
		page, states := look(t, p)
		if states[0].Target == before {
			t.Errorf("%s: the target is the one before", options)
		}
		if got, want := states[0].Counts.Scrapes, int64(2+i); got != want {
			t.Errorf("%s: %d scrapes counted, want %d", options, got, want)
		}
		if i == 1 && !strings.Contains(page, `x="y"`) {
			t.Errorf("the new rule is not at work:\n%s", page)
		}
	}
	if hits, misses := totals.Lines(); hits+misses != 3 {
		t.Errorf("%d lines counted, want 3", hits+misses)
	}
	a.demandOpened(t, 1)
	p.mustUpdate(t, flatConfig(a.address+" basic_auth: {username: u, password: p}"))
	look(t, p)
	a.demandOpened(t, 2)
}

// Equal configurations are recognised, whatever they hold.
func TestUpdateWithTheSame(t *testing.T) {
	yaml := flatConfig(`a:1 enable_compression: true, params: {x: ["1"]}, labels_are: none`)
	yaml = strings.Replace(yaml, "labels_are: none", `tls_config: {insecure_skip_verify: true}, basic_auth: {username: u, password: secret},
          relabel_configs: [{target_label: zone, replacement: z}], metric_relabel_configs: [{source_labels: [x], regex: "a|b.*", action: drop}]`, 1)
	p, _ := start(t, yaml)
	before := p.now()
	p.mustUpdate(t, yaml)
	after := p.now()
	if before.targets[0] != after.targets[0] || before.merger != after.merger {
		t.Error("an equal configuration made a new target")
	}
}

// A run ends on the targets that it has started with, and who asks after a change
// gets the new ones though that run is under way.
func TestUpdateDuringARun(t *testing.T) {
	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(held); <-release })
		answer(textType, aPage)(w, r)
	})
	b := serve(t, answer(textType, bPage))
	p, _ := start(t, flatConfig(a))
	first := make(chan string, 1)
	go func() {
		page, err := p.Scrape(context.Background(), time.Now().Add(patience), "test")
		if err != nil {
			first <- err.Error()
			return
		}
		defer page.Release()
		first <- render(t, page, exposition.Text)
	}()
	<-held
	p.mustUpdate(t, flatConfig(b))
	page, _ := look(t, p)
	if got := samples(page); len(got) != 1 || !strings.HasPrefix(got[0], "vllm:b") {
		t.Errorf("page after the change: %q", got)
	}
	close(release)
	if got := samples(<-first); len(got) != 1 || !strings.HasPrefix(got[0], "vllm:a") {
		t.Errorf("page of the run under way: %q", got)
	}
}

func TestUpdateThatFailsChangesNothing(t *testing.T) {
	p, _ := start(t, flatConfig(serve(t, answer(textType, aPage))))
	before := p.now()
	twice := flatConfig("a:1", `b:2 relabel_configs: [{target_label: __address__, replacement: "a:1"}]`)
	if err := p.Update(parseConfig(t, twice), nil); err == nil || !strings.Contains(err.Error(), `"a:1" occurs twice`) {
		t.Errorf("got %v", err)
	}
	if p.now() != before {
		t.Error("the targets have changed")
	}
}

// found is what discovery has found, for every way alike.
func found(groups ...*targetgroup.Group) func(promdiscovery.Config) []*targetgroup.Group {
	return func(promdiscovery.Config) []*targetgroup.Group { return groups }
}

func group(labels model.LabelSet, targets ...model.LabelSet) *targetgroup.Group {
	return &targetgroup.Group{Targets: targets, Labels: labels}
}

func at(address string, more ...string) model.LabelSet {
	out := model.LabelSet{model.AddressLabel: model.LabelValue(address)}
	for i := 0; i < len(more); i += 2 {
		out[model.LabelName(more[i])] = model.LabelValue(more[i+1])
	}
	return out
}

const discovering = `
pipelines:
- name: p
  stages: [{}, {}]
  upstreams:
  - stage: "1"
    file_sd_configs: [{files: [a.json]}]
    static_configs: [{targets: ["named:1"]}]
    relabel_configs:
    - {source_labels: [__meta_stage], regex: (.+), target_label: stage}
    - {source_labels: [__meta_keep], regex: "no", action: drop}
  - {stage: "0", static_configs: [{targets: ["first:1", "second:1"]}]}
`

func TestDiscoveredTargets(t *testing.T) {
	c := parseConfig(t, discovering)
	p, err := NewPool(c, PoolOptions{
		Self: func(address string) bool { return address == "self:1" },
		Found: found(
			group(model.LabelSet{"zone": "z"},
				at("b:1"), at("a:1", "__meta_stage", "0"), at("a:1"), at("c:1", "stage", "0", "replica", "7"), at("gone:1", "__meta_keep", "no"),
				at("named:1"), at("first:1"), at("self:1"), at("bare"), at(""),
				at("h/ttp:1"), at("u@h:1"), at("h:port"), at(`x"y<z>:1`), at("d:1", "le", "1"), at("e:1", "engine", "0"), at("f:1", "a.b", "0"), at("g:1", "__scheme__", "ftp")),
		),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var got []string
	for _, target := range p.Targets() {
		got = append(got, fmt.Sprint(target.Address(), " ", target.Stage(), "/", target.Replica()))
	}
	// Rules may put what is found into any stage, so that no target is numbered.
	want := []string{
		"named:1 1/named:1",
		"a:1 0/a:1", "b:1 1/b:1", "bare:80 1/bare:80", "c:1 0/7",
		"first:1 0/first:1", "second:1 0/second:1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("targets %q, want %q", got, want)
	}
	reasons := map[RejectReason][]string{}
	for _, r := range p.Rejected() {
		if r.Pipeline != "p" {
			t.Errorf("rejected in pipeline %q", r.Pipeline)
		}
		reasons[r.Reason] = append(reasons[r.Reason], r.Address)
	}
	for reason, want := range map[RejectReason][]string{
		RejectAddress:   {"g:1", "h/ttp:1", "h:port", "u@h:1", `x"y<z>:1`},
		RejectLabel:     {"d:1", "e:1", "f:1"},
		RejectDuplicate: {"a:1", "first:1", "named:1"},
		RejectSelf:      {"self:1"},
	} {
		slices.Sort(reasons[reason])
		if !slices.Equal(reasons[reason], want) {
			t.Errorf("rejected as %s: %q, want %q", reason, reasons[reason], want)
		}
	}
}

// A stage whose targets the configuration names all is numbered, whatever the others
// do.
func TestNumberingBesideDiscovery(t *testing.T) {
	p, _ := start(t, `
pipelines:
- stages: [{}, {}]
  upstreams:
  - {stage: "0", static_configs: [{targets: ["a:1", "b:1"]}]}
  - {stage: "1", static_configs: [{targets: ["c:1"]}], file_sd_configs: [{files: [a.json]}]}
`)
	var got []string
	for _, target := range p.Targets() {
		got = append(got, target.Stage()+"/"+target.Replica())
	}
	if want := []string{"0/0", "0/1", "1/c:1"}; !slices.Equal(got, want) {
		t.Errorf("replicas %q, want %q", got, want)
	}
}

func TestTooManyDiscoveredTargets(t *testing.T) {
	many := make([]model.LabelSet, maxTargets+5)
	for i := range many {
		many[i] = at(fmt.Sprintf("h%d:1", i))
	}
	p, err := NewPool(parseConfig(t, "pipelines: [{stages: [{}], upstreams: [{file_sd_configs: [{files: [a.json]}]}]}]"),
		PoolOptions{Found: found(group(nil, many...))})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if targets, rejected := len(p.Targets()), len(p.Rejected()); targets != maxTargets || rejected != 5 {
		t.Errorf("%d targets and %d rejected, want %d and 5", targets, rejected, maxTargets)
	}
}

func TestOwnAddressIsNoTarget(t *testing.T) {
	_, err := NewPool(parseConfig(t, flatConfig("self:1")), PoolOptions{Self: func(address string) bool { return address == "self:1" }})
	if err == nil || !strings.Contains(err.Error(), `target "self:1" is where this exporter itself listens: remove it`) {
		t.Errorf("got %v", err)
	}
}

// Each target is one exporter's of a fleet, and stays there while others come and go.
func TestShards(t *testing.T) {
	var addresses []string
	for i := range 200 {
		addresses = append(addresses, fmt.Sprintf("h%d:1", i))
	}
	const shards = 3
	for _, known := range [][]string{addresses, addresses[:150]} {
		seen := map[string]int{}
		for index := range shards {
			p, err := NewPool(parseConfig(t, flatConfig(known...)), PoolOptions{Shard: func(_, address string) bool {
				return len(address)*7%shards == index
			}})
			if err != nil {
				t.Fatal(err)
			}
			for _, target := range p.Targets() {
				seen[target.Address()]++
			}
			p.Close()
		}
		if len(seen) != len(known) {
			t.Errorf("%d targets have an exporter, want %d", len(seen), len(known))
		}
		for address, n := range seen {
			if n != 1 {
				t.Errorf("%s is the target of %d exporters", address, n)
			}
		}
	}
}

// A new prefix is the one of what the exporter computes itself, too.
func TestUpdateOfTheOmniPrefix(t *testing.T) {
	c := parseConfig(t, "")
	p, err := NewPool(c, PoolOptions{Own: func(dst []byte, _ []State) []byte { return append(dst, "vllm:omni_x 1\n"...) }})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for prefix, want := range map[string]string{"vllm_omni:": "vllm_omni:x 1", "keep": "vllm:omni_x 1", "acme_": "acme_x 1", "vllm:omni_": "vllm:omni_x 1"} {
		p.mustUpdate(t, fmt.Sprintf("omni_prefix: %q", prefix))
		if page, _ := look(t, p); !slices.Contains(samples(page), want) {
			t.Errorf("omni_prefix %s: %q, want %s", prefix, samples(page), want)
		}
	}
}
