package scrape

import (
	"bytes"
	"fmt"
	"io"

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
	w, err := compressor(&buf, e)
	if err != nil {
		return nil, err
	}
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

// compressor returns a writer at the fastest level: a page is sent once, mostly
// over a local network, and its repetition compresses about as well at any level.
func compressor(w io.Writer, e Encoding) (io.WriteCloser, error) {
	if e == Zstd {
		z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		return z, nil
	}
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	return z, nil
}
