// Package discovery finds targets with Prometheus's own code: one manager for all that the configuration names, which
// goes on from one configuration to the next.
package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	promdiscovery "github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/targetgroup"
)

const (
	// updateInterval bounds how often changes are passed on, and how long one waits. Prometheus's own 5 s would be more
	// than a scrape.
	updateInterval = 250 * time.Millisecond
	// settleTimeout is how long a way of discovery that is new may take to find something.
	settleTimeout = 2 * time.Second
)

// Found tells what a way of discovery has found so far: groups in the order of their sources.
type Found func(promdiscovery.Config) []*targetgroup.Group

// Nothing is what is found without discovery.
func Nothing(promdiscovery.Config) []*targetgroup.Group { return nil }

// Manager runs the ways of discovery of a configuration. Those that are equal to one that runs are that one, so that a
// new configuration loses nothing of what they found.
type Manager struct {
	logger   *slog.Logger
	registry *prometheus.Registry // of Prometheus's own metrics of discovery
	metrics  *promdiscovery.SDMetrics
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup
	onChange func()

	applying sync.Mutex             // held while ways are added or removed
	manager  *promdiscovery.Manager // nil until there is something to discover: it never rests

	mu      sync.Mutex
	ways    []way
	number  int // of ways that there ever were
	found   map[string][]*targetgroup.Group
	changed chan struct{} // closed when found changes
}

// way is one item of a *_sd_configs list.
type way struct {
	name   string // unique in the life of the manager
	config promdiscovery.Config
}

// NewManager returns a manager that discovers nothing yet. onChange is called, from one goroutine, when what was found
// has changed. Close must be called.
func NewManager(logger *slog.Logger, onChange func()) (*Manager, error) {
	registry := prometheus.NewRegistry()
	metrics, err := promdiscovery.CreateAndRegisterSDMetrics(registry)
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Manager{
		logger: logger, registry: registry, metrics: metrics, ctx: ctx, cancel: cancel, onChange: onChange,
		found: map[string][]*targetgroup.Group{}, changed: make(chan struct{}),
	}, nil
}

// Failures returns a collector of what went wrong.
func (m *Manager) Failures() *Failures { return &Failures{source: m.registry} }

// Check says which of the ways cannot be started, and why.
func Check(configs []promdiscovery.Config, logger *slog.Logger) error {
	registry := prometheus.NewRegistry()
	metrics, err := promdiscovery.CreateAndRegisterSDMetrics(registry)
	if err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	for _, c := range configs {
		_, err := c.NewDiscoverer(promdiscovery.DiscovererOptions{
			Logger: logger, Metrics: metrics.MechanismMetrics[c.Name()], SetName: "check",
		})
		if err != nil {
			return fmt.Errorf("%s_sd_configs: %w", c.Name(), err)
		}
	}
	return nil
}

// Add starts the ways that do not run yet, and waits until each of them has found something, or for two seconds, or for
// the end of ctx. Those that run go on, needed or not: see Keep.
func (m *Manager) Add(ctx context.Context, configs []promdiscovery.Config) {
	m.applying.Lock()
	defer m.applying.Unlock()
	var added []string
	m.mu.Lock()
	for _, c := range configs {
		if m.find(c) != "" {
			continue
		}
		w := way{name: c.Name() + "/" + strconv.Itoa(m.number), config: c}
		m.number++
		m.ways = append(m.ways, w)
		added = append(added, w.name)
	}
	sets := m.sets()
	m.mu.Unlock()
	if len(added) == 0 {
		return
	}
	m.apply(sets)
	m.settle(ctx, added)
}

// Keep ends the ways that are not among configs, and forgets what they found.
func (m *Manager) Keep(configs []promdiscovery.Config) {
	m.applying.Lock()
	defer m.applying.Unlock()
	m.mu.Lock()
	before := len(m.ways)
	m.ways = slices.DeleteFunc(m.ways, func(w way) bool {
		unwanted := !slices.ContainsFunc(configs, func(c promdiscovery.Config) bool { return reflect.DeepEqual(c, w.config) })
		if unwanted {
			delete(m.found, w.name)
		}
		return unwanted
	})
	ended := len(m.ways) < before
	sets := m.sets()
	m.mu.Unlock()
	if ended {
		m.apply(sets)
	}
}

// Found returns what a way has found so far. It is a Found.
func (m *Manager) Found(c promdiscovery.Config) []*targetgroup.Group {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.found[m.find(c)]
}

// Close ends all ways.
func (m *Manager) Close() {
	m.cancel()
	m.running.Wait()
}

// find returns the name of the way with this configuration, "" if there is none.
func (m *Manager) find(c promdiscovery.Config) string {
	for _, w := range m.ways {
		if w.config == c || reflect.DeepEqual(w.config, c) {
			return w.name
		}
	}
	return ""
}

func (m *Manager) sets() map[string]promdiscovery.Configs {
	sets := make(map[string]promdiscovery.Configs, len(m.ways))
	for _, w := range m.ways {
		sets[w.name] = promdiscovery.Configs{w.config}
	}
	return sets
}

// apply has the manager run these ways. What cannot be started is logged there, and Check finds it before.
func (m *Manager) apply(sets map[string]promdiscovery.Configs) {
	if m.manager == nil {
		m.manager = promdiscovery.NewManager(m.ctx, m.logger, m.registry, m.metrics, promdiscovery.Updatert(updateInterval))
		if m.manager == nil {
			return // it has logged why
		}
		m.running.Go(func() { _ = m.manager.Run() })
		m.running.Go(m.receive)
	}
	if err := m.manager.ApplyConfig(sets); err != nil {
		m.logger.Error("discovery", "err", err)
	}
}

// settle waits until each of the named ways has found something.
func (m *Manager) settle(ctx context.Context, names []string) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		m.mu.Lock()
		changed := m.changed
		waiting := slices.ContainsFunc(names, func(name string) bool { return len(m.found[name]) == 0 })
		m.mu.Unlock()
		if !waiting {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// receive takes what the manager finds until it ends.
func (m *Manager) receive() {
	for sets := range m.manager.SyncCh() {
		m.take(sets)
		m.onChange()
	}
}

func (m *Manager) take(sets map[string][]*targetgroup.Group) {
	for _, groups := range sets {
		slices.SortFunc(groups, func(a, b *targetgroup.Group) int { return strings.Compare(a.Source, b.Source) })
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := make(map[string]bool, len(m.ways))
	for _, w := range m.ways {
		known[w.name] = true
	}
	// A message may have been on its way while ways were ended.
	maps.DeleteFunc(sets, func(name string, _ []*targetgroup.Group) bool { return !known[name] })
	maps.Copy(m.found, sets)
	close(m.changed)
	m.changed = make(chan struct{})
}
