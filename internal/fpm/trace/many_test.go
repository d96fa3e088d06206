package trace

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// BenchmarkLook is a look at a directory full of files of dead producers.
func BenchmarkLook(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n, " files"), func(b *testing.B) {
			dir := b.TempDir()
			for i := range n {
				if err := writeSmall(segment(dir, fmt.Sprint(i), 0)); err != nil {
					b.Fatal(err)
				}
			}
			f := follow(dir, &gathered{}, nil)
			for b.Loop() {
				now := time.Now()
				f.look(now)
				f.read(b.Context(), now)
			}
		})
	}
}

func writeSmall(path string) error { return os.WriteFile(path, member("{}\n"), 0o600) }
