package config

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/units"
	commoncfg "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/relabel"
	"go.yaml.in/yaml/v3"
)

//go:generate go test -run ^TestReference$ -count=1 . -update

const (
	documentFile   = "../../docs/configuration.md"
	referenceBegin = "<!-- The reference is generated from the Go types: run \"go generate ./internal/config\". -->\n"
	referenceEnd   = "<!-- End of the reference. -->\n"
)

// section is the table of one struct type.
type section struct {
	title    string
	defaults any // a pointer to the struct, filled with the defaults of its keys
}

func sections() []section {
	config, pipeline, stage, upstream, stream := DefaultConfig(), DefaultPipeline(), DefaultStage(), DefaultUpstream(), DefaultStream()
	return []section{
		{"The file", &config},
		{"`global`", &config.Global},
		{"An item of `pipelines`", &pipeline},
		{"An item of `stages`", &stage},
		{"An item of `upstreams`", &upstream},
		{"An item of `static_configs`", &StaticConfig{}},
		{"Discovery, in items of `upstreams` and `streams`", &Discovery{}},
		{"`events`", &config.Events},
		{"`forward_pass_metrics`", &config.ForwardPassMetrics},
		{"An item of `streams`", &stream},
		{"`capture`", &config.ForwardPassMetrics.Capture},
	}
}

// The reference in the manual is what the code says.
func TestReference(t *testing.T) {
	data, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := bytes.Cut(data, []byte(referenceBegin))
	_, after, ok2 := bytes.Cut(rest, []byte(referenceEnd))
	if !ok1 || !ok2 {
		t.Fatalf("%s: no markers of the reference", documentFile)
	}
	want := string(before) + referenceBegin + reference(t) + referenceEnd + string(after)
	if want == string(data) {
		return
	}
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(documentFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s is not what the code says: run \"go generate ./internal/config\"", documentFile)
}

// Every struct that can be written in a file has its table.
func TestReferenceIsComplete(t *testing.T) {
	have := map[reflect.Type]bool{}
	for _, s := range sections() {
		have[reflect.TypeOf(s.defaults).Elem()] = true
	}
	var visit func(reflect.Type)
	visit = func(at reflect.Type) {
		for at.Kind() == reflect.Slice || at.Kind() == reflect.Pointer {
			at = at.Elem()
		}
		if at.Kind() != reflect.Struct || foreign(at) {
			return
		}
		if !have[at] {
			t.Errorf("no section for %v", at)
		}
		for sf := range at.Fields() {
			visit(sf.Type)
		}
	}
	visit(reflect.TypeFor[Config]())
}

// reference returns the tables of all sections.
func reference(t *testing.T) string {
	docs := fieldDocs(t)
	var b strings.Builder
	for _, s := range sections() {
		v := reflect.ValueOf(s.defaults).Elem()
		fmt.Fprintf(&b, "\n### %s\n\n| key | value | default | meaning |\n|---|---|---|---|\n", s.title)
		var also []string
		for sf, value := range v.Fields() {
			name, options, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
			doc := docs[v.Type().Name()+"."+sf.Name]
			if doc == "" {
				t.Errorf("%v.%s has no comment", v.Type(), sf.Name)
			}
			if options == "inline" {
				also = append(also, strings.TrimSuffix(doc, ".")+": `"+strings.Join(keysOf(sf.Type), "`, `")+"`.")
				continue
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, typeText(sf.Type), defaultText(t, value), strings.ReplaceAll(doc, "|", `\|`))
		}
		for _, line := range also {
			fmt.Fprintf(&b, "\n%s\n", line)
		}
	}
	return b.String() + "\n"
}

// keysOf returns the keys of struct t in the order of its fields.
func keysOf(t reflect.Type) []string {
	var keys []string
	for sf := range t.Fields() {
		name, options, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		if options == "inline" {
			keys = append(keys, keysOf(sf.Type)...)
		} else if name != "" && name != "-" {
			keys = append(keys, name)
		}
	}
	return keys
}

// typeText says what a value of t looks like.
func typeText(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[model.Duration]():
		return "duration"
	case reflect.TypeFor[units.Base2Bytes]():
		return "size"
	case reflect.TypeFor[[]*relabel.Config]():
		return "list of rules"
	case reflect.TypeFor[commoncfg.HTTPClientConfig]():
		return "keys"
	}
	switch t.Kind() {
	case reflect.Slice:
		if item := t.Elem(); item.Kind() != reflect.Struct && item.Kind() != reflect.Pointer {
			return "list of " + strings.TrimSuffix(typeText(item), "s") + "s"
		}
		return "list"
	case reflect.Map:
		if t.Elem().Kind() == reflect.Slice {
			return "keys, each a list of texts"
		}
		return "keys, each a text"
	case reflect.Struct:
		return "section"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64:
		return "number"
	default:
		return "text"
	}
}

// defaultText returns the default as it would be written.
func defaultText(t *testing.T, v reflect.Value) string {
	if v.Kind() == reflect.Struct || (v.IsZero() && v.Kind() != reflect.Bool && v.Kind() != reflect.Int) {
		return ""
	}
	var n yaml.Node
	if err := n.Encode(v.Interface()); err != nil {
		t.Fatal(err)
	}
	n.Style = yaml.FlowStyle
	out, err := yaml.Marshal(&n)
	if err != nil {
		t.Fatal(err)
	}
	return "`" + strings.TrimSpace(string(out)) + "`"
}

// fieldDocs returns the comments of all fields of the package, by "Type.Field", each on one line.
func fieldDocs(t *testing.T) map[string]string {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			structType, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range structType.Fields.List {
				doc := strings.Join(strings.Fields(field.Doc.Text()), " ")
				if len(field.Names) == 0 { // embedded: named by its type
					docs[spec.Name.Name+"."+fmt.Sprint(field.Type)] = doc
				}
				for _, ident := range field.Names {
					docs[spec.Name.Name+"."+ident.Name] = doc
				}
			}
			return true
		})
	}
	return docs
}
