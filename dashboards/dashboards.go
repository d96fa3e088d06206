// Package dashboards holds the Grafana dashboards that are generated from mixins/omni-mixin.
package dashboards

import "embed"

// Files are the dashboards as classic JSON, one file each, ready for import.
//
//go:embed *.json
var Files embed.FS
