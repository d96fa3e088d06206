package exporter

import (
	"context"
	"errors"

	promdiscovery "github.com/prometheus/prometheus/discovery"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/discovery"
)

// Reload puts a configuration to work in place of the one in force. Requests under
// way end on that; what the two have in common goes on: targets with their line
// caches, streams with their connections, and every counter. If the configuration
// cannot be used, the error says why and nothing changes.
func (e *Exporter) Reload(ctx context.Context, c *config.Config) error {
	e.reloading.Lock()
	defer e.reloading.Unlock()
	if err := e.apply(ctx, c); err != nil {
		e.ReloadFailed(err)
		return err
	}
	e.reloads.succeeded()
	e.options.Logger.Info("configuration was loaded again")
	return nil
}

// ReloadFailed tells that a configuration could not even be read, so that metrics and
// log show it.
func (e *Exporter) ReloadFailed(err error) {
	e.reloads.failed()
	e.options.Logger.Error("configuration was not loaded again, the one in force stays", "err", err)
}

func (e *Exporter) apply(ctx context.Context, c *config.Config) error {
	if err := e.check(c); err != nil {
		return err
	}
	ways := e.ways(c)
	// What is new is started beside what runs, so that targets which both find never leave.
	e.discovery.Add(ctx, ways)
	e.mu.Lock()
	if err := e.web.Apply(c); err != nil {
		before := e.config
		e.mu.Unlock()
		e.discovery.Keep(e.ways(before))
		return err
	}
	e.config = c
	e.omni.apply(c)
	e.passes.apply(c)
	e.mu.Unlock()
	e.discovery.Keep(ways)
	return nil
}

// check says what of a configuration cannot be used, as far as can be told without
// using it.
func (e *Exporter) check(c *config.Config) error {
	return errors.Join(discovery.Check(e.ways(c), e.options.Logger), e.passes.check(c))
}

// rediscover puts to work what discovery has found since.
func (e *Exporter) rediscover() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.config == nil {
		return // not started yet
	}
	if err := e.web.Apply(e.config); err != nil {
		e.options.Logger.Error("what was discovered cannot be put to work", "err", err)
	}
	e.passes.subscribe(e.config)
}

// ways returns the ways of discovery that a configuration needs, each once.
func (e *Exporter) ways(c *config.Config) []promdiscovery.Config {
	var out []promdiscovery.Config
	for i := range c.Pipelines {
		for j := range c.Pipelines[i].Upstreams {
			out = append(out, c.Pipelines[i].Upstreams[j].Configs()...)
		}
	}
	if e.passes == nil {
		return out
	}
	for i := range c.ForwardPassMetrics.Streams {
		out = append(out, c.ForwardPassMetrics.Streams[i].Configs()...)
	}
	return out
}
