package scrape

// Retain returns the outcome of the last scrape that ended, or nil, with a reference
// to its page if it has one, which the caller gives back with Release. It scrapes
// nothing.
func (t *Target) Retain() *Outcome {
	last := t.Last()
	if last == nil {
		return nil
	}
	return t.retain(last)
}
