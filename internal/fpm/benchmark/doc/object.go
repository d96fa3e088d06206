// Package doc holds JSON documents whose shape is not trusted: it keeps every member in order, every number as it was
// spelled, and gives each value a path, so that a check can say where it looked and a merge can pass on what it does
// not know.
//
// A value is one of nil, bool, string, json.Number, []any or *Object.
package doc

import (
	"encoding/json"
	"iter"
	"math"
	"strconv"
	"strings"
)

// indexFrom is the member count above which an Object is looked up through a map instead of by scanning.
const indexFrom = 16

// Object is a JSON object that remembers the order of its members.
type Object struct {
	members []member
	index   map[string]int
}

type member struct {
	key   string
	value any
}

// NewObject returns an object of the given key, value, key, value... in that order. It panics on an odd count or on a key
// that is no string, which only a mistake in the calling code can cause.
func NewObject(pairs ...any) *Object {
	o := &Object{}
	for i := 0; i < len(pairs); i += 2 {
		o.Set(pairs[i].(string), pairs[i+1])
	}
	return o
}

// Len is the number of members.
func (o *Object) Len() int { return len(o.members) }

// Get returns the value of key and whether the object has it.
func (o *Object) Get(key string) (any, bool) {
	if i := o.find(key); i >= 0 {
		return o.members[i].value, true
	}
	return nil, false
}

// Set replaces the value of key, or appends the member.
func (o *Object) Set(key string, value any) {
	if i := o.find(key); i >= 0 {
		o.members[i].value = value
		return
	}
	o.members = append(o.members, member{key, value})
	switch {
	case o.index != nil:
		o.index[key] = len(o.members) - 1
	case len(o.members) > indexFrom:
		o.reindex()
	}
}

// Delete removes key if it is there.
func (o *Object) Delete(key string) {
	i := o.find(key)
	if i < 0 {
		return
	}
	o.members = append(o.members[:i], o.members[i+1:]...)
	if o.index != nil {
		o.reindex()
	}
}

// All yields the members in order.
func (o *Object) All() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, m := range o.members {
			if !yield(m.key, m.value) {
				return
			}
		}
	}
}

func (o *Object) find(key string) int {
	if o.index != nil {
		if i, ok := o.index[key]; ok {
			return i
		}
		return -1
	}
	for i := range o.members {
		if o.members[i].key == key {
			return i
		}
	}
	return -1
}

func (o *Object) reindex() {
	o.index = make(map[string]int, len(o.members))
	for i, m := range o.members {
		o.index[m.key] = i
	}
}

// Clone copies a value deeply.
func Clone(v any) any {
	switch v := v.(type) {
	case *Object:
		c := &Object{members: make([]member, 0, len(v.members))}
		for _, m := range v.members {
			c.Set(m.key, Clone(m.value))
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i := range v {
			c[i] = Clone(v[i])
		}
		return c
	default:
		return v
	}
}

// Equal reports whether two values mean the same: the order of members does not count, and neither does the spelling of a
// number (1, 1.0 and 1e0 are equal, as they are for the Python that writes and compares these artifacts).
func Equal(a, b any) bool {
	switch a := a.(type) {
	case *Object:
		b, ok := b.(*Object)
		if ok && a == b {
			return true
		}
		if !ok || a.Len() != b.Len() {
			return false
		}
		for _, m := range a.members {
			other, ok := b.Get(m.key)
			if !ok || !Equal(m.value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		if len(a) > 0 && &a[0] == &b[0] {
			return true
		}
		for i := range a {
			if !Equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		return ok && (a == b || equalNumbers(a, b))
	default:
		return a == b
	}
}

func equalNumbers(a, b json.Number) bool {
	if isInteger(a) && isInteger(b) {
		// Two integers with different digits differ; comparing them as floats would equate neighbours beyond 2^53.
		return strings.TrimPrefix(string(a), "-") == "0" && strings.TrimPrefix(string(b), "-") == "0"
	}
	x, errX := strconv.ParseFloat(string(a), 64)
	y, errY := strconv.ParseFloat(string(b), 64)
	return errX == nil && errY == nil && x == y
}

func isInteger(n json.Number) bool { return !strings.ContainsAny(string(n), ".eE") }

// Int is the value of an integer literal that fits 64 bits. 1.0 and true are no integers here, as they are none for the
// producer's own checks.
func Int(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok || !isInteger(n) {
		return 0, false
	}
	i, err := strconv.ParseInt(string(n), 10, 64)
	return i, err == nil
}

// Float is the value of a finite number.
func Float(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(n), 64)
	return f, err == nil && !math.IsInf(f, 0)
}

// Number turns an int, int64 or float64 into the number literal of a document.
func Number[T int | int64 | float64](v T) json.Number {
	switch v := any(v).(type) {
	case float64:
		return json.Number(strconv.FormatFloat(v, 'g', -1, 64))
	case int64:
		return json.Number(strconv.FormatInt(v, 10))
	default:
		return json.Number(strconv.Itoa(v.(int)))
	}
}
