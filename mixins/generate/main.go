// Command generate writes what is made from omni-mixin: rule files, dashboards and their Kubernetes forms. It formats the
// jsonnet on the way. It runs in the folder mixins, by `go generate`.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/omni-exporter/omni_exporter/mixins/mixinbuild"
)

// Where things are, as seen from the folder mixins.
const (
	source     = "omni-mixin"
	dashboards = "../dashboards"
	kubernetes = "../deploy/kubernetes/monitoring"
)

func main() {
	if err := generate(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate() error {
	if err := format(); err != nil {
		return err
	}
	out, err := mixinbuild.Build(os.DirFS(source), "{}")
	if err != nil {
		return err
	}
	files := map[string][]byte{
		filepath.Join(source, "prometheus_alerts.yaml"):       out.Alerts,
		filepath.Join(source, "prometheus_rules.yaml"):        out.Rules,
		filepath.Join(kubernetes, "omni-prometheusrule.yaml"): out.PrometheusRule,
		filepath.Join(kubernetes, "omni-dashboards.yaml"):     out.ConfigMaps,
	}
	for name, text := range out.Dashboards {
		files[filepath.Join(dashboards, name)] = text
	}
	if err := removeStale(files); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// format rewrites the jsonnet files that jsonnetfmt would.
func format() error {
	return filepath.WalkDir(source, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, "sonnet") {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		formatted, err := mixinbuild.Format(name, string(text))
		if err != nil || formatted == string(text) {
			return err
		}
		return os.WriteFile(name, []byte(formatted), 0o644)
	})
}

// removeStale removes dashboards that the mixin no longer has.
func removeStale(files map[string][]byte) error {
	old, err := filepath.Glob(filepath.Join(dashboards, "*.json"))
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range old {
		if _, ok := files[filepath.Clean(name)]; !ok {
			errs = append(errs, os.Remove(name))
		}
	}
	return errors.Join(errs...)
}
