package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/gzip"
)

const (
	// chunkSize is how many bytes of a member are held at a time. Dynamo's writer ends a member at 1 MiB, so that its
	// members are inflated once; larger ones are inflated twice, to be checked and to be read.
	chunkSize = 4 << 20
	// firstChunk is what is held at first: a second of 100 records.
	firstChunk = 128 << 10
	// readSize is how many bytes are read from a file at a time.
	readSize = 64 << 10
)

// What reading a member may come to, beside errors of the file system.
var (
	// errIncomplete: the file ends within the member. More may come.
	errIncomplete = errors.New("the file ends within a gzip member")
	// errCorrupt: what is there is no gzip member, or its checksum does not hold.
	errCorrupt = errors.New("no whole gzip member")
	// errMemberSize: the member holds more than a member may.
	errMemberSize = errors.New("the gzip member is too large")
)

// chunk is a number of whole lines of a member whose checksum holds.
type chunk struct {
	// offset is where the member begins in the file, line the number of the first line within the member, from 1.
	offset int64
	line   int
	// data ends with an end of line, but for the end of a member whose last line has none. It is valid during the call.
	data []byte
	// overlong counts lines before data that were longer than MaxLine.
	overlong int
}

// memberReader reads single gzip members of files. It must not be used by two goroutines at once.
type memberReader struct {
	limit  int64 // bytes that a member may hold
	in     bufio.Reader
	zip    gzip.Reader
	buffer []byte
}

// newMemberReader returns a reader of members of at most limit bytes; 0 is no limit.
func newMemberReader(limit int64) *memberReader {
	if limit <= 0 {
		limit = math.MaxInt64 - 1
	}
	r := &memberReader{limit: limit, buffer: make([]byte, firstChunk)}
	r.in = *bufio.NewReaderSize(nil, readSize)
	return r
}

// position counts what was read of a file.
type position struct {
	file   io.ReaderAt
	offset int64
	err    error // of the file system
}

func (p *position) Read(b []byte) (int, error) {
	n, err := p.file.ReadAt(b, p.offset)
	p.offset += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		p.err = err
	}
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// read hands the lines of the member at offset to emit, in chunks, and returns where the next member begins. Nothing
// is emitted before the member's checksum was found to hold, so that a member that fails may be read again later. The
// error is io.EOF at the end of the file, one of the above, or the file system's.
func (r *memberReader) read(file io.ReaderAt, offset int64, emit func(chunk)) (end int64, err error) {
	at := &position{file: file, offset: offset}
	if err := r.open(at); err != nil {
		return offset, err
	}
	n := 0
	for n < chunkSize && err == nil {
		if n == len(r.buffer) {
			r.buffer = append(r.buffer, make([]byte, min(n, chunkSize-n))...)
		}
		var m int
		m, err = r.zip.Read(r.buffer[n:])
		n += m
	}
	switch {
	case errors.Is(err, io.EOF) && int64(n) > r.limit:
		return offset, errMemberSize
	case errors.Is(err, io.EOF):
		emit(chunk{offset: offset, line: 1, data: r.buffer[:n]})
		return at.offset - int64(r.in.Buffered()), nil
	case err != nil:
		return offset, at.classify(err)
	}
	if r.limit < int64(n) {
		return offset, errMemberSize
	}
	switch _, err := io.CopyN(io.Discard, &r.zip, r.limit-int64(n)+1); { // one more than may be there
	case err == nil:
		return offset, errMemberSize
	case !errors.Is(err, io.EOF):
		return offset, at.classify(err)
	}
	end = at.offset - int64(r.in.Buffered())
	return end, r.again(file, offset, emit)
}

// open begins a member.
func (r *memberReader) open(at *position) error {
	r.in.Reset(at)
	if err := r.zip.Reset(&r.in); err != nil {
		if errors.Is(err, io.EOF) && at.err == nil {
			return io.EOF
		}
		return at.classify(err)
	}
	r.zip.Multistream(false)
	return nil
}

// again emits a member that is known to be whole and larger than the buffer.
func (r *memberReader) again(file io.ReaderAt, offset int64, emit func(chunk)) error {
	at := &position{file: file, offset: offset}
	if err := r.open(at); err != nil {
		return err
	}
	out := chunk{offset: offset, line: 1}
	held, skipping := 0, false // bytes of a line begun; whether it is too long
	for {
		n, err := r.zip.Read(r.buffer[held:])
		fresh := r.buffer[held : held+n]
		held += n
		if skipping {
			_, rest, found := bytes.Cut(fresh, []byte{'\n'})
			held = copy(r.buffer, rest)
			if found {
				skipping = false
				out.line++
			}
		}
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return at.classify(err)
		}
		if !ended && held < len(r.buffer) {
			continue
		}
		whole := bytes.LastIndexByte(r.buffer[:held], '\n') + 1
		if ended {
			whole = held
		}
		if whole > 0 || ended {
			out.data = r.buffer[:whole]
			emit(out)
			out.line += bytes.Count(out.data, []byte{'\n'})
			out.overlong = 0
			held = copy(r.buffer, r.buffer[whole:held])
		}
		if ended {
			return nil
		}
		if held > MaxLine {
			out.overlong++
			held, skipping = 0, true
		}
	}
}

// classify tells an incomplete member from a corrupt one and both from a fault of the file system.
func (p *position) classify(err error) error {
	switch {
	case p.err != nil:
		return fmt.Errorf("read: %w", p.err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errIncomplete
	default:
		return fmt.Errorf("%w: %w", errCorrupt, err)
	}
}
