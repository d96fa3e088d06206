package trace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

const (
	// flushBytes is how many uncompressed bytes make a member full.
	flushBytes = 1 << 20
	// filePermissions let others read traces, as Dynamo's do.
	filePermissions = 0o644
)

// segments is the series of files of one producer.
type segments struct {
	name     SegmentName // of the present segment; Index is of the next one until it exists
	exists   bool
	written  int64 // uncompressed bytes in the present segment
	size     int64 // its size as a file
	buffer   []byte
	rows     int // in buffer
	lastUsed time.Time
}

// openSegments returns the series of a producer. Its first segment comes after the highest that exists.
func openSegments(prefix, producer string) (*segments, error) {
	s := &segments{name: SegmentName{Prefix: prefix, Producer: Sanitize(producer)}}
	existing, err := s.list()
	if err != nil {
		return nil, err
	}
	if len(existing) > 0 {
		s.name.Index = existing[len(existing)-1].Index + 1
	}
	return s, nil
}

// list returns the names of the series that are taken, by index: directories and links, too.
func (s *segments) list() ([]SegmentName, error) {
	dir := filepath.Dir(s.name.Prefix)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	begin := filepath.Base(s.name.Prefix) + "." + s.name.Producer + "."
	var names []SegmentName
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), begin) {
			continue
		}
		name, ok := ParseSegmentName(filepath.Join(dir, entry.Name()))
		if ok && filepath.Base(name.Series()) == filepath.Base(s.name.Series()) {
			names = append(names, SegmentName{Prefix: s.name.Prefix, Producer: s.name.Producer, Index: name.Index})
		}
	}
	slices.SortFunc(names, func(a, b SegmentName) int { return cmp.Compare(a.Index, b.Index) })
	return names, nil
}

// rollsBefore reports whether a row of n bytes belongs into the next segment.
func (s *segments) rollsBefore(n int, limit int64) bool {
	held := s.written + int64(len(s.buffer))
	return held > 0 && held+int64(n) > limit
}

// roll begins the next segment. What is buffered must have been flushed.
func (s *segments) roll() {
	s.name.Index++
	s.exists, s.written, s.size = false, 0, 0
}

// flush appends what is buffered to the segment, as one gzip member in one write. It reports whether the segment is a
// new one, and by how many bytes it grew. After an error the file is as it was before, if the file system can do that,
// and the buffer, too.
func (s *segments) flush(zip *compressor) (created bool, grown int, err error) {
	if len(s.buffer) == 0 {
		return false, 0, nil
	}
	member, err := zip.member(s.buffer)
	if err != nil {
		return false, 0, err
	}
	file, created, err := s.open()
	if err != nil {
		return false, 0, err
	}
	n, err := file.Write(member)
	if err != nil && n > 0 {
		err = errors.Join(err, file.Truncate(s.size))
	}
	err = errors.Join(err, file.Close())
	if err != nil {
		return created, 0, fmt.Errorf("write trace: %w", err)
	}
	s.size += int64(n)
	s.written += int64(len(s.buffer))
	s.buffer, s.rows = s.buffer[:0], 0
	return created, n, nil
}

// open opens the segment for appending. It is not kept open, so that any number of producers needs no more files. A
// segment that somebody deleted is not made again: the next one takes its place.
func (s *segments) open() (file *os.File, created bool, err error) {
	if s.exists {
		file, err = os.OpenFile(s.name.String(), os.O_WRONLY|os.O_APPEND, filePermissions)
		if !errors.Is(err, fs.ErrNotExist) {
			return file, false, err
		}
		s.roll()
	}
	for {
		file, err = os.OpenFile(s.name.String(), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, filePermissions)
		if !errors.Is(err, fs.ErrExist) {
			s.exists = err == nil
			return file, err == nil, err
		}
		s.name.Index++ // another writer of the same producer
	}
}

// prune deletes the oldest segments until no more than keep are left. Links and directories stay.
func (s *segments) prune(keep int) (removed int, err error) {
	names, err := s.list()
	if err != nil {
		return 0, err
	}
	names = slices.DeleteFunc(names, func(name SegmentName) bool {
		info, err := os.Lstat(name.String())
		return err != nil || !info.Mode().IsRegular()
	})
	var errs []error
	for _, name := range names[:max(len(names)-keep, 0)] {
		if name.Index >= s.name.Index {
			continue
		}
		if err := os.Remove(name.String()); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}

// compressor makes gzip members. It is shared by all series of a writer, a gzip writer being a megabyte large.
type compressor struct {
	out bytes.Buffer
	zip *gzip.Writer
}

func newCompressor() *compressor {
	c := &compressor{}
	c.zip = gzip.NewWriter(&c.out)
	return c
}

// member returns data as one gzip member, valid until the next call.
func (c *compressor) member(data []byte) ([]byte, error) {
	c.out.Reset()
	c.zip.Reset(&c.out)
	_, err := c.zip.Write(data)
	if err = errors.Join(err, c.zip.Close()); err != nil {
		return nil, fmt.Errorf("compress trace: %w", err)
	}
	return c.out.Bytes(), nil
}

// probe finds out whether files can be made beside prefix.
func probe(prefix string) error {
	dir, base := filepath.Split(prefix)
	file, err := os.CreateTemp(dir, "."+base+".write-probe-*")
	if err != nil {
		return err
	}
	_, err = file.WriteString("probe")
	return errors.Join(err, file.Close(), os.Remove(file.Name()))
}
