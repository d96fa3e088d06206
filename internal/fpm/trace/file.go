package trace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

const (
	// goneAfter is how many looks in a row must miss a file: one may pass by while it is renamed.
	goneAfter = 2
	// headSize is how many bytes of a file are kept to know it again.
	headSize = 256
	// retryFactor keeps attempts at a member that grows slowly to a tenth of the time.
	retryFactor = 10
)

// file is a followed file. Its cursor begins at the beginning.
type file struct {
	path   string
	place  place
	id     fileID
	file   *os.File // nil unless open
	head   []byte   // how the file began
	cursor cursor

	size, tried int64 // as last seen; as at the last attempt to read on
	grew        time.Time
	retryAt     time.Time // not before, after an attempt that took long
	missed      int       // looks in a row
	refused     bool      // not to be read any more
	failing     bool      // could not be opened or read the last time
	corrupt     bool      // which was logged
	dropped     bool
	warned      map[fpm.Reason]bool
}

// fromEnd makes the file be read from its present end. A member that is being written there is passed over.
func (f *file) fromEnd() {
	f.cursor = cursor{offset: f.size, searching: f.size > 0}
	f.tried = f.size
	if opened, err := os.Open(f.path); err == nil {
		f.head = readHead(opened, headSize)
		_ = opened.Close()
	}
}

// restart makes the file be read from its beginning.
func (f *file) restart() {
	f.close()
	f.head, f.cursor, f.tried, f.refused = nil, cursor{}, -1, false
}

func (f *file) resize(size int64, now time.Time) {
	if size != f.size {
		f.size, f.grew = size, now
	}
}

func (f *file) close() {
	if f.file != nil {
		_ = f.file.Close()
		f.file, f.cursor.file = nil, nil
	}
}

// isStill reports whether what was found under the file's number is the file. An open file keeps its number.
func (f *file) isStill(there found) bool {
	if f.file != nil || there.path == f.path && there.size == f.size {
		return true
	}
	if len(f.head) == 0 {
		return there.path == f.path
	}
	opened, err := os.Open(there.path)
	if err != nil {
		return there.path == f.path
	}
	defer opened.Close()
	return bytes.Equal(readHead(opened, len(f.head)), f.head)
}

func readHead(r io.ReaderAt, n int) []byte {
	head := make([]byte, n)
	n, _ = r.ReadAt(head, 0)
	return head[:n]
}

// settled reports whether nothing more is to be had of the file as it is.
func (f *file) settled() bool {
	return f.refused || f.failing || f.tried == f.size && !f.cursor.waiting
}

// open opens the file and makes sure that it is the one that is meant.
func (f *file) open() error {
	if f.file != nil {
		return nil
	}
	opened, err := os.Open(f.path)
	if err != nil {
		return err
	}
	info, err := opened.Stat()
	if err == nil && identify(info) != f.id {
		err = fs.ErrNotExist // replaced since; the next look tells
	}
	if err != nil {
		return errors.Join(err, opened.Close())
	}
	f.file, f.cursor.file = opened, opened
	return nil
}

// readFile reads members of a file until it ends or the budget of bytes is used up.
func (f *Follower) readFile(ctx context.Context, one *file, budget *int64) {
	if one.refused || one.tried == one.size || time.Now().Before(one.retryAt) {
		return
	}
	if err := one.open(); err != nil {
		if one.missed == 0 || !errors.Is(err, fs.ErrNotExist) {
			f.unreadable(one, err)
		}
		return
	}
	if len(one.head) < headSize {
		one.head = readHead(one.file, headSize)
	}
	if one.cursor.offset > 0 && !one.cursor.gzipAt(0) {
		f.refuse(one, FileNoGzip, "Trace file is no gzip file, it is left alone")
		return
	}
	f.steps(ctx, one, budget)
}

// steps reads on in an open file.
func (f *Follower) steps(ctx context.Context, one *file, budget *int64) {
	size := one.size
	for *budget > 0 && ctx.Err() == nil {
		began := time.Now()
		what, err := one.cursor.step(f.reader, func(c chunk) {
			*budget -= int64(len(c.data))
			f.totals.bytes.Add(uint64(len(c.data)))
			f.rows(one, c)
		})
		if err != nil {
			f.unreadable(one, err)
			return
		}
		one.failing = false
		switch what {
		case stepRead:
			f.totals.members.Add(1)
			f.state.dirty = true
		case stepEnd:
			one.tried = size
			return
		case stepIncomplete:
			one.tried = size
			took := time.Since(began)
			one.retryAt = began.Add(took * retryFactor)
			return
		case stepCorrupt:
			f.totals.fail(FileCorrupt)
			if !one.corrupt {
				one.corrupt = true
				f.log.Warn("Trace file holds a corrupt gzip member, reading goes on after it; others of this file are only counted", "file", one.path, "offset", one.cursor.offset-1)
			}
		case stepNoGzip:
			f.refuse(one, FileNoGzip, "Trace file is no gzip file, it is left alone")
			return
		case stepTooLarge:
			f.refuse(one, FileMemberSize, "Trace file holds a gzip member that is too large, the rest of it is left alone")
			return
		case stepHopeless:
			f.refuse(one, FileCorrupt, "Trace file is corrupt in too many places, the rest of it is left alone")
			return
		}
	}
}

// giveUp no longer waits for the end of a file's last member. What may follow it is read.
func (f *Follower) giveUp(ctx context.Context, one *file, budget *int64) {
	f.totals.fail(FileTruncated)
	f.log.Warn("Trace file ends within a gzip member that is not going to be finished, its rows are lost", "file", one.path, "offset", one.cursor.offset)
	one.cursor.skip()
	one.cursor.waiting, one.tried, one.retryAt = false, -1, time.Time{}
	f.readFile(ctx, one, budget)
	one.cursor.waiting = false
}

func (f *Follower) refuse(one *file, reason FileReason, msg string) {
	f.totals.fail(reason)
	f.log.Warn(msg, "file", one.path, "offset", one.cursor.offset) //nolint:sloglint // each caller's text is constant
	one.refused = true
	one.close()
}

// unreadable counts and logs the first of a row of failures.
func (f *Follower) unreadable(one *file, err error) {
	if one.failing {
		return
	}
	one.failing = true
	f.totals.fail(FileUnreadable)
	f.log.Warn("Trace file cannot be read, it is tried again", "file", one.path, "err", err)
}

// rows hands on the rows of a chunk.
func (f *Follower) rows(one *file, c chunk) {
	refused := func(line int, why *fpm.RejectError) {
		f.totals.reject(why.Reason)
		if !one.warned[why.Reason] {
			if one.warned == nil {
				one.warned = make(map[fpm.Reason]bool)
			}
			one.warned[why.Reason] = true
			f.log.Warn("Row of a trace file refused, others of this file and reason are only counted", "file", one.path, "member_offset", c.offset, "line", line, "err", why)
		}
	}
	f.decoder.rows(c, &f.row, func(line int, r *Row) {
		r.Series = one.place.series
		if why := f.options.Row(r); why != nil {
			refused(line, why)
			return
		}
		f.totals.accept(r)
	}, refused)
}
