// Package mixinbuild turns the jsonnet of omni-mixin into what Prometheus, Grafana and Kubernetes read.
package mixinbuild

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"

	"github.com/google/go-jsonnet"
)

// generatedBy heads each generated YAML file.
const generatedBy = "# Generated from mixins/omni-mixin by `make generate`. Change it there.\n"

// Output is one mixin, evaluated. YAML and JSON end with a newline.
type Output struct {
	Alerts         []byte            // rule file of alerting rules
	Rules          []byte            // rule file of recording rules
	PrometheusRule []byte            // both, as a resource of the Prometheus operator
	Dashboards     map[string][]byte // classic dashboard JSON by file name
	ConfigMaps     []byte            // the dashboards as Kubernetes ConfigMaps
}

// Build evaluates the mixin in fsys. config is a jsonnet object that is laid over the mixin's _config; "{}" changes
// nothing. An error names file and line of the jsonnet.
func Build(fsys fs.FS, config string) (*Output, error) {
	vm := jsonnet.MakeVM()
	vm.Importer(&importer{fsys: fsys, seen: map[string]jsonnet.Contents{}})
	vm.TLACode("config", config)

	out := &Output{Dashboards: map[string][]byte{}}
	for _, text := range []struct {
		entry string
		to    *[]byte
	}{
		{"lib/alerts.jsonnet", &out.Alerts},
		{"lib/rules.jsonnet", &out.Rules},
		{"lib/prometheusrule.jsonnet", &out.PrometheusRule},
		{"lib/configmaps.jsonnet", &out.ConfigMaps},
	} {
		vm.StringOutput = true
		yaml, err := vm.EvaluateFile(text.entry)
		if err != nil {
			return nil, fmt.Errorf("evaluate %s: %w", text.entry, err)
		}
		*text.to = append([]byte(generatedBy), bytes.TrimRight([]byte(yaml), "\n")...)
		*text.to = append(*text.to, '\n')
	}

	vm.StringOutput = false
	dashboards, err := vm.EvaluateFileMulti("lib/dashboards.jsonnet")
	if err != nil {
		return nil, fmt.Errorf("evaluate lib/dashboards.jsonnet: %w", err)
	}
	for name, text := range dashboards {
		var indented bytes.Buffer
		if err := json.Indent(&indented, bytes.TrimSpace([]byte(text)), "", "  "); err != nil {
			return nil, fmt.Errorf("dashboard %s: %w", name, err)
		}
		indented.WriteByte('\n')
		out.Dashboards[name] = indented.Bytes()
	}
	return out, nil
}

// importer reads imports from a file system, relative to the importing file and nowhere else.
type importer struct {
	fsys fs.FS
	seen map[string]jsonnet.Contents // go-jsonnet demands the same Contents for the same path
}

func (i *importer) Import(from, name string) (jsonnet.Contents, string, error) {
	found := path.Join(path.Dir(from), name)
	if contents, ok := i.seen[found]; ok {
		return contents, found, nil
	}
	text, err := fs.ReadFile(i.fsys, found)
	if err != nil {
		return jsonnet.Contents{}, "", fmt.Errorf("import %q: %w", name, err)
	}
	i.seen[found] = jsonnet.MakeContents(string(text))
	return i.seen[found], found, nil
}
