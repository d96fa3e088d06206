package scrape

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// Encoding is a content encoding of an answer.
type Encoding string

// The encodings, by their names in HTTP.
const (
	Identity Encoding = "identity"
	Gzip     Encoding = "gzip"
	Zstd     Encoding = "zstd"
)

// encodingKey is one form of a page.
type encodingKey struct {
	format   exposition.Format
	utf8     bool
	encoding Encoding
}

// Encoded returns the view in a compressed encoding. The work is done once per
// page and form, however many callers ask.
func (p *Page) Encoded(f exposition.Format, utf8 bool, e Encoding) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := encodingKey{f, utf8, e}
	if body, ok := p.encoded[key]; ok {
		return body, nil
	}
	var buf bytes.Buffer
	w, err := p.compressors.get(e)
	if err != nil {
		return nil, err
	}
	defer p.compressors.put(e, w)
	w.Reset(&buf)
	if _, err := p.Merged.View(f, utf8).WriteTo(w); err != nil {
		return nil, fmt.Errorf("compress page: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress page: %w", err)
	}
	if p.encoded == nil {
		p.encoded = map[encodingKey][]byte{}
	}
	p.encoded[key] = buf.Bytes()
	return buf.Bytes(), nil
}

// compressor is a writer that is used for page after page: a new one costs several
// times what compressing a page does.
type compressor interface {
	io.WriteCloser
	Reset(io.Writer)
}

// compressors keeps compressors between pages. The zero value is ready.
type compressors struct {
	gzip, zstd sync.Pool
}

func (c *compressors) pool(e Encoding) *sync.Pool {
	if e == Zstd {
		return &c.zstd
	}
	return &c.gzip
}

// get returns a compressor that is to be reset first. The levels are those that cost
// about as little as any: a page is sent once, mostly over a local network.
func (c *compressors) get(e Encoding) (compressor, error) {
	if w, ok := c.pool(e).Get().(compressor); ok {
		return w, nil
	}
	if e == Zstd {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		return w, nil
	}
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	return w, nil
}

func (c *compressors) put(e Encoding, w compressor) {
	w.Reset(nil) // it must not hold on to the page
	c.pool(e).Put(w)
}
