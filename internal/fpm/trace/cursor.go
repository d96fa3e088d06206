package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// outcome is what one step through a file came to.
type outcome uint8

const (
	stepRead       outcome = iota // a member was read
	stepEnd                       // the file ends here, between two members
	stepIncomplete                // the file ends within a member; step again when it has grown
	stepCorrupt                   // what is here cannot be read; the next step looks for another member
	stepNoGzip                    // the file does not begin as a gzip file does
	stepTooLarge                  // the member is too large, where the next begins cannot be known
	stepHopeless                  // no member was found in many attempts
)

// maxCandidates bounds the places of one file that look like a member and are none. By chance three bytes in sixteen
// million are a header; a file that is full of them was made to waste time.
const maxCandidates = 64

// cursor walks through the members of a file that may still grow.
type cursor struct {
	file io.ReaderAt
	// offset is where the next member begins. With searching it begins there or later.
	offset    int64
	searching bool
	waiting   bool // for the rest of the member that begins at offset
	failed    int  // candidates so far
}

// step reads one member. The error is the file system's, with any outcome.
func (c *cursor) step(r *memberReader, emit func(chunk)) (what outcome, err error) {
	if c.searching {
		what, err = c.search(r, emit)
	} else {
		what, err = c.next(r, emit)
	}
	c.waiting = what == stepIncomplete && err == nil
	return what, err
}

func (c *cursor) next(r *memberReader, emit func(chunk)) (outcome, error) {
	end, err := r.read(c.file, c.offset, emit)
	switch {
	case err == nil:
		c.offset = end
		return stepRead, nil
	case errors.Is(err, io.EOF):
		return stepEnd, nil
	case errors.Is(err, errMemberSize):
		return stepTooLarge, nil
	case !errors.Is(err, errIncomplete) && !errors.Is(err, errCorrupt):
		return stepIncomplete, err
	case c.offset == 0 && !c.gzipAt(0):
		return stepNoGzip, nil
	case errors.Is(err, errIncomplete):
		return stepIncomplete, nil
	default:
		c.skip()
		return stepCorrupt, nil
	}
}

// skip gives up the member at the cursor: the next step looks for a later one.
func (c *cursor) skip() {
	c.searching = true
	c.offset++
}

// search reads the first member that begins at the cursor or later and is whole.
func (c *cursor) search(r *memberReader, emit func(chunk)) (outcome, error) {
	waitAt := int64(-1) // the first candidate that the file ends within
	from := c.offset
	for range maxCandidates {
		at, err := nextHeader(c.file, from)
		if errors.Is(err, io.EOF) {
			if waitAt >= 0 {
				c.offset = waitAt
				return stepIncomplete, nil
			}
			c.offset = max(c.offset, at)
			return stepEnd, nil
		}
		if err != nil {
			return stepIncomplete, err
		}
		end, err := r.read(c.file, at, emit)
		switch {
		case err == nil:
			c.offset, c.searching = end, false
			return stepRead, nil
		case errors.Is(err, errIncomplete), errors.Is(err, io.EOF):
			if waitAt < 0 {
				waitAt = at
			}
		case errors.Is(err, errMemberSize):
			return stepTooLarge, nil
		case !errors.Is(err, errCorrupt):
			return stepIncomplete, err
		default:
			if c.failed++; c.failed > maxCandidates {
				return stepHopeless, nil
			}
		}
		from = at + 1
	}
	return stepHopeless, nil
}

// header is how every gzip member that holds deflated data begins, but for its flags.
var header = []byte{0x1f, 0x8b, 0x08}

func (c *cursor) gzipAt(offset int64) bool {
	var b [len("\x1f\x8b\x08")]byte
	n, _ := c.file.ReadAt(b[:], offset)
	return bytes.HasPrefix(header, b[:n])
}

// nextHeader returns the first place from offset on where a member may begin. With io.EOF it is where to go on when
// the file has grown.
func nextHeader(file io.ReaderAt, offset int64) (int64, error) {
	buf := make([]byte, readSize)
	for {
		n, err := file.ReadAt(buf, offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return offset, fmt.Errorf("read: %w", err)
		}
		b := buf[:n]
		for i := 0; ; i++ {
			j := bytes.Index(b[i:], header)
			if j < 0 {
				break
			}
			i += j
			if i+len(header) < n && b[i+len(header)]&0xe0 == 0 { // reserved flags are never set
				return offset + int64(i), nil
			}
			if i+len(header) == n {
				break // the flags are not there yet
			}
		}
		kept := min(n, len(header))
		if err != nil {
			return offset + int64(n-kept), io.EOF
		}
		offset += int64(n - kept)
	}
}
