package config

import (
	"net/url"

	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/dns"
	"github.com/prometheus/prometheus/discovery/file"
	"github.com/prometheus/prometheus/discovery/http"
	"github.com/prometheus/prometheus/discovery/kubernetes"
)

// Discovery are the ways by which targets are found while the exporter runs. Keys and code are Prometheus's own.
type Discovery struct {
	// Targets in files of JSON or YAML, which are watched.
	FileSDConfigs []*file.SDConfig `yaml:"file_sd_configs,omitempty"`
	// Targets that an HTTP server lists.
	HTTPSDConfigs []*http.SDConfig `yaml:"http_sd_configs,omitempty"`
	// Targets by DNS records.
	DNSSDConfigs []*dns.SDConfig `yaml:"dns_sd_configs,omitempty"`
	// Targets by the Kubernetes API.
	KubernetesSDConfigs []*kubernetes.SDConfig `yaml:"kubernetes_sd_configs,omitempty"`
}

// Configs returns all of them, in the order of the keys.
func (d *Discovery) Configs() []discovery.Config {
	var out []discovery.Config
	for _, c := range d.FileSDConfigs {
		out = append(out, c)
	}
	for _, c := range d.HTTPSDConfigs {
		out = append(out, c)
	}
	for _, c := range d.DNSSDConfigs {
		out = append(out, c)
	}
	for _, c := range d.KubernetesSDConfigs {
		out = append(out, c)
	}
	return out
}

// Discovers reports whether there are any.
func (d *Discovery) Discovers() bool {
	return len(d.FileSDConfigs)+len(d.HTTPSDConfigs)+len(d.DNSSDConfigs)+len(d.KubernetesSDConfigs) > 0
}

// setDirectory joins every relative path with dir.
func (d *Discovery) setDirectory(dir string) {
	all := discovery.Configs(d.Configs())
	all.SetDirectory(dir)
}

// validate reports what Prometheus's own checks, made while decoding, let pass.
func (d *Discovery) validate(r *report, at string) {
	for i, c := range d.FileSDConfigs {
		positive(r, sub(index(sub(at, "file_sd_configs"), i), "refresh_interval"), c.RefreshInterval)
	}
	for i, c := range d.HTTPSDConfigs {
		configAt := index(sub(at, "http_sd_configs"), i)
		positive(r, sub(configAt, "refresh_interval"), c.RefreshInterval)
		// Nothing hides a password in a URL where the configuration is printed.
		if u, err := url.Parse(c.URL); err == nil && u.User != nil {
			r.add(sub(configAt, "url"), "holds a user: put credentials under basic_auth")
		}
	}
	for i, c := range d.DNSSDConfigs {
		positive(r, sub(index(sub(at, "dns_sd_configs"), i), "refresh_interval"), c.RefreshInterval)
	}
	for i, c := range d.KubernetesSDConfigs {
		if u := c.APIServer.URL; u != nil && u.User != nil {
			r.add(sub(index(sub(at, "kubernetes_sd_configs"), i), "api_server"), "holds a user: put credentials under basic_auth")
		}
	}
}
