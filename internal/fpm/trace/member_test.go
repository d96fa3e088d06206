package trace

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	klauspost "github.com/klauspost/compress/gzip"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// spell returns text as a member in the spelling of a writer.
func spell(t *testing.T, text string, level int, name string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	w.Name, w.Comment, w.Extra = name, name, []byte(name)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Members of every spelling end where the next one begins.
func TestMembersFollowEachOther(t *testing.T) {
	var want []string
	var file []byte
	var ends []int64
	add := func(text string, data []byte) {
		want = append(want, text)
		file = append(file, data...)
		ends = append(ends, int64(len(file)))
	}
	for _, level := range []int{gzip.NoCompression, gzip.BestSpeed, gzip.DefaultCompression, gzip.BestCompression, gzip.HuffmanOnly} {
		for _, text := range []string{"", "{}\n", lines(1, 3), lines(1, 500)} {
			for _, name := range []string{"", "trace.jsonl"} {
				add(text, spell(t, text, level, name))
			}
		}
	}
	for _, text := range []string{"a\n", lines(1, 300)} {
		var b bytes.Buffer
		w := klauspost.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		add(text, b.Bytes())
	}
	r := newMemberReader(0)
	offset := int64(0)
	for i := range want {
		var got []byte
		end, err := r.read(bytes.NewReader(file), offset, func(c chunk) { got = append(got, c.data...) })
		if err != nil || end != ends[i] {
			t.Fatalf("member %d ends at %d, want %d: %v", i, end, ends[i], err)
		}
		if string(got) != want[i] {
			t.Fatalf("member %d holds %d bytes, want %d", i, len(got), len(want[i]))
		}
		offset = end
	}
	if _, err := r.read(bytes.NewReader(file), offset, nil); !errors.Is(err, io.EOF) {
		t.Errorf("after the last member: %v", err)
	}
}

// A member that is not whole tells nothing and is waited for, wherever it ends.
func TestMemberTruncated(t *testing.T) {
	whole := spell(t, lines(1, 5), gzip.DefaultCompression, "name")
	r := newMemberReader(0)
	for n := range whole {
		_, err := r.read(bytes.NewReader(whole[:n]), 0, func(chunk) { t.Fatalf("rows of %d bytes of %d", n, len(whole)) })
		want := errIncomplete
		if n == 0 {
			want = io.EOF
		}
		if !errors.Is(err, want) {
			t.Errorf("%d bytes of %d: %v, want %v", n, len(whole), err, want)
		}
	}
}

// A bit that is wrong anywhere but in what the checksum does not cover costs the member.
func TestMemberCorrupt(t *testing.T) {
	whole := spell(t, lines(1, 5), gzip.DefaultCompression, "")
	r := newMemberReader(0)
	for i := range whole {
		if i >= 3 && i < 10 {
			continue // flags, time and system: nothing of the rows depends on them
		}
		broken := bytes.Clone(whole)
		broken[i] ^= 0x10
		end, err := r.read(bytes.NewReader(broken), 0, func(chunk) { t.Errorf("rows with byte %d broken", i) })
		if err == nil || end != 0 {
			t.Errorf("byte %d broken: read to %d", i, end)
		}
	}
}

// Members that are larger than what is held at a time come in chunks of whole lines, and not before they are whole.
func TestLargeMember(t *testing.T) {
	long := strings.Repeat("x", 3*chunkSize) + "\n"
	longest := strings.Repeat("y", MaxLine) + "\n"
	filler := strings.Repeat("0123456789abcdef0123456789abcdef0123456789\n", chunkSize/30)
	text := filler + long + "between\n" + longest + long + filler + "no end of line"
	data := spell(t, text, gzip.NoCompression, "")
	var got strings.Builder
	var starts []int
	overlong, count := 0, 0
	r := newMemberReader(0)
	end, err := r.read(bytes.NewReader(data), 0, func(c chunk) {
		if count > 0 && !strings.HasSuffix(got.String(), "\n") {
			t.Error("a chunk that is not the last does not end with a line")
		}
		count++
		got.Write(c.data)
		overlong += c.overlong
		starts = append(starts, c.line)
	})
	if err != nil || end != int64(len(data)) {
		t.Fatalf("ends at %d of %d: %v", end, len(data), err)
	}
	if want := filler + "between\n" + longest + filler + "no end of line"; got.String() != want || overlong != 2 {
		t.Errorf("%d bytes and %d lines too long, want %d and 2", got.Len(), overlong, len(want))
	}
	if len(starts) < 3 || starts[0] != 1 {
		t.Errorf("chunks begin at lines %v", starts)
	}
	fillers := strings.Count(filler, "\n")
	// The last chunk ends with the last line of all.
	var d rowDecoder
	last := 0
	_, _ = r.read(bytes.NewReader(data), 0, func(c chunk) {
		d.rows(c, &Row{}, nil, func(line int, _ *fpm.RejectError) { last = line })
	})
	if want := 2*fillers + 5; last != want {
		t.Errorf("the last line has number %d, want %d", last, want)
	}
	if _, err := r.read(bytes.NewReader(data[:len(data)-1]), 0, func(chunk) { t.Error("rows of a member without its checksum") }); !errors.Is(err, errIncomplete) {
		t.Errorf("without the last byte: %v", err)
	}
}

func TestMemberSizeLimit(t *testing.T) {
	for size, want := range map[int]error{1000: nil, 1001: errMemberSize, 2 * chunkSize: errMemberSize} {
		data := member(strings.Repeat("x", size))
		if _, err := newMemberReader(1000).read(bytes.NewReader(data), 0, func(chunk) {}); !errors.Is(err, want) {
			t.Errorf("%d bytes, at most 1000: %v", size, err)
		}
	}
	for size, want := range map[int]error{chunkSize + 1000: nil, chunkSize + 1001: errMemberSize} {
		data := member(strings.Repeat("x", size))
		if _, err := newMemberReader(chunkSize+1000).read(bytes.NewReader(data), 0, func(chunk) {}); !errors.Is(err, want) {
			t.Errorf("%d bytes, at most %d: %v", size, chunkSize+1000, err)
		}
	}
}

type brokenFile struct{ err error }

func (f brokenFile) ReadAt([]byte, int64) (int, error) { return 0, f.err }

func TestMemberReadError(t *testing.T) {
	disk := errors.New("disk on fire")
	_, err := newMemberReader(0).read(brokenFile{disk}, 0, nil)
	if !errors.Is(err, disk) || errors.Is(err, errCorrupt) || errors.Is(err, errIncomplete) {
		t.Errorf("%v", err)
	}
}

// walk steps through a file until it ends, giving up what is incomplete.
func walk(t testing.TB, data []byte) (texts []string, outcomes []outcome) {
	c := cursor{file: bytes.NewReader(data)}
	r := newMemberReader(maxMember)
	for range len(data) + 100 {
		what, err := c.step(r, func(c chunk) { texts = append(texts, string(c.data)) })
		if err != nil {
			t.Fatal(err)
		}
		if what != stepRead {
			outcomes = append(outcomes, what)
		}
		switch what {
		case stepEnd, stepNoGzip, stepTooLarge, stepHopeless:
			return texts, outcomes
		case stepIncomplete:
			c.skip()
		}
	}
	t.Fatal("no end")
	return nil, nil
}

func TestCursor(t *testing.T) {
	a, b, c := member("a\n"), member(lines(1, 100)), member("c\n")
	broken := bytes.Clone(b)
	broken[len(broken)-6] ^= 1
	middle := bytes.Clone(b)
	for i := range 40 {
		middle[200+i] = 0xff
	}
	cases := map[string]struct {
		data     []byte
		texts    []string
		outcomes []outcome
	}{
		"empty":                     {nil, nil, []outcome{stepEnd}},
		"whole":                     {join(a, b, c), []string{"a\n", lines(1, 100), "c\n"}, []outcome{stepEnd}},
		"wrong checksum":            {join(a, broken, c), []string{"a\n", "c\n"}, []outcome{stepCorrupt, stepEnd}},
		"wrong data":                {join(a, middle, c), []string{"a\n", "c\n"}, []outcome{stepCorrupt, stepEnd}},
		"wrong at the start":        {join(broken, c), []string{"c\n"}, []outcome{stepCorrupt, stepEnd}},
		"text between":              {join(a, []byte("some text here"), c), []string{"a\n", "c\n"}, []outcome{stepCorrupt, stepEnd}},
		"zeros after":               {join(a, make([]byte, 512)), []string{"a\n"}, []outcome{stepCorrupt, stepEnd}},
		"torn":                      {join(a, b[:len(b)-4]), []string{"a\n"}, []outcome{stepIncomplete, stepEnd}},
		"torn in the header":        {join(a, b[:2]), []string{"a\n"}, []outcome{stepIncomplete, stepEnd}},
		"no gzip":                   {[]byte(exampleRow), nil, []outcome{stepNoGzip}},
		"nothing but headers":       {bytes.Repeat([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0, 0xff}, 200), nil, []outcome{stepCorrupt, stepHopeless}},
		"header at a block's end":   {join(a, make([]byte, readSize-len(a)-2), c), []string{"a\n", "c\n"}, []outcome{stepCorrupt, stepEnd}},
		"header at a block's end 2": {join(a, make([]byte, readSize-len(a)-1), c), []string{"a\n", "c\n"}, []outcome{stepCorrupt, stepEnd}},
		"header at a block's end 3": {join(a, make([]byte, readSize-len(a)+1-3), c), []string{"a\n", "c\n"}, []outcome{stepCorrupt, stepEnd}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			texts, outcomes := walk(t, c.data)
			if got, want := strings.Join(texts, "|"), strings.Join(c.texts, "|"); got != want {
				t.Errorf("read %.100q, want %.100q", got, want)
			}
			if len(outcomes) != len(c.outcomes) {
				t.Fatalf("outcomes %v, want %v", outcomes, c.outcomes)
			}
			for i := range outcomes {
				if outcomes[i] != c.outcomes[i] {
					t.Errorf("outcomes %v, want %v", outcomes, c.outcomes)
				}
			}
		})
	}
}

// A member that grows byte by byte is read once it is whole, even when what was before it is lost.
func TestCursorGrows(t *testing.T) {
	lost, whole := member("lost\n"), member("whole\n")
	lost[12] ^= 0xff
	data := join(lost, whole)
	c := cursor{}
	r := newMemberReader(0)
	for n := len(lost); n <= len(data); n++ {
		c.file = bytes.NewReader(data[:n])
		read := 0
		for range 4 {
			what, err := c.step(r, func(chunk) { read++ })
			if err != nil || what == stepHopeless {
				t.Fatalf("%d bytes: outcome %d, %v", n, what, err)
			}
			if what == stepEnd || what == stepIncomplete {
				break
			}
		}
		if want := 0; n < len(data) && read != want || n == len(data) && read != 1 {
			t.Errorf("%d bytes of %d: %d members", n, len(data), read)
		}
	}
}

func FuzzCursor(f *testing.F) {
	f.Add(join(member("a\n"), member(lines(1, 3))))
	f.Add(join(member("a\n"), []byte("junk"), member(lines(1, 3))[:50]))
	f.Add([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		texts, _ := walk(t, data)
		// What was read is what a reader of whole files reads, where there is nothing to complain of. The standard
		// library's overlooks reserved flags.
		z, err := klauspost.NewReader(bytes.NewReader(data))
		if err != nil {
			return
		}
		var whole bytes.Buffer
		if _, err := io.Copy(&whole, io.LimitReader(z, maxMember)); err == nil && whole.String() != strings.Join(texts, "") {
			t.Errorf("read %d bytes, want %d", len(strings.Join(texts, "")), whole.Len())
		}
	})
}
