package scrape

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	commonconfig "github.com/prometheus/common/config"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/exposition"
	"github.com/omni-exporter/omni_exporter/relabel"
)

// idleConnTimeout is longer than the usual scrape intervals, so that connections
// are kept from one scrape to the next.
const idleConnTimeout = 5 * time.Minute

// keepAlive is how often an idle connection is probed.
const keepAlive = 30 * time.Second

// PoolOptions are what a pool needs beside its configuration.
type PoolOptions struct {
	Own    Own     // renders the exporter's own families; nil: none
	Totals *Totals // counts what merging costs
	Logger *slog.Logger
}

// NewPool returns the pool of a configuration's targets. The error names the
// pipeline, and the target or file that cannot be used.
func NewPool(c *config.Config, o PoolOptions) (*Pool, error) {
	ctx, cancel := context.WithCancel(context.Background())
	buffers := &exposition.Buffers{}
	p := &Pool{ctx: ctx, cancel: cancel, buffers: buffers, own: newOwnPage(o, buffers), totals: o.Totals}
	for i := range c.Pipelines {
		if err := p.addPipeline(c, &c.Pipelines[i], o.Logger); err != nil {
			p.Close()
			return nil, err
		}
	}
	p.merger = exposition.NewMerger(1 + len(p.targets))
	return p, nil
}

func (p *Pool) addPipeline(c *config.Config, pipeline *config.Pipeline, logger *slog.Logger) error {
	flat := make([]relabel.Pool, len(pipeline.Stages))
	for i := range pipeline.Stages {
		flat[i] = relabel.Pool{Stage: pipeline.StageLabel(i), Replicas: pipeline.Stages[i].Replicas}
	}
	flatTopology := relabel.FlatTopology(flat) // one for all: it is as large as the pipeline
	numbers := map[string]int{}                // targets so far of each stage
	seen := map[string]bool{}
	for i := range pipeline.Upstreams {
		u := &pipeline.Upstreams[i]
		client, err := p.client(u)
		if err != nil {
			return fmt.Errorf("pipeline %q: upstream %d: %w", pipeline.Name, i+1, err)
		}
		for _, e := range endpoints(u) {
			if seen[e.address] {
				return fmt.Errorf("pipeline %q: target %q occurs twice after relabeling: give it to one upstream", pipeline.Name, e.address)
			}
			seen[e.address] = true
			topology := flatTopology
			if e.stage != "" {
				if e.replica == "" {
					e.replica = fmt.Sprint(numbers[e.stage])
				}
				numbers[e.stage]++
				topology = relabel.TargetTopology(e.stage, e.replica, u.DataParallelSize)
			}
			p.targets = append(p.targets, newTarget(TargetOptions{
				Address: e.address, Pipeline: pipeline.Name, URL: e.url, Client: client,
				Stage: e.stage, Engines: u.DataParallelSize,
				Rules:   relabel.NewRules(ruleOptions(c, pipeline, u, e, topology)),
				Timeout: time.Duration(u.ScrapeTimeout), MinInterval: time.Duration(u.MinScrapeInterval),
				BodySizeLimit: int64(u.BodySizeLimit), Compression: u.EnableCompression, Logger: logger,
			}, p.buffers))
		}
	}
	return nil
}

func ruleOptions(c *config.Config, pipeline *config.Pipeline, u *config.Upstream, e endpoint, t relabel.Topology) relabel.Options {
	labels := map[string]string{}
	for name, value := range e.labels {
		labels[name] = value
	}
	if pipeline.Name != "" {
		labels["pipeline"] = pipeline.Name
	}
	return relabel.Options{
		Topology: t, DropUnmapped: pipeline.OnUnmapped == config.UnmappedDrop, Labels: labels,
		Include: c.Include.Match, OmniPrefix: c.OmniPrefix, Aliases: c.NormalizeNames,
		KeepCreated: c.CreatedSeries == config.CreatedKeep,
		Limits: relabel.Limits{
			Samples: u.SampleLimit, Labels: u.LabelLimit,
			LabelName: u.LabelNameLengthLimit, LabelValue: u.LabelValueLengthLimit,
		},
		MetricRelabel: u.MetricRelabelConfigs,
	}
}

// client returns the HTTP client of an upstream's targets. HTTP/2 is off: one
// connection a target, kept alive, is all that a scrape needs.
func (p *Pool) client(u *config.Upstream) (*http.Client, error) {
	client, err := commonconfig.NewClientFromConfig(u.HTTPClient, "omni_exporter",
		commonconfig.WithHTTP2Disabled(), commonconfig.WithIdleConnTimeout(idleConnTimeout),
		commonconfig.WithDialContextFunc((&net.Dialer{KeepAlive: keepAlive}).DialContext))
	if err != nil {
		return nil, fmt.Errorf("HTTP client options: %w", err)
	}
	if u.HTTPClient.FollowRedirects {
		client.CheckRedirect = sameHost
	}
	p.closers = append(p.closers, client.CloseIdleConnections)
	return client, nil
}

// endpoint is a target as its upstream describes it.
type endpoint struct {
	address        string
	url            *url.URL
	stage, replica string
	labels         map[string]string // to be added to its series
}

// ownPage rewrites the exporter's own families, so that they go through the same
// merge as the targets'.
type ownPage struct {
	render Own
	logger *slog.Logger

	mu       sync.Mutex
	rewriter *relabel.Target
	last     *exposition.Page // kept for the next to be compared with
	spare    []byte           // what the next is rendered into
}

func newOwnPage(o PoolOptions, b *exposition.Buffers) *ownPage {
	rules := relabel.NewRules(relabel.Options{KeepCreated: true})
	return &ownPage{render: o.Own, logger: o.Logger, rewriter: relabel.NewTarget(rules, b)}
}

// page returns a page with a reference for the caller, or nil if there is none.
func (o *ownPage) page(states []State) *exposition.Page {
	if o.render == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	result, spare, err := o.rewriter.Rewrite(o.render(o.spare[:0], states), exposition.Text)
	o.spare = spare
	if err != nil {
		if o.logger != nil {
			o.logger.Error("own families are left out: this is a fault of the exporter", "err", err)
		}
		return nil
	}
	if o.last != nil {
		o.last.Release()
	}
	o.last = result.Page
	result.Page.Retain()
	return result.Page
}

// hostPort returns the address with the scheme's port if it has none.
func hostPort(address, scheme string) string {
	if u := (&url.URL{Host: address}); u.Port() != "" {
		return address
	}
	port := "80"
	if scheme == "https" {
		port = "443"
	}
	return strings.TrimSuffix(address, ":") + ":" + port
}
