package trace

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// batch is a number of rows of one series, valid until it is released.
type batch struct {
	rows []Row
	text *text // that the lines are part of, in the last batch of it
}

// text is a chunk of a file.
type text struct {
	chunk
	path   string
	series string
}

// pool keeps what was used, so that reading a large file makes little garbage.
type pool struct{ texts, rows sync.Pool }

func (p *pool) text() *text {
	if t, ok := p.texts.Get().(*text); ok {
		return t
	}
	return &text{}
}

func (p *pool) batch() batch {
	if rows, ok := p.rows.Get().(*[]Row); ok {
		return batch{rows: (*rows)[:0]}
	}
	return batch{rows: make([]Row, 0, batchRows)}
}

func (p *pool) release(b batch) {
	p.rows.Put(&b.rows)
	if b.text != nil {
		p.texts.Put(b.text)
	}
}

// seriesReader reads the files of one series after another.
type seriesReader struct {
	o       ReadOptions
	pool    *pool
	members *memberReader
	decoder rowDecoder
	row     Row
}

func newSeriesReader(o ReadOptions, p *pool) *seriesReader {
	return &seriesReader{o: o, pool: p, members: newMemberReader(0)}
}

// read sends the rows of the files to out, until ctx ends. Inflating and decoding go on side by side.
func (s *seriesReader) read(ctx context.Context, paths []string, out chan<- batch) {
	texts := make(chan *text, 1)
	go func() {
		defer close(texts)
		for _, path := range paths {
			s.inflate(ctx, path, texts)
		}
	}()
	for t := range texts {
		s.decode(ctx, t, out)
	}
}

// inflate sends the chunks of a file to out.
func (s *seriesReader) inflate(ctx context.Context, path string, out chan<- *text) {
	file, err := os.Open(path)
	if err != nil {
		s.failed(path, 0, FileUnreadable, err)
		return
	}
	defer file.Close()
	at, told := cursor{file: file}, int64(0)
	defer func() {
		if info, err := file.Stat(); err == nil {
			s.o.Progress(info.Size() - told)
		}
	}()
	for ctx.Err() == nil {
		what, err := at.step(s.members, func(c chunk) {
			t := s.pool.text()
			t.path, t.series = path, placeOf(path).series
			data := append(t.data[:0], c.data...)
			t.chunk, t.data = c, data
			select {
			case out <- t:
			case <-ctx.Done():
			}
		})
		if err != nil {
			s.failed(path, at.offset, FileUnreadable, err)
			return
		}
		switch what {
		case stepRead:
			s.o.Totals.members.Add(1)
			s.o.Progress(at.offset - told)
			told = at.offset
		case stepEnd:
			return
		case stepCorrupt:
			s.failed(path, at.offset-1, FileCorrupt, errCorrupt)
		case stepIncomplete:
			s.failed(path, at.offset, FileTruncated, errIncomplete)
			at.skip()
		case stepNoGzip:
			s.failed(path, 0, FileNoGzip, errors.New("this is no gzip file"))
			return
		case stepTooLarge:
			s.failed(path, at.offset, FileMemberSize, errMemberSize)
			return
		case stepHopeless:
			s.failed(path, at.offset, FileCorrupt, errors.New("the file is corrupt in too many places, the rest is left alone"))
			return
		}
	}
}

func (s *seriesReader) failed(path string, offset int64, reason FileReason, err error) {
	s.o.Totals.fail(reason)
	s.o.Problem(Problem{Path: path, Offset: offset, Err: err})
}

// decode sends the rows of a text to out.
func (s *seriesReader) decode(ctx context.Context, t *text, out chan<- batch) {
	s.o.Totals.bytes.Add(uint64(len(t.data)))
	b := s.pool.batch()
	send := func() {
		select {
		case out <- b:
		case <-ctx.Done():
		}
	}
	s.decoder.rows(t.chunk, &s.row, func(_ int, r *Row) {
		if len(b.rows) == cap(b.rows) {
			send()
			b = s.pool.batch()
		}
		r.Series = t.series
		s.o.Totals.accept(r)
		b.rows = append(b.rows, *r)
	}, func(line int, why *fpm.RejectError) {
		s.o.Totals.reject(why.Reason)
		s.o.Problem(Problem{Path: t.path, Offset: t.offset, Line: line, Err: why})
	})
	b.text = t
	send()
}

// firstRow returns the first row of the files, of whose first members it must be one.
func (s *seriesReader) firstRow(paths []string) (first Row, ok bool) {
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		at := cursor{file: file}
		_, _ = at.step(s.members, func(c chunk) {
			s.decoder.rows(c, &s.row, func(_ int, r *Row) {
				if !ok {
					first, ok = *r, true
				}
			}, func(int, *fpm.RejectError) {})
		})
		_ = file.Close()
		if ok {
			break
		}
	}
	return first, ok
}
