package web

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// statusView is a Status as the page shows it.
type statusView struct {
	*Status
	Telemetry  string // path of the merged page, relative to this one
	TakesEvent bool
	HasStreams bool

	ShownRejected                        []rejectedTarget
	MoreTargets, MoreRejected, MoreRanks int // that the page leaves out
	Conflicts, Dropped                   []countView
	Accepted                             []countView
	Refused, Ignored                     []countView
}

// countView is a counter with its label.
type countView struct {
	Label string
	Count float64
}

// view returns what the page shows of a status: what is wrong first where there is
// too much for a page.
func (s *Server) view(status *Status) *statusView {
	v := &statusView{
		Status: status, Telemetry: strings.TrimPrefix(s.options.TelemetryPath, "/"),
		TakesEvent: s.options.Events != nil, HasStreams: s.options.Streams != nil,
		Conflicts: counts(status.Merge.Conflicts), Dropped: counts(status.Merge.Dropped),
		Accepted: counts(status.Events.Accepted), Refused: counts(status.Events.Refused), Ignored: counts(status.Events.Ignored),
	}
	status.Targets, v.MoreTargets = first(status.Targets, maxShownTargets, func(t *TargetStatus) bool { return t.State != StateUp })
	v.ShownRejected, v.MoreRejected = first(status.Rejected, maxShownRejected, func(*rejectedTarget) bool { return true })
	status.ForwardPasses, v.MoreRanks = first(status.ForwardPasses, maxShownRanks, func(r *RankStatus) bool {
		return r.Endpoint != "" && r.Phase != connected || r.Silent()
	})
	for i := range status.Pipelines {
		stages := status.Pipelines[i].Stages
		for j := range stages {
			stages[j].Engines, stages[j].More = first(stages[j].Engines, maxShownEngines, func(e *EngineStatus) bool { return e.State != StateUp })
		}
	}
	return v
}

// first returns at most so many of a list, in its order if that is all, else with
// those that are wrong before the others, and how many are left out.
func first[T any](list []T, most int, wrong func(*T) bool) (shown []T, more int) {
	if len(list) <= most {
		return list, 0
	}
	slices.SortStableFunc(list, func(a, b T) int {
		switch x, y := wrong(&a), wrong(&b); {
		case x && !y:
			return -1
		case y && !x:
			return 1
		}
		return 0
	})
	return list[:most], len(list) - most
}

// counts returns counters by size, those that are zero left out.
func counts[N int64 | float64](m map[string]N) []countView {
	var out []countView
	for _, label := range slices.Sorted(maps.Keys(m)) {
		if m[label] != 0 {
			out = append(out, countView{label, float64(m[label])})
		}
	}
	slices.SortStableFunc(out, func(a, b countView) int { return cmp.Compare(b.Count, a.Count) })
	return out
}

// statusFunctions are the page's ways to write numbers and times.
func statusFunctions() template.FuncMap {
	return template.FuncMap{
		"ago": ago, "utc": utc, "size": size, "count": count, "number": number, "percent": percent, "seconds": seconds,
		"list": someOf, "total": total, "dict": dict,
	}
}

// dict makes the data of a template out of names and values.
func dict(pairs ...any) map[string]any {
	out := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		out[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return out
}

func total(counts []countView) (sum float64) {
	for _, c := range counts {
		sum += c.Count
	}
	return sum
}

func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// ago returns how long before now something was.
func ago(now, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := now.Sub(t)
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s ago", max(d, 0).Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s ago", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min ago", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f h ago", d.Hours())
	}
	return fmt.Sprintf("%.0f days ago", d.Hours()/24)
}

func seconds(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.1f ms", s*1e3)
	}
	return fmt.Sprintf("%.1f s", s)
}

func size(bytes int) string {
	switch n := float64(bytes); {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", n/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", n/(1<<10))
	}
	return fmt.Sprintf("%d B", bytes)
}

// count writes a whole number with spaces between thousands.
func count(n any) string {
	var digits string
	switch v := n.(type) {
	case float64:
		digits = strconv.FormatFloat(math.Trunc(v), 'f', -1, 64)
	default:
		digits = fmt.Sprint(v)
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return digits
}

// number writes a value that may be missing.
func number(v *float64) string {
	if v == nil {
		return "–"
	}
	return strconv.FormatFloat(math.Round(*v*10)/10, 'f', -1, 64)
}

func percent(v *float64) string {
	if v == nil {
		return "–"
	}
	return strconv.FormatFloat(math.Round(*v*1000)/10, 'f', -1, 64) + " %"
}

// someOf writes a few of many names.
func someOf(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
