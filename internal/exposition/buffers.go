package exposition

import "sync"

// maxSpare bounds how many buffers are kept between scrapes. Each target keeps the
// buffers of its last page; the spare ones are what the next pages go into
// meanwhile.
const maxSpare = 64

// Buffers is a bounded stock of page buffers. sync.Pool would drop them at every
// collection, which is about once a scrape. The zero value is ready, and a nil
// one keeps nothing.
type Buffers struct {
	mu    sync.Mutex
	spare [][]byte
}

// Get returns an empty buffer for a page of about size bytes. A buffer much larger
// than that is left for others: pages keep the buffers that they are in, so a
// small page must not walk off with a large buffer.
func (b *Buffers) Get(size int) []byte {
	size += size/16 + 512
	if b == nil {
		return make([]byte, 0, size)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(b.spare) - 1; i >= 0; i-- {
		if buf := b.spare[i]; cap(buf) >= size && cap(buf) <= 2*size {
			last := len(b.spare) - 1
			b.spare[i] = b.spare[last]
			b.spare[last] = nil
			b.spare = b.spare[:last]
			return buf[:0]
		}
	}
	return make([]byte, 0, size)
}

// Put takes a buffer that nobody reads any more.
func (b *Buffers) Put(buf []byte) {
	if b == nil || cap(buf) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.spare) == maxSpare {
		// The oldest makes room: it may be of a size that no page needs any more.
		copy(b.spare, b.spare[1:])
		b.spare = b.spare[:maxSpare-1]
	}
	b.spare = append(b.spare, buf)
}
