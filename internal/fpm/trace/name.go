package trace

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	extension = ".jsonl.gz"
	// indexDigits is the least number of digits of a segment's index.
	indexDigits = 6
)

// SegmentName is the path of one segment: prefix, producer and index, as in /tmp/dynamo-fpm.4192.000000.jsonl.gz.
type SegmentName struct {
	// Prefix is the output path, which may hold dots.
	Prefix string
	// Producer is the sanitized producer id. Two raw ids may share one.
	Producer string
	Index    uint64
}

// ParseSegmentName takes a path apart, from the right, since producers hold no dots. It reports false for paths that
// no writer makes.
func ParseSegmentName(path string) (SegmentName, bool) {
	rest, ok := strings.CutSuffix(path, extension)
	if !ok {
		return SegmentName{}, false
	}
	dot := strings.LastIndexByte(rest, '.')
	if dot < 0 {
		return SegmentName{}, false
	}
	digits := rest[dot+1:]
	index, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || digits != formatIndex(index) {
		return SegmentName{}, false
	}
	rest = rest[:dot]
	dot = strings.LastIndexByte(rest, '.')
	if dot < 0 || dot == len(rest)-1 || strings.ContainsRune(rest[dot:], filepath.Separator) {
		return SegmentName{}, false
	}
	return SegmentName{Prefix: rest[:dot], Producer: rest[dot+1:], Index: index}, true
}

// String returns the path.
func (n SegmentName) String() string { return n.Series() + "." + formatIndex(n.Index) + extension }

// Series returns what all segments of the producer have in common: the path without index and extension.
func (n SegmentName) Series() string { return n.Prefix + "." + n.Producer }

func formatIndex(index uint64) string { return fmt.Sprintf("%0*d", indexDigits, index) }

// Sanitize returns a producer id as it stands in file names: ASCII letters, digits, '-' and '_' stay, any other
// character becomes '_'. An empty id is "unknown".
func Sanitize(producer string) string {
	if producer == "" {
		return "unknown"
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		default:
			return '_'
		}
	}, producer)
}

// TrimOutputPath returns the prefix that an output path stands for: one trailing .jsonl.gz or .jsonl does not count.
func TrimOutputPath(path string) string {
	if rest, ok := strings.CutSuffix(path, extension); ok {
		return rest
	}
	return strings.TrimSuffix(path, ".jsonl")
}

// place is where a file stands among others: segments of a producer follow each other, any other file is alone.
type place struct {
	series string
	index  uint64
}

func placeOf(path string) place {
	if name, ok := ParseSegmentName(path); ok {
		return place{series: name.Series(), index: name.Index}
	}
	return place{series: path}
}

func (p place) compare(q place) int {
	return cmp.Or(strings.Compare(p.series, q.series), cmp.Compare(p.index, q.index))
}
