package doc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

func parse(t testing.TB, text string) any {
	t.Helper()
	v, dups, err := Parse(strings.NewReader(text), Limits{})
	if err != nil || len(dups) > 0 {
		t.Fatalf("Parse(%q) = %v, %v", text, dups, err)
	}
	return v
}

func TestWriteKeepsOrderAndSpelling(t *testing.T) {
	const text = `{
  "z": 1.50,
  "a": [
    1e3,
    -0.0,
    12345678901234567890123
  ],
  "empty": {},
  "none": [],
  "text": "a\"\\\n\u0001é<>&😀",
  "null": null,
  "yes": true
}
`
	var b bytes.Buffer
	if err := Write(&b, parse(t, text)); err != nil {
		t.Fatal(err)
	}
	if b.String() != text {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), text)
	}
}

func TestCanonicalIsWhatPythonHashes(t *testing.T) {
	// The wanted text is what json.dumps(value, sort_keys=True, separators=(",", ":")) writes.
	got := string(Canonical(parse(t, `{"b": "é😀\u007f", "a": {"y": [1, null], "x": false}}`)))
	want := `{"a":{"x":false,"y":[1,null]},"b":"\u00e9\ud83d\ude00\u007f"}`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestParseErrors(t *testing.T) {
	for _, tc := range []struct {
		name, text, want string
		is               error
		limits           Limits
	}{
		{name: "empty", text: "", want: "line 1, column 1 ($): the document ends in the middle", is: io.ErrUnexpectedEOF},
		{name: "cut off", text: "{\n \"a\": [1,", want: "($.a[1]): the document ends in the middle", is: io.ErrUnexpectedEOF},
		{name: "cut off string", text: `{"a": "b`, want: "($.a): the document ends in the middle", is: io.ErrUnexpectedEOF},
		{name: "NaN", text: "{\n \"w\": NaN}", want: "line 2, column 7 ($.w): number is not finite: NaN", is: ErrNotFinite},
		{name: "Infinity", text: `[1, Infinity]`, want: "($[1]): number is not finite: Infinity", is: ErrNotFinite},
		{name: "-Infinity", text: `{"a":{"b":-Infinity}}`, want: "($.a.b): number is not finite: Infinity", is: ErrNotFinite},
		{name: "two documents", text: `{} {}`, want: "more after the end"},
		{name: "missing comma", text: `[1 2]`, want: "line 1, column 4"},
		{name: "deep", text: strings.Repeat("[", 100_000), want: "more than 64 levels", is: ErrTooDeep},
		{name: "deep objects", text: strings.Repeat(`{"a":`, 100_000), want: "more than 64 levels", is: ErrTooDeep},
		{name: "many", text: "[" + strings.Repeat("0,", 100) + "0]", want: "more than 50", is: ErrTooManyValues, limits: Limits{Values: 50}},
		{name: "large", text: "[" + strings.Repeat(" ", 100) + "0]", want: "more than 50 bytes", is: ErrTooLarge, limits: Limits{Bytes: 50}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := Parse(strings.NewReader(tc.text), tc.limits)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q in it", err, tc.want)
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("error %v is no %v", err, tc.is)
			}
		})
	}
}

func TestParseNamesDuplicates(t *testing.T) {
	v, dups, err := Parse(strings.NewReader(`{"a": 1, "b": [{"c d": 1, "c d": 2}], "a": 3}`), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, d := range dups {
		paths = append(paths, d.Path())
	}
	if got, want := strings.Join(paths, " "), `$.b[0]["c d"] $.a`; got != want {
		t.Errorf("paths %s, want %s", got, want)
	}
	if i, _ := Root(v).Key("a").Int(); i != 3 {
		t.Errorf("a = %d, want the last one, 3", i)
	}
	many := "{" + strings.Repeat(`"a":1,`, 1000) + `"a":1}`
	if _, dups, err = Parse(strings.NewReader(many), Limits{}); err != nil || len(dups) != maxDuplicates {
		t.Errorf("%d duplicates, %v; want %d named", len(dups), err, maxDuplicates)
	}
}

func TestEqual(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[2]}`, `{"b":[2.0],"a":1e0}`, true},
		{`9007199254740993`, `9007199254740992`, false},
		{`0`, `-0`, true},
		{`{"a":null}`, `{}`, false},
		{`{"a":null}`, `{"b":null}`, false},
		{`1`, `true`, false},
		{`"1"`, `1`, false},
		{`[1,2]`, `[1]`, false},
		{`0.1`, `0.10000000000000001`, true},
	} {
		if got := Equal(parse(t, tc.a), parse(t, tc.b)); got != tc.want {
			t.Errorf("Equal(%s, %s) = %v", tc.a, tc.b, got)
		}
	}
}

func TestObjectOfManyMembers(t *testing.T) {
	o := NewObject()
	for i := range 100 {
		o.Set(string(Number(i)), i)
	}
	o.Delete("50")
	o.Delete("no such key")
	o.Set("7", "seven")
	c := Clone(o).(*Object)
	if c.Len() != 99 || o.Len() != 99 {
		t.Fatalf("%d and %d members, want 99", c.Len(), o.Len())
	}
	if v, _ := c.Get("7"); v != "seven" {
		t.Errorf("7 = %v", v)
	}
	if v, ok := c.Get("99"); !ok || v != 99 {
		t.Errorf("99 = %v, %v", v, ok)
	}
	if _, ok := c.Get("50"); ok {
		t.Error("50 is still there")
	}
}

func TestAbsentNodeAnswersNothing(t *testing.T) {
	n := Root(parse(t, `{"a": [true, 1.0, 1]}`)).Key("x").At(3).Key("y z")
	if n.Present() || n.IsNull() || !n.IsNone() || n.Show() != "absent" || n.Path() != `$.x[3]["y z"]` {
		t.Errorf("%v %q", n, n.Path())
	}
	a := Root(parse(t, `{"a": [true, 1.0, 1]}`)).Key("a")
	for i, want := range []bool{false, false, true} {
		if _, ok := a.At(i).Int(); ok != want {
			t.Errorf("%s is an integer: %v, want %v", a.At(i).Path(), ok, want)
		}
	}
	if _, ok := Root(json.Number("1e999")).Float(); ok {
		t.Error("1e999 counts as finite")
	}
}

func TestShowIsShort(t *testing.T) {
	s := Show([]any{strings.Repeat("x", 1000)})
	if len(s) > maxShown+3 || !strings.HasSuffix(s, "...") {
		t.Errorf("%d bytes: %s", len(s), s)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"x",null,true]}`, `[NaN]`, `{"a":1,"a":2}`, `[[[[`, "{\"\\ud800\":\"\xff\"}", `-0`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, _, err := Parse(bytes.NewReader(data), Limits{Values: 10_000})
		if err != nil {
			if json.Valid(data) && !errors.Is(err, ErrTooDeep) && !errors.Is(err, ErrTooManyValues) {
				t.Fatalf("refused a valid document: %v", err)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatal("took an invalid document")
		}
		var b bytes.Buffer
		if err := Write(&b, v); err != nil {
			t.Fatal(err)
		}
		again, _, err := Parse(&b, Limits{})
		if err != nil || !Equal(v, again) && !bytes.Contains(data, []byte("e")) && !bytes.Contains(data, []byte("E")) {
			t.Fatalf("does not survive writing: %v", err)
		}
		if !json.Valid(Canonical(v)) {
			t.Fatalf("canonical form is no JSON: %s", Canonical(v))
		}
	})
}
