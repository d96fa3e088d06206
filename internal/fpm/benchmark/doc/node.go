package doc

import (
	"slices"
	"strconv"
	"strings"
)

// Node is a value together with its place in a document. A Node of a member that is not there is absent: it can be
// asked anything, and every answer is no.
type Node struct {
	value   any
	present bool
	at      *step
}

// step is one link of a path, from the leaf to the root.
type step struct {
	up    *step
	key   string
	index int // used when key is empty and isKey is false
	isKey bool
}

// Root is the node of a whole document.
func Root(v any) Node { return Node{value: v, present: true} }

// Key is the member of an object.
func (n Node) Key(key string) Node {
	child := Node{at: &step{up: n.at, key: key, isKey: true}}
	if o, ok := n.value.(*Object); ok {
		child.value, child.present = o.Get(key)
	}
	return child
}

// At is the element of an array.
func (n Node) At(i int) Node {
	child := Node{at: &step{up: n.at, index: i}}
	if a, ok := n.value.([]any); ok && i >= 0 && i < len(a) {
		child.value, child.present = a[i], true
	}
	return child
}

// Items are the elements of an array; nil when the node is no array.
func (n Node) Items() []Node {
	a, ok := n.value.([]any)
	if !ok {
		return nil
	}
	items := make([]Node, len(a))
	for i := range a {
		items[i] = n.At(i)
	}
	return items
}

// Value is what is there, nil when absent.
func (n Node) Value() any { return n.value }

// Present says whether the document has this place at all; a JSON null is present.
func (n Node) Present() bool { return n.present }

// IsNull says whether a JSON null is written here.
func (n Node) IsNull() bool { return n.present && n.value == nil }

// IsNone says whether the place is absent or null.
func (n Node) IsNone() bool { return n.value == nil }

// Object is the object at this place.
func (n Node) Object() (*Object, bool) { o, ok := n.value.(*Object); return o, ok }

// Array is the array at this place.
func (n Node) Array() ([]any, bool) { a, ok := n.value.([]any); return a, ok }

// Text is the string at this place.
func (n Node) Text() (string, bool) { s, ok := n.value.(string); return s, ok }

// Bool is the boolean at this place.
func (n Node) Bool() (value, ok bool) { value, ok = n.value.(bool); return value, ok }

// Int is the integer at this place; see the function Int.
func (n Node) Int() (int64, bool) { return Int(n.value) }

// Float is the finite number at this place.
func (n Node) Float() (float64, bool) { return Float(n.value) }

// Path is the place as a JSONPath: $.results[3].point["a b"].
func (n Node) Path() string {
	var steps []*step
	for s := n.at; s != nil; s = s.up {
		steps = append(steps, s)
	}
	var b strings.Builder
	b.WriteByte('$')
	for _, step := range slices.Backward(steps) {
		switch s := step; {
		case !s.isKey:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case plainKey(s.key):
			b.WriteString("." + s.key)
		default:
			b.WriteString("[" + strconv.Quote(clip(s.key, maxShownKey)) + "]")
		}
	}
	return b.String()
}

const maxShownKey = 80

func plainKey(key string) bool {
	if key == "" || len(key) > maxShownKey {
		return false
	}
	for _, r := range key {
		if r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return key[0] < '0' || key[0] > '9'
}

const maxShown = 200

// Show renders the value for a person: short, on one line, foreign text quoted.
func (n Node) Show() string {
	if !n.present {
		return "absent"
	}
	return Show(n.value)
}

// Show renders a value for a person: short, on one line, foreign text quoted.
func Show(v any) string {
	w := &limitedWriter{left: maxShown}
	err := write(w, v, compact)
	s := w.text.String()
	if err != nil {
		s += "..."
	}
	return s
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// limitedWriter keeps the first bytes and refuses the rest, which ends the rendering of a huge value early.
type limitedWriter struct {
	text strings.Builder
	left int
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	if len(p) > w.left {
		w.text.WriteString(strings.ToValidUTF8(string(p[:w.left]), ""))
		w.left = 0
		return 0, errClipped
	}
	w.left -= len(p)
	return w.text.Write(p)
}
