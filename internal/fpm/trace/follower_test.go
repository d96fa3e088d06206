package trace

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// follow returns a follower of all segments below dir that polls, so that it can run on a bubble's clock.
func follow(dir string, g *gathered, change func(*FollowerOptions)) *Follower {
	o := FollowerOptions{
		Patterns: []string{filepath.Join(dir, "dynamo-fpm.*.jsonl.gz")}, Row: g.row, PollOnly: true, Logger: new(logs).logger(),
	}
	if change != nil {
		change(&o)
	}
	return NewFollower(o)
}

// pass lets the follower look at its files once more.
func pass(d time.Duration) {
	time.Sleep(d) // of the bubble's clock
	synctest.Wait()
}

const poll = 2*time.Second + time.Millisecond

// TestFollow is one producer's life: twenty members, one of which is completed two seconds later, one that lacks its
// last four bytes for a while, a broken row, a turn over to the next segment, and a file that is no gzip file.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, g, l := t.TempDir(), &gathered{}, &logs{}
		totals := NewTotals()
		f := follow(dir, g, func(o *FollowerOptions) { o.Totals, o.Logger = totals, l.logger() })
		run(t, f)
		first := segment(dir, "4192", 0)
		demand := func(what string, from, to uint64) {
			t.Helper()
			pass(poll)
			if diff := cmp.Diff(numbered(from, to), g.take()); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
		}
		for i := range uint64(8) {
			appendFile(t, first, member(lines(10*i, 10*i+9)))
		}
		demand("eight members", 0, 79)

		ninth := member(lines(80, 89))
		appendFile(t, first, ninth[:len(ninth)/2])
		demand("half a member", 1, 0)
		appendFile(t, first, ninth[len(ninth)/2:])
		demand("the other half", 80, 89)

		tenth := member(lines(90, 99))
		appendFile(t, first, tenth[:len(tenth)-4])
		demand("a member without its length", 1, 0)
		appendFile(t, first, tenth[len(tenth)-4:])
		demand("the length", 90, 99)

		appendFile(t, first, member(lines(100, 104)+"{\"timestamp\":17,\n"+lines(105, 109)))
		demand("around a broken row", 100, 109)

		appendFile(t, segment(dir, "4192", 1), member(lines(110, 119)))
		for i := range uint64(4) {
			appendFile(t, segment(dir, "4192", 1), member(lines(120+10*i, 129+10*i)))
		}
		demand("the next segment", 110, 159)

		appendFile(t, segment(dir, "5000", 0), []byte(exampleRow))
		for i := range uint64(4) {
			appendFile(t, segment(dir, "4192", 1), member(lines(160+10*i, 169+10*i)))
		}
		demand("beside a file that is no gzip file", 160, 199)
		if totals.Members() != 20 || totals.Rows(fpm.CaptureFull) != 200 {
			t.Errorf("%d members, %d rows", totals.Members(), totals.Rows(fpm.CaptureFull))
		}
		demandTotals(t, totals, map[fpm.Reason]uint64{fpm.ReasonMalformed: 1}, map[FileReason]uint64{FileNoGzip: 1})
		if l.warnings() != 2 {
			t.Errorf("%d warnings, want one for the row and one for the file:\n%s", l.warnings(), l.text.String())
		}
		if s := f.State(); s.Files != 3 || s.Open != 1 || s.Pending != 0 || s.Notified || !s.StateSaved {
			t.Errorf("%+v", s)
		}
	})
}

// Files that exist are read from their end, those that come later whole.
func TestFollowFromEnd(t *testing.T) {
	for _, fromStart := range []bool{false, true} {
		t.Run(fmt.Sprint("from start ", fromStart), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, g := t.TempDir(), &gathered{}
				totals := NewTotals()
				half := member(lines(10, 12))
				appendFile(t, segment(dir, "4192", 0), join(member(lines(0, 9)), half[:20]))
				f := follow(dir, g, func(o *FollowerOptions) { o.FromStart, o.Totals = fromStart, totals })
				appendFile(t, segment(dir, "4192", 0), join(half[20:], member(lines(13, 19))))
				appendFile(t, segment(dir, "5000", 0), member(testLine(1, 1)))
				run(t, f)
				pass(poll)
				want := append(numbered(13, 19), "4192/1/1")
				if fromStart {
					want = append(numbered(0, 19), "4192/1/1")
				}
				if diff := cmp.Diff(want, g.take()); diff != "" {
					t.Error(diff)
				}
				demandTotals(t, totals, nil, nil)
			})
		})
	}
}

// An unfinished member is given up once a later segment exists, and not before. What comes after it is read.
func TestFollowTorn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, g := t.TempDir(), &gathered{}
		totals := NewTotals()
		run(t, follow(dir, g, func(o *FollowerOptions) { o.Totals = totals }))
		torn := member(lines(5, 6))
		appendFile(t, segment(dir, "4192", 0), join(member(lines(1, 4)), torn[:len(torn)-9]))
		pass(5 * time.Minute)
		if diff := cmp.Diff(numbered(1, 4), g.take()); diff != "" {
			t.Error(diff)
		}
		demandTotals(t, totals, nil, nil)
		appendFile(t, segment(dir, "4192", 1), member(lines(7, 9)))
		pass(poll)
		if diff := cmp.Diff(numbered(7, 9), g.take()); diff != "" {
			t.Error(diff)
		}
		demandTotals(t, totals, nil, map[FileReason]uint64{FileTruncated: 1})
	})
}

// The last member of a segment may come a moment after the next segment was made. Its rows come first all the same.
func TestFollowLateMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, g := t.TempDir(), &gathered{}
		totals := NewTotals()
		run(t, follow(dir, g, func(o *FollowerOptions) { o.Totals = totals }))
		late := member(lines(5, 6))
		appendFile(t, segment(dir, "4192", 0), join(member(lines(1, 4)), late[:len(late)-9]))
		appendFile(t, segment(dir, "4192", 1), member(lines(7, 9)))
		pass(poll)
		if diff := cmp.Diff(numbered(1, 4), g.take()); diff != "" {
			t.Error(diff)
		}
		appendFile(t, segment(dir, "4192", 0), late[len(late)-9:])
		pass(poll)
		if diff := cmp.Diff(numbered(5, 9), g.take()); diff != "" {
			t.Error(diff)
		}
		demandTotals(t, totals, nil, nil)
	})
}

// A producer that died within a member is given up after a while without a later segment.
func TestFollowAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, g := t.TempDir(), &gathered{}
		totals := NewTotals()
		f := follow(dir, g, func(o *FollowerOptions) { o.Totals = totals })
		run(t, f)
		torn := member(lines(5, 6))
		appendFile(t, segment(dir, "4192", 0), torn[:len(torn)-1])
		pass(poll)
		if s := f.State(); s.Pending != int64(len(torn)-1) || s.Open != 1 {
			t.Errorf("%+v", s)
		}
		pass(11 * time.Minute)
		demandTotals(t, totals, nil, map[FileReason]uint64{FileTruncated: 1})
		if s := f.State(); s.Open != 0 {
			t.Errorf("%+v", s)
		}
		appendFile(t, segment(dir, "4192", 0), member(lines(7, 9)))
		pass(poll)
		if diff := cmp.Diff(numbered(7, 9), g.take()); diff != "" {
			t.Error(diff)
		}
	})
}

// What is deleted while it is open is read to its end; what is deleted before that is counted.
func TestFollowDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, g := t.TempDir(), &gathered{}
		totals := NewTotals()
		f := follow(dir, g, func(o *FollowerOptions) { o.Totals = totals })
		run(t, f)
		path := segment(dir, "4192", 0)
		appendFile(t, path, member(lines(1, 4)))
		pass(poll)
		writer, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer writer.Close()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write(member(lines(5, 8))); err != nil {
			t.Fatal(err)
		}
		appendFile(t, segment(dir, "4192", 1), member(lines(9, 12)))
		pass(poll)
		pass(poll)
		if diff := cmp.Diff(numbered(1, 12), g.take()); diff != "" {
			t.Error(diff)
		}
		pass(20 * time.Second)
		if s := f.State(); s.Files != 1 {
			t.Errorf("%+v", s)
		}
		demandTotals(t, totals, nil, nil)
	})
}

func TestFollowVanished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, g := t.TempDir(), &gathered{}
		totals := NewTotals()
		run(t, follow(dir, g, func(o *FollowerOptions) { o.Totals = totals }))
		// The second waits for the first, whose last member is not finished, and is gone before it was opened.
		torn := member(lines(1, 4))
		appendFile(t, segment(dir, "4192", 0), torn[:30])
		appendFile(t, segment(dir, "4192", 1), member(lines(5, 8)))
		pass(poll)
		if err := os.Remove(segment(dir, "4192", 1)); err != nil {
			t.Fatal(err)
		}
		appendFile(t, segment(dir, "4192", 2), member(lines(9, 12)))
		pass(20 * time.Second)
		if diff := cmp.Diff(numbered(9, 12), g.take()); diff != "" {
			t.Error(diff)
		}
		demandTotals(t, totals, nil, map[FileReason]uint64{FileTruncated: 1, FileVanished: 1})
	})
}

// A file that is renamed goes on under its new name, whether that matches or not, and one that takes its place is new.
func TestFollowRename(t *testing.T) {
	for _, newName := range []string{"dynamo-fpm.old.jsonl.gz", "elsewhere"} {
		t.Run(newName, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, g := t.TempDir(), &gathered{}
				totals := NewTotals()
				run(t, follow(dir, g, func(o *FollowerOptions) { o.Totals = totals }))
				path := filepath.Join(dir, "dynamo-fpm.a.jsonl.gz")
				appendFile(t, path, member(lines(1, 4)))
				pass(poll)
				renamed := filepath.Join(dir, newName)
				if err := os.Rename(path, renamed); err != nil {
					t.Fatal(err)
				}
				appendFile(t, renamed, member(lines(5, 6)))
				appendFile(t, path, member(lines(7, 9)))
				pass(poll)
				pass(poll)
				if diff := cmp.Diff(numbered(1, 9), g.take()); diff != "" {
					t.Error(diff)
				}
				pass(20 * time.Minute)
				appendFile(t, path, member(lines(10, 11)))
				pass(poll)
				if diff := cmp.Diff(numbered(10, 11), g.take()); diff != "" {
					t.Error(diff)
				}
				demandTotals(t, totals, nil, nil)
			})
		})
	}
}

// A file that is cut off and written anew is read anew, also after it was refused.
func TestFollowTruncation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, g := t.TempDir(), &gathered{}
		totals := NewTotals()
		run(t, follow(dir, g, func(o *FollowerOptions) { o.Totals = totals }))
		path := segment(dir, "4192", 0)
		write := func(data []byte) {
			t.Helper()
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
			pass(poll)
		}
		write(member(lines(1, 40)))
		write(member(lines(50, 51)))
		write([]byte("this is no trace at all, but longer than what comes next, as it goes on and on and on and on and on and on and on and on " + lines(1, 2)))
		write(member(lines(60, 61)))
		want := slices.Concat(numbered(1, 40), numbered(50, 51), numbered(60, 61))
		if diff := cmp.Diff(want, g.take()); diff != "" {
			t.Error(diff)
		}
	})
}

// The number of a deleted file comes again for the next one on many file systems.
func TestFollowReusedNumber(t *testing.T) {
	dir := t.TempDir()
	old, next := segment(dir, "4192", 0), segment(dir, "4192", 1)
	g, totals := &gathered{}, NewTotals()
	appendFile(t, old, member(lines(1, 9)))
	f := follow(dir, g, func(o *FollowerOptions) { o.Totals, o.FromStart = totals, true })
	now := time.Now()
	f.look(now)
	f.read(t.Context(), now)
	f.files[0].close()
	if err := os.Remove(old); err != nil {
		t.Fatal(err)
	}
	appendFile(t, next, member(lines(10, 30)))
	listed := f.list(f.patterns)
	f.files[0].id = listed[0].id // as if the system had given it again
	for range 3 {
		f.look(now)
		f.read(t.Context(), now)
	}
	if diff := cmp.Diff(numbered(1, 30), g.take()); diff != "" {
		t.Error(diff)
	}
	demandTotals(t, totals, nil, nil)
	f.end()
}

// A restart goes on where the state file says, and reads what appeared meanwhile.
func TestFollowState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, g := t.TempDir(), &gathered{}
		totals := NewTotals()
		state := filepath.Join(dir, "state.json")
		again := func() func() {
			return run(t, follow(dir, g, func(o *FollowerOptions) { o.StateFile, o.Totals = state, totals }))
		}
		half := member(lines(5, 9))
		appendFile(t, segment(dir, "4192", 0), member(lines(0, 0)))
		stop := again()
		pass(poll)
		appendFile(t, segment(dir, "4192", 0), join(member(lines(1, 4)), half[:30]))
		pass(poll)
		stop()
		appendFile(t, segment(dir, "4192", 0), half[30:])
		appendFile(t, segment(dir, "4192", 1), member(lines(10, 14)))
		stop = again()
		pass(poll)
		stop()
		stop = again()
		pass(poll)
		if diff := cmp.Diff(numbered(1, 14), g.take()); diff != "" {
			t.Error(diff)
		}
		stop()

		// A state that cannot be read is none.
		if err := os.WriteFile(state, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		f := follow(dir, g, func(o *FollowerOptions) { o.StateFile, o.Totals = state, totals })
		if f.State().StateSaved {
			t.Error("a broken state is not shown")
		}
		stop = run(t, f)
		pass(time.Minute)
		if !f.State().StateSaved {
			t.Error("the state was not written again")
		}
		stop()
		// A file that is not the one whose place was saved is read whole.
		if err := os.WriteFile(segment(dir, "4192", 0), member(lines(20, 90)), 0o600); err != nil {
			t.Fatal(err)
		}
		again()
		pass(poll)
		if diff := cmp.Diff(numbered(20, 90), g.take()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFollowPatterns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, g := t.TempDir(), &gathered{}
		other := filepath.Join(dir, "other")
		if err := os.Mkdir(other, 0o755); err != nil {
			t.Fatal(err)
		}
		f := follow(dir, g, nil)
		run(t, f)
		appendFile(t, segment(dir, "4192", 0), member(lines(1, 2)))
		appendFile(t, segment(other, "5000", 0), member(testLine(1, 1)))
		pass(poll)
		f.SetPatterns([]string{filepath.Join(dir, "dynamo-fpm.4192.*"), filepath.Join(dir, "*", "dynamo-fpm.*"), filepath.Join(other, "*")})
		appendFile(t, segment(dir, "4192", 0), member(lines(3, 4)))
		appendFile(t, segment(other, "5000", 0), member(testLine(2, 1)))
		appendFile(t, segment(other, "6000", 0), member(testLine(1, 2)))
		pass(poll)
		want := append(numbered(1, 4), "4192/1/2", "4192/2/1")
		if diff := cmp.Diff(want, g.take()); diff != "" {
			t.Error(diff)
		}
	})
}

// A file that may not be read is counted once and read once it may; the others are read meanwhile.
func TestFollowUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	synctest.Test(t, func(t *testing.T) {
		dir, g := t.TempDir(), &gathered{}
		totals := NewTotals()
		run(t, follow(dir, g, func(o *FollowerOptions) { o.Totals = totals }))
		path := segment(dir, "4192", 0)
		appendFile(t, path, member(lines(1, 2)))
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		demandTotals(t, totals, nil, map[FileReason]uint64{FileUnreadable: 1})
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		pass(poll)
		if diff := cmp.Diff(numbered(1, 2), g.take()); diff != "" {
			t.Error(diff)
		}
	})
}

// A gzip bomb costs its file, and the others go on.
func TestFollowBomb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, g := t.TempDir(), &gathered{}
		totals := NewTotals()
		f := follow(dir, g, func(o *FollowerOptions) { o.Totals = totals })
		f.reader = newMemberReader(1 << 20)
		run(t, f)
		appendFile(t, segment(dir, "0", 0), join(member(string(bytes.Repeat([]byte{' '}, 1<<20+1))), member(lines(0, 0))))
		appendFile(t, segment(dir, "4192", 0), member(lines(1, 2)))
		pass(poll)
		if diff := cmp.Diff(numbered(1, 2), g.take()); diff != "" {
			t.Error(diff)
		}
		demandTotals(t, totals, nil, map[FileReason]uint64{FileMemberSize: 1})
	})
}

// TestFollowNotified is the one on the system's clock: a change is heard of long before the next poll, also of a
// directory that is made later.
func TestFollowNotified(t *testing.T) {
	dir := t.TempDir()
	g := &gathered{more: make(chan struct{}, 1)}
	f := NewFollower(FollowerOptions{
		Patterns: []string{filepath.Join(dir, "dynamo-fpm.*.jsonl.gz")}, Row: g.row, Logger: new(logs).logger(),
		Timing: Timing{Poll: time.Hour, Settle: time.Millisecond},
	})
	stop := run(t, f)
	deadline := time.After(30 * time.Second)
	for i := range uint64(3) {
		appendFile(t, segment(dir, "4192", i), member(testLine(i, 0)))
		select {
		case <-g.more:
		case <-deadline:
			t.Fatal("no row")
		}
	}
	stop()
	if diff := cmp.Diff(numbered(0, 2), g.take()); diff != "" {
		t.Error(diff)
	}
	if !f.State().Notified {
		t.Error("not notified")
	}
}
