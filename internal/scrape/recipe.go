package scrape

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"time"

	commonconfig "github.com/prometheus/common/config"
	promrelabel "github.com/prometheus/prometheus/model/relabel"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/relabel"
)

// idleConnTimeout is longer than the usual scrape intervals, so that connections
// are kept from one scrape to the next.
const idleConnTimeout = 5 * time.Minute

// recipe is how the targets of an upstream are scraped and rewritten, but for what
// is each target's own. Configurations that say the same share one, so that a pointer
// tells whether anything has changed.
type recipe struct {
	options     recipeOptions
	client      *http.Client
	connections *openConnections
	flat        relabel.Topology // one for all targets: it is as large as the pipeline
}

// recipeOptions are compared with reflect.DeepEqual, as Prometheus compares what
// its scrapes are made by.
type recipeOptions struct {
	Pipeline      string
	Stages        []relabel.Pool
	DropUnmapped  bool
	Include       config.Globs
	OmniPrefix    string
	Aliases       bool
	KeepCreated   bool
	Engines       int
	Scrape        config.ScrapeOptions
	Compression   bool
	MetricRelabel []*promrelabel.Config
	HTTPClient    commonconfig.HTTPClientConfig
}

// recipe returns the recipe of an upstream: one of those known, or a new one.
func newRecipe(c *config.Config, pipeline *config.Pipeline, u *config.Upstream, known []*recipe) (*recipe, error) {
	o := recipeOptions{
		Pipeline: pipeline.Name, DropUnmapped: pipeline.OnUnmapped == config.UnmappedDrop,
		Include: c.Include, OmniPrefix: c.OmniPrefix, Aliases: c.NormalizeNames,
		KeepCreated: c.CreatedSeries == config.CreatedKeep, Engines: u.DataParallelSize,
		Scrape: u.ScrapeOptions, Compression: u.EnableCompression, MetricRelabel: u.MetricRelabelConfigs,
		HTTPClient: u.HTTPClient,
	}
	for i := range pipeline.Stages {
		o.Stages = append(o.Stages, relabel.Pool{Stage: pipeline.StageLabel(i), Replicas: pipeline.Stages[i].Replicas})
	}
	r := &recipe{options: o}
	for _, k := range known {
		if k.options.Pipeline != o.Pipeline || !reflect.DeepEqual(k.options.HTTPClient, o.HTTPClient) {
			continue
		}
		if reflect.DeepEqual(k.options, o) {
			return k, nil
		}
		r.client, r.connections = k.client, k.connections
	}
	r.flat = relabel.FlatTopology(o.Stages)
	if r.client != nil {
		return r, nil
	}
	r.connections = newOpenConnections()
	var err error
	if r.client, err = newClient(o.HTTPClient, r.connections); err != nil {
		return nil, err
	}
	return r, nil
}

// newClient returns the HTTP client of targets. HTTP/2 is off: one connection a
// target, kept alive, is all that a scrape needs.
func newClient(c commonconfig.HTTPClientConfig, connections *openConnections) (*http.Client, error) {
	client, err := commonconfig.NewClientFromConfig(c, "omni_exporter",
		commonconfig.WithHTTP2Disabled(), commonconfig.WithIdleConnTimeout(idleConnTimeout),
		commonconfig.WithDialContextFunc(connections.dial))
	if err != nil {
		return nil, fmt.Errorf("HTTP client options: %w", err)
	}
	if c.FollowRedirects {
		client.CheckRedirect = sameHost
	}
	return client, nil
}

// targetKey is what makes a target the one it is. Anything else about it follows.
type targetKey struct {
	recipe         *recipe
	url            string
	address        string
	stage, replica string
	labels         string // in a canonical spelling
}

func (e *endpoint) key() targetKey {
	labels := url.Values{}
	for name, value := range e.labels {
		labels.Set(name, value)
	}
	return targetKey{e.recipe, e.url.String(), e.address, e.stage, e.replica, labels.Encode()}
}
