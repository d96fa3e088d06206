package scrape

import (
	"bytes"
	"log/slog"
	"sync"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
	"github.com/omni-exporter/omni_exporter/relabel"
)

// ownPage rewrites the exporter's own families, so that they go through the same
// merge as the targets'.
type ownPage struct {
	logger  *slog.Logger
	buffers *exposition.Buffers

	mu       sync.Mutex
	prefix   string
	rewriter *relabel.Target
	last     *exposition.Page // kept for the next to be compared with
	spare    []byte           // what the next is rendered into
}

func newOwnPage(logger *slog.Logger, b *exposition.Buffers) *ownPage {
	o := &ownPage{logger: logger, buffers: b}
	o.rewriter = o.newRewriter()
	return o
}

func (o *ownPage) newRewriter() *relabel.Target {
	return relabel.NewTarget(relabel.NewRules(relabel.Options{KeepCreated: true, OmniPrefix: o.prefix}), o.buffers)
}

// rewriteBy has omni families leave with a prefix, as omni_prefix in the
// configuration: they are collected with vLLM-Omni's own.
func (o *ownPage) rewriteBy(prefix string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.prefix == prefix {
		return
	}
	o.prefix = prefix
	o.rewriter = o.newRewriter()
}

// page returns a page with a reference for the caller, or nil if there is none.
func (o *ownPage) page(render Own, states []State) *exposition.Page {
	if render == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	text := render(o.spare[:0], states)
	if bytes.IndexByte(text, 0) >= 0 {
		// No reader takes a page with a NUL byte, and one label value (of a configuration,
		// a trace or an artifact) must not cost all families.
		text = bytes.ReplaceAll(text, []byte{0}, []byte("\uFFFD"))
	}
	result, spare, err := o.rewriter.Rewrite(text, exposition.Text)
	o.spare = spare
	if err != nil {
		if o.logger != nil {
			o.logger.Error("own families are left out: this is a fault of the exporter", "err", err)
		}
		return nil
	}
	if o.last != nil {
		o.last.Release()
	}
	o.last = result.Page
	result.Page.Retain()
	return result.Page
}
