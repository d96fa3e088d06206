package config

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Error is one fault of a configuration.
type Error struct {
	// File the fault is in, or the flag ("--stages").
	Source string
	// Line of the file, from 1; 0 when unknown or when the source is a flag.
	Line int
	// Key path such as "pipelines[0].stages[1].name"; empty for the file as a whole and for flags.
	Path string
	// What is wrong, and the remedy. Never holds the value of a secret.
	Msg string
}

// Error returns "file:line: path: message", without the parts that are unknown.
func (e *Error) Error() string {
	s := e.Source
	if e.Line > 0 {
		s += ":" + strconv.Itoa(e.Line)
	}
	if e.Path != "" {
		s += ": " + e.Path
	}
	return s + ": " + e.Msg
}

// report gathers faults.
type report struct {
	// locate returns the source and the line of a key path.
	locate func(path string) (source string, line int)
	// hidePath leaves the path out of messages: a person who wrote flags wrote no keys.
	hidePath bool
	errs     []*Error
}

// add reports a fault at path.
func (r *report) add(path, format string, args ...any) {
	_, line := r.locate(path)
	r.addAt(line, path, format, args...)
}

// addAt reports a fault at path, on a line known better than by the path.
func (r *report) addAt(line int, path, format string, args ...any) {
	source, _ := r.locate(path)
	if r.hidePath {
		path = ""
	}
	r.errs = append(r.errs, &Error{Source: source, Line: line, Path: path, Msg: fmt.Sprintf(format, args...)})
}

// where names the place of path for use within the message about another.
func (r *report) where(path string) string {
	source, line := r.locate(path)
	if line == 0 {
		return "another " + source
	}
	return "line " + strconv.Itoa(line)
}

// syntax reports an error of the YAML library.
func (r *report) syntax(err error) {
	msgs := []string{strings.TrimPrefix(err.Error(), "yaml: ")}
	if typeErr, ok := errors.AsType[*yaml.TypeError](err); ok {
		msgs = typeErr.Errors
	}
	position := regexp.MustCompile(`(?s)^(?:line (\d+): )?(.*)$`)
	for _, msg := range msgs {
		m := position.FindStringSubmatch(msg)
		line, _ := strconv.Atoi(m[1]) // 0, no line, where the library does not know
		r.addAt(line, "", "not valid YAML: %s", withoutValues(m[2]))
	}
}

// withoutValues takes the values out of a message of the YAML library, which quotes them between backquotes: they may be
// secret.
func withoutValues(msg string) string {
	return regexp.MustCompile("(?s)`.*`").ReplaceAllString(strings.TrimPrefix(msg, "yaml: "), "(a value)")
}

// err joins the faults found so far in the order of lines; nil if there are none.
func (r *report) err() error {
	slices.SortStableFunc(r.errs, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
	all := make([]error, 0, min(len(r.errs), maxFaults+1))
	for i, e := range r.errs {
		if i == maxFaults {
			all = append(all, fmt.Errorf("%d more faults: mend these first", len(r.errs)-maxFaults))
			break
		}
		all = append(all, e)
	}
	return errors.Join(all...)
}

// sub returns the path of a key below path.
func sub(path, key string) string {
	if !plainKey(key) {
		return path + "[" + quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// index returns the path of the i-th item below path.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// plainKey reports whether a key can stand in a path without quotes.
func plainKey(key string) bool {
	for _, c := range key {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return key != ""
}

// quote quotes foreign text for a message and shortens it: a value may be a whole certificate.
func quote(s string) string {
	const most = 80
	if runes := []rune(s); len(runes) > most {
		return strconv.Quote(string(runes[:most])) + "..."
	}
	return strconv.Quote(s)
}
