package exporter

import (
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// Shard is the share of the targets that one exporter has of a fleet with the same
// configuration. The zero value has all of them.
type Shard struct {
	Index int // from 0
	Count int // of exporters; 0 or 1: there is no other
}

// Validate says what is wrong with a shard.
func (s Shard) Validate() error {
	if s.Count < 0 || s.Index < 0 || s.Index >= max(s.Count, 1) {
		return fmt.Errorf("shard %d of %d is none: the index counts from 0 to one less than the count", s.Index, s.Count)
	}
	return nil
}

// has returns what tells whether a target is one of the share, or nil if all are. A
// target's share depends on its pipeline and address alone, so that it stays where it
// is while others come and go.
func (s Shard) has() func(pipeline, address string) bool {
	if s.Count <= 1 {
		return nil
	}
	return func(pipeline, address string) bool {
		return xxhash.Sum64String(pipeline+"\x00"+address)%uint64(s.Count) == uint64(s.Index)
	}
}
