package trace

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// problems gathers what Read could not read.
type problems struct {
	mu  sync.Mutex
	all []string
}

func (p *problems) add(one Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, filepath.Base(one.String()))
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	broken := member(lines(300, 330))
	broken[len(broken)-5] ^= 1
	torn := member(lines(400, 401))
	files := map[string][]byte{
		segment(dir, "a", 10):         join(member(lines(200, 205)), broken, member(lines(350, 399))),
		segment(dir, "a", 9):          member(lines(0, 199)),
		segment(dir, "b", 0):          join(member(testLine(3, 1)+"{}\n"+testLine(399, 1)), torn[:20]),
		segment(dir, "c", 0):          []byte("no gzip"),
		filepath.Join(dir, "copy.gz"): member(testLine(204, 2)),
	}
	paths := []string{filepath.Join(dir, "absent.gz"), segment(dir, "a", 9)}
	var size int64
	for path, data := range files {
		appendFile(t, path, data)
		paths = append(paths, path)
		size += int64(len(data))
	}
	wantProblems := []string{
		fmt.Sprintf("dynamo-fpm.a.000010.jsonl.gz: gzip member at byte %d: no whole gzip member", len(member(lines(200, 205)))),
		"dynamo-fpm.b.000000.jsonl.gz: gzip member at byte 0, line 2: forward-pass record refused (schema): event.schema: absent",
		fmt.Sprintf("dynamo-fpm.b.000000.jsonl.gz: gzip member at byte %d: the file ends within a gzip member", len(member(testLine(3, 1)+"{}\n"+testLine(399, 1)))),
		"dynamo-fpm.c.000000.jsonl.gz: gzip member at byte 0: this is no gzip file",
	}
	for _, ordered := range []bool{false, true} {
		t.Run(fmt.Sprint("ordered ", ordered), func(t *testing.T) {
			var got []Row
			var bad problems
			var progress int64
			var mu sync.Mutex
			totals := NewTotals()
			err := Read(t.Context(), paths, ReadOptions{Ordered: ordered, Totals: totals, Problem: bad.add, Progress: func(n int64) {
				mu.Lock()
				defer mu.Unlock()
				progress += n
			}}, func(r *Row) error {
				if want := testLine(r.Record.CounterID, r.Record.DPRank); string(r.Line)+"\n" != want {
					t.Errorf("line %s", r.Line)
				}
				got = append(got, *r)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if progress != size {
				t.Errorf("progress of %d bytes, want %d", progress, size)
			}
			for rank, want := range map[uint64]int{0: 200 + 6 + 50, 1: 2, 2: 1} {
				n, last := 0, uint64(0)
				for i := range got {
					if got[i].Record.DPRank != rank {
						continue
					}
					if counter := got[i].Record.CounterID; n > 0 && counter <= last {
						t.Errorf("%d after %d", counter, last)
					} else {
						last = counter
					}
					n++
				}
				if n != want {
					t.Errorf("%d rows of rank %d, want %d", n, rank, want)
				}
			}
			if ordered && !slices.IsSortedFunc(got, func(a, b Row) int { return a.Observed.Compare(b.Observed) }) {
				t.Error("not in order of time")
			}
			if !strings.HasPrefix(bad.all[slices.IndexFunc(bad.all, func(s string) bool { return strings.Contains(s, "absent.gz") })], "absent") {
				t.Error("the absent file is not told of")
			}
			bad.all = slices.DeleteFunc(bad.all, func(s string) bool { return strings.Contains(s, "absent.gz") })
			slices.Sort(bad.all)
			if diff := cmp.Diff(wantProblems, bad.all); diff != "" {
				t.Error(diff)
			}
			demandTotals(t, totals, map[fpm.Reason]uint64{ReasonSchema: 1}, map[FileReason]uint64{
				FileCorrupt: 1, FileTruncated: 1, FileNoGzip: 1, FileUnreadable: 1,
			})
		})
	}
}

// The end of the reading ends its goroutines, whatever ended it.
func TestReadEnds(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for i := range 5 {
		path := segment(dir, fmt.Sprint(i), 0)
		for m := range uint64(20) {
			appendFile(t, path, member(lines(100*m, 100*m+99)))
		}
		paths = append(paths, path)
	}
	for _, ordered := range []bool{false, true} {
		enough := errors.New("enough")
		rows := 0
		err := Read(t.Context(), paths, ReadOptions{Ordered: ordered}, func(*Row) error {
			if rows++; rows == 1000 {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || rows != 1000 {
			t.Errorf("ordered %v: %v after %d rows", ordered, err, rows)
		}
		ctx, cancel := context.WithCancel(t.Context())
		rows = 0
		err = Read(ctx, paths, ReadOptions{Ordered: ordered}, func(*Row) error {
			if rows++; rows == 1000 {
				cancel()
			}
			return nil
		})
		cancel()
		if !errors.Is(err, context.Canceled) || rows == 5*2000 {
			t.Errorf("ordered %v: %v after %d rows", ordered, err, rows)
		}
	}
}
