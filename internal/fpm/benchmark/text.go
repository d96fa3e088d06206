package benchmark

import (
	"strconv"
	"strings"
)

// countOf picks the singular or the plural.
func countOf(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// ranges writes rising numbers in short: 1, 2, 5..7.
func ranges(sorted []int64) string {
	var parts []string
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		switch {
		case j-i >= 2:
			parts = append(parts, strconv.FormatInt(sorted[i], 10)+".."+strconv.FormatInt(sorted[j], 10))
		default:
			for k := i; k <= j; k++ {
				parts = append(parts, strconv.FormatInt(sorted[k], 10))
			}
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

// seconds spells a number of seconds as JSON would.
func seconds(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
