package config

import (
	"bytes"
	"encoding"
	"errors"
	"io"
	"maps"
	"net/url"
	"reflect"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/alecthomas/units"
	commoncfg "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery/kubernetes"
	"github.com/prometheus/prometheus/model/relabel"
	"go.yaml.in/yaml/v3"
)

// Aliases let a small file stand for an endless one. No configuration comes near these numbers.
const (
	maxNodes = 1 << 18
	maxDepth = 64
	// maxFaults is enough for anyone to mend before trying again.
	maxFaults = 100
)

// readDocument returns the root of the only document in data, nil when there is none or when it reports a fault to r.
func readDocument(r *report, data []byte) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		r.syntax(err)
		return nil
	}
	switch err := dec.Decode(&next); {
	case err == nil:
		r.addAt(next.Line, "", "a second document begins here: one file holds one configuration, remove this document and the \"---\" before it")
	case !errors.Is(err, io.EOF):
		r.syntax(err)
	}
	return doc.Content[0]
}

// form checks that a YAML document has the form of a Go type, and remembers on which line each key is. The YAML library checks
// this as well, but its errors name no key, name Go types, and quote values that may be secret.
type form struct {
	*report
	lines lineIndex
	nodes int
	depth int
}

// lineIndex holds the line of every key path that is written and not null.
type lineIndex map[string]int

// written reports whether the file gives the key at path a value.
func (l lineIndex) written(path string) bool { return l[path] > 0 }

// line returns the line of the key at path, else of the nearest section around it.
func (l lineIndex) line(path string) int {
	for path != "" {
		if n := l[path]; n > 0 {
			return n
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return l[""]
}

// checkForm reports every fault of form in the document under root to r, and returns where its keys are. From then on r
// locates faults in the document.
func checkForm(r *report, name string, root *yaml.Node) lineIndex {
	f := &form{report: r, lines: lineIndex{}}
	r.locate = func(path string) (string, int) { return name, f.lines.line(path) }
	if root != nil {
		f.lines[""] = root.Line
		f.value(root, reflect.TypeFor[Config](), "")
	}
	return f.lines
}

// value checks that n has the form of t.
func (f *form) value(n *yaml.Node, t reflect.Type, path string) {
	f.depth++
	defer func() { f.depth-- }()
	f.nodes++
	if f.nodes > maxNodes || f.depth > maxDepth || len(f.errs) >= maxFaults {
		if f.nodes == maxNodes+1 || f.depth > maxDepth {
			f.add(path, "nested too deeply, or repeated too often by aliases: write it out")
		}
		return
	}
	n = target(n)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if isNull(n) {
		delete(f.lines, path) // as if absent
		return
	}
	before := len(f.errs)
	switch {
	case isLeaf(t):
		f.leaf(n, t, path)
		return
	case t.Kind() == reflect.Struct:
		fields, rest := fieldsOf(t)
		f.mapping(n, path, func(key string) (reflect.Type, string) {
			if ft, ok := fields[key]; ok {
				if strings.HasSuffix(key, "_ref") && foreign(t) {
					return nil, "refers to a secret manager, and there is none here: use the key that ends in _file"
				}
				return ft, ""
			}
			return rest, "unknown field: known here are " + strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
		})
	case t.Kind() == reflect.Map:
		f.mapping(n, path, func(string) (reflect.Type, string) { return t.Elem(), "" })
	case t.Kind() == reflect.Slice:
		f.list(n, t.Elem(), path)
	}
	if foreign(t) && len(f.errs) == before {
		// Prometheus's own types check themselves while they are decoded.
		err := n.Decode(reflect.New(t).Interface())
		if _, ok := errors.AsType[*url.Error](err); ok {
			f.add(path, "want a URL (the value is not shown, as it may hold a secret)")
		} else if err != nil {
			f.add(path, "%s", withoutValues(err.Error()))
		}
	}
}

// keyType returns the type of the value of a key, or nil and why the key is wrong.
type keyType func(key string) (t reflect.Type, wrong string)

// mapping checks the keys of n, then those that "<<" merges into it.
func (f *form) mapping(n *yaml.Node, path string, typeOf keyType) {
	if n.Kind != yaml.MappingNode {
		f.add(path, "want keys and values, found %s", kindOf(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := target(n.Content[i]), n.Content[i+1]
		if key.Tag == mergeTag {
			continue
		}
		if key.Kind != yaml.ScalarNode {
			f.addAt(n.Content[i].Line, path, "a key must be plain text, found %s", kindOf(key))
			continue
		}
		at := sub(path, key.Value)
		if first, ok := seen[key.Value]; ok {
			f.addAt(key.Line, at, "already set on line %d: keep one of the two", first)
			continue
		}
		seen[key.Value] = key.Line
		f.key(key, value, at, typeOf)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Tag == mergeTag {
			f.merge(n.Content[i+1], path, typeOf)
		}
	}
}

// key checks one key and its value.
func (f *form) key(key, value *yaml.Node, at string, typeOf keyType) {
	t, wrong := typeOf(key.Value)
	if t == nil {
		f.addAt(key.Line, at, "%s", wrong)
		return
	}
	f.lines[at] = key.Line
	f.value(value, t, at)
}

// merge checks the mappings that "<<" brings in. Keys that are there already stay.
func (f *form) merge(n *yaml.Node, path string, typeOf keyType) {
	f.depth++
	defer func() { f.depth-- }()
	if f.nodes++; f.nodes > maxNodes || f.depth > maxDepth {
		f.add(path, "nested too deeply, or repeated too often by aliases: write it out")
		return
	}
	n = target(n)
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			f.merge(item, path, typeOf)
		}
		return
	}
	if n.Kind != yaml.MappingNode {
		f.add(path, "\"<<\" wants keys and values, found %s", kindOf(n))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := target(n.Content[i])
		switch {
		case key.Tag == mergeTag:
			f.merge(n.Content[i+1], path, typeOf)
		case key.Kind == yaml.ScalarNode && !f.lines.written(sub(path, key.Value)):
			f.key(key, n.Content[i+1], sub(path, key.Value), typeOf)
		}
	}
}

// list checks the items of n.
func (f *form) list(n *yaml.Node, t reflect.Type, path string) {
	if n.Kind != yaml.SequenceNode {
		f.add(path, "want a list, found %s: put each item on a line of its own after \"- \", or all between [ and ]", kindOf(n))
		return
	}
	for i, item := range n.Content {
		at := index(path, i)
		f.lines[at] = item.Line
		if isNull(target(item)) {
			f.addAt(item.Line, at, "the item is empty: fill it in or remove it")
			continue
		}
		f.value(item, t, at)
	}
}

// leaf checks a single value.
func (f *form) leaf(n *yaml.Node, t reflect.Type, path string) {
	what, show := leafText(t)
	if n.Kind != yaml.ScalarNode {
		f.add(path, "want %s, found %s", what, kindOf(n))
		return
	}
	err := n.Decode(reflect.New(t).Interface())
	var regexpErr *syntax.Error
	switch {
	case err == nil && (n.ShortTag() != "!!float" || what != wholeNumber): // the library cuts fractions off
	case errors.As(err, &regexpErr):
		f.add(path, "want %s, found %s: %s", what, quote(n.Value), regexpErr.Code)
	case show:
		f.add(path, "want %s, found %s", what, quote(n.Value))
	default:
		f.add(path, "want %s (the value is not shown, as it may hold a secret)", what)
	}
}

const wholeNumber = "a whole number"

// leafText says what a value of t looks like, and whether a wrong one may be shown.
func leafText(t reflect.Type) (what string, show bool) {
	switch t {
	case reflect.TypeFor[model.Duration]():
		return "a duration such as 500ms, 10s or 1h30m", true
	case reflect.TypeFor[units.Base2Bytes]():
		return "a size such as 512KB, 32MB or 1GB, or 0", true
	case reflect.TypeFor[relabel.Regexp]():
		return "a regular expression of RE2 syntax", true
	case reflect.TypeFor[relabel.Action]():
		return "an action of Prometheus's relabeling (replace, keep, drop, labelmap, ...)", true
	case reflect.TypeFor[model.LabelName]():
		return "a label name", true
	case reflect.TypeFor[commoncfg.TLSVersion]():
		return "TLS10, TLS11, TLS12 or TLS13", true
	case reflect.TypeFor[kubernetes.Role]():
		return "a role: pod, service, endpoints, endpointslice, node or ingress", true
	case reflect.TypeFor[commoncfg.URL]():
		return "a URL", false
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false", true
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return wholeNumber, true
	default:
		return "text", false
	}
}

// isLeaf reports whether a value of t is written as a single value.
func isLeaf(t reflect.Type) bool {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return true
	}
	switch t.Kind() {
	case reflect.Struct: // those without keys read themselves from text
		fields, rest := fieldsOf(t)
		return len(fields) == 0 && rest == nil
	case reflect.Map, reflect.Slice, reflect.Interface:
		return false
	default:
		return true
	}
}

// fieldsOf returns the types of the keys of struct t, inlined ones included, and the type of all other keys if t takes any.
func fieldsOf(t reflect.Type) (fields map[string]reflect.Type, rest reflect.Type) {
	fields = map[string]reflect.Type{}
	for sf := range t.Fields() {
		name, options, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		switch {
		case options == "inline" && sf.Type.Kind() == reflect.Map:
			rest = sf.Type.Elem()
		case options == "inline":
			inner, innerRest := fieldsOf(sf.Type)
			maps.Copy(fields, inner)
			if innerRest != nil {
				rest = innerRest
			}
		case name != "" && name != "-":
			fields[name] = sf.Type
		}
	}
	return fields, rest
}

// foreign reports whether t is another module's struct, with checks of its own.
func foreign(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.PkgPath() != reflect.TypeFor[Config]().PkgPath()
}

// target follows an alias.
func target(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// mergeTag marks the key "<<".
const mergeTag = "!!merge"

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	default:
		return "a single value"
	}
}
