// Package mixins holds the monitoring mixin: alerts, recording rules and dashboards as jsonnet, with the rule files that
// are generated from it.
package mixins

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:generate go run ./generate

//go:embed all:omni-mixin
var files embed.FS

// Omni returns the files of omni-mixin, the generated prometheus_alerts.yaml and prometheus_rules.yaml among them.
func Omni() fs.FS {
	tree, err := fs.Sub(files, "omni-mixin")
	if err != nil {
		panic(fmt.Sprintf("mixins: embedded files: %v", err)) // the name is fixed at compile time
	}
	return tree
}
