package trace

import (
	"bytes"
	"sync/atomic"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// FileReason is why a part of a file, or all of it, could not be read, from a closed set.
type FileReason string

// The reasons why files, or parts of them, could not be read.
const (
	// FileNoGzip: the file does not begin as a gzip file does. It is left alone until it is replaced.
	FileNoGzip FileReason = "not_gzip"
	// FileCorrupt: a member's data or checksum is wrong. Reading goes on with the next one that is whole.
	FileCorrupt FileReason = "corrupt_member"
	// FileTruncated: the file ended within a member and will not grow any more.
	FileTruncated FileReason = "truncated_member"
	// FileMemberSize: a member holds more than the limit. The rest of the file is left alone.
	FileMemberSize FileReason = "member_size"
	// FileUnreadable: the file system refused to open or to read the file. It is tried again.
	FileUnreadable FileReason = "unreadable"
	// FileVanished: the file was deleted before all of it was read.
	FileVanished FileReason = "vanished"
	// FileLimit: the file is one too many to be followed.
	FileLimit FileReason = "file_limit"
)

// FileReasons returns every reason, in stable order.
func FileReasons() []FileReason {
	return []FileReason{
		FileCorrupt, FileLimit, FileMemberSize, FileNoGzip, FileTruncated, FileUnreadable, FileVanished,
	}
}

// Totals counts what was read. It outlives the readers that count in it, and is safe for concurrent use.
type Totals struct {
	full, sampled  atomic.Uint64
	members, bytes atomic.Uint64
	rejected       map[fpm.Reason]*atomic.Uint64
	failures       map[FileReason]*atomic.Uint64
}

// NewTotals returns counts of zero.
func NewTotals() *Totals {
	t := &Totals{rejected: make(map[fpm.Reason]*atomic.Uint64), failures: make(map[FileReason]*atomic.Uint64)}
	for _, reason := range RowReasons() {
		t.rejected[reason] = new(atomic.Uint64)
	}
	for _, reason := range FileReasons() {
		t.failures[reason] = new(atomic.Uint64)
	}
	return t
}

// Rows returns how many rows of a capture mode were accepted.
func (t *Totals) Rows(mode fpm.Capture) uint64 {
	if mode == fpm.CaptureSampled {
		return t.sampled.Load()
	}
	return t.full.Load()
}

// Members returns how many gzip members were read.
func (t *Totals) Members() uint64 { return t.members.Load() }

// Bytes returns how many uncompressed bytes were read.
func (t *Totals) Bytes() uint64 { return t.bytes.Load() }

// Rejected returns how many rows were refused for a reason of RowReasons.
func (t *Totals) Rejected(reason fpm.Reason) uint64 { return t.rejected[reason].Load() }

// Failures returns how often files or parts of them could not be read for a reason of FileReasons.
func (t *Totals) Failures(reason FileReason) uint64 { return t.failures[reason].Load() }

// Refused returns the sum of Rejected over all reasons.
func (t *Totals) Refused() (n uint64) {
	for _, count := range t.rejected {
		n += count.Load()
	}
	return n
}

// Failed returns the sum of Failures over all reasons.
func (t *Totals) Failed() (n uint64) {
	for _, count := range t.failures {
		n += count.Load()
	}
	return n
}

func (t *Totals) accept(r *Row) {
	if r.Capture == fpm.CaptureSampled {
		t.sampled.Add(1)
	} else {
		t.full.Add(1)
	}
}

func (t *Totals) reject(reason fpm.Reason) { t.rejected[reason].Add(1) }

func (t *Totals) fail(reason FileReason) { t.failures[reason].Add(1) }

// rows decodes the lines of a chunk one by one. row gets those that are well, bad those that are refused and their
// number within the member. The Row is the decoder's and valid during the call.
func (d *rowDecoder) rows(c chunk, into *Row, row func(line int, r *Row), bad func(line int, why *fpm.RejectError)) {
	number := c.line
	for i := range c.overlong {
		bad(number-c.overlong+i, reject(fpm.ReasonLimit, "", "row of more than %d bytes", MaxLine))
	}
	for rest := c.data; len(rest) > 0; number++ {
		line := rest
		if end := bytes.IndexByte(rest, '\n'); end >= 0 {
			line, rest = rest[:end], rest[end+1:]
		} else {
			rest = nil
		}
		line = bytes.TrimSuffix(line, []byte{'\r'})
		if len(line) == 0 {
			continue
		}
		if why := d.decode(line, into); why != nil {
			bad(number, why)
			continue
		}
		row(number, into)
	}
}
