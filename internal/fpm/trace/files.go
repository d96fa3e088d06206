package trace

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// fileID tells files apart as the system does.
type fileID struct{ device, inode uint64 }

// found is a file that a pattern matches.
type found struct {
	path     string
	id       fileID
	size     int64
	modified time.Time
}

// list returns the regular files that patterns match, each once.
func (f *Follower) list(patterns []string) []found {
	var all []found
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil { // the configuration was checked
			f.log.Warn("Pattern of trace files is not one", "pattern", pattern, "err", err)
		}
		for _, path := range paths {
			info, err := os.Stat(path)
			if err != nil || !info.Mode().IsRegular() {
				continue // a directory or a pipe, or deleted since
			}
			all = append(all, found{path: path, id: identify(info), size: info.Size(), modified: info.ModTime()})
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return strings.Compare(a.path, b.path) })
	seen := make(map[fileID]bool, len(all))
	return slices.DeleteFunc(all, func(one found) bool {
		before := seen[one.id]
		seen[one.id] = true
		return before
	})
}

func identify(info fs.FileInfo) fileID {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}
	}
	return fileID{device: uint64(stat.Dev), inode: stat.Ino} //nolint:unconvert,nolintlint // Dev is narrower on some systems
}

// directoriesOf returns the directories that a pattern looks into.
func directoriesOf(pattern string) []string {
	dir := filepath.Dir(pattern)
	if !strings.ContainsAny(dir, `*?[\`) {
		return []string{dir}
	}
	dirs, _ := filepath.Glob(dir)
	return dirs
}

func (f *Follower) byID() map[fileID]*file {
	known := make(map[fileID]*file, len(f.files))
	for _, one := range f.files {
		known[one.id] = one
	}
	return known
}

// add follows a file from its beginning.
func (f *Follower) add(there found, now time.Time) *file {
	one := &file{path: there.path, place: placeOf(there.path), id: there.id, size: there.size, tried: -1, grew: there.modified}
	if now.Before(one.grew) { // by another clock
		one.grew = now
	}
	f.files = append(f.files, one)
	f.state.dirty = true
	return one
}

// look finds out which files there are, what became of them and which are gone.
func (f *Follower) look(now time.Time) {
	listed := f.list(f.patterns)
	if excess := len(listed) - maxFiles; excess > 0 {
		slices.SortStableFunc(listed, func(a, b found) int { return b.modified.Compare(a.modified) })
		listed = listed[:maxFiles]
		slices.SortStableFunc(listed, func(a, b found) int { return strings.Compare(a.path, b.path) })
		for ; f.excess < excess; f.excess++ {
			if f.excess == 0 {
				f.log.Warn("More trace files than are followed, the oldest are left alone: delete those of old producers", "limit", maxFiles, "files", maxFiles+excess)
			}
			f.totals.fail(FileLimit)
		}
	}
	known := f.byID()
	for _, one := range f.files {
		one.missed++
	}
	for _, there := range listed {
		one := known[there.id]
		if one == nil {
			f.add(there, now)
			continue
		}
		if !one.isStill(there) { // the system gave the number of a deleted file to a new one
			one.missed = goneAfter
			one.id = fileID{}
			f.add(there, now)
			continue
		}
		one.missed = 0
		one.path = there.path
		if there.size < one.cursor.offset || one.refused && there.size < one.size {
			f.log.Info("Trace file shrank, it is read anew", "file", one.path)
			one.restart()
		}
		one.resize(there.size, now)
	}
	for _, one := range f.files {
		if one.missed > 0 && one.file != nil { // its writer may still write
			if info, err := one.file.Stat(); err == nil {
				one.resize(info.Size(), now)
			}
		}
	}
	slices.SortStableFunc(f.files, func(a, b *file) int { return a.place.compare(b.place) })
}

// read reads what is there, a limited amount, and reports whether there is more.
func (f *Follower) read(ctx context.Context, now time.Time) bool {
	more := false
	for start := 0; start < len(f.files); {
		end := start + 1
		for end < len(f.files) && f.files[end].place.series == f.files[start].place.series {
			end++
		}
		more = f.readSeries(ctx, f.files[start:end], now) || more
		start = end
	}
	f.files = slices.DeleteFunc(f.files, func(one *file) bool { return one.dropped })
	return more && ctx.Err() == nil
}

// readSeries reads the segments of one producer, in order: a later one only when nothing more is to be had of those
// before it.
func (f *Follower) readSeries(ctx context.Context, series []*file, now time.Time) bool {
	budget := int64(turn)
	for i, one := range series {
		superseded, gone := i < len(series)-1, one.missed >= goneAfter
		if gone && one.file == nil {
			f.drop(one)
			continue
		}
		f.readFile(ctx, one, &budget)
		if budget <= 0 {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		quiet := now.Sub(one.grew)
		if !one.settled() {
			if quiet < f.options.Timing.Grace || !superseded && !gone && quiet < f.options.Timing.Abandon {
				return false // later segments wait, too: their rows come after this one's
			}
			f.giveUp(ctx, one, &budget)
			if budget <= 0 {
				return true
			}
		}
		switch {
		case gone && quiet >= f.options.Timing.Grace:
			f.drop(one)
		case !gone && (superseded || quiet >= f.options.Timing.Abandon):
			one.close()
		}
	}
	return false
}

// drop forgets a file that is gone.
func (f *Follower) drop(one *file) {
	unread := one.size - one.cursor.offset
	if one.file == nil && !one.refused && !one.cursor.searching && unread > 0 {
		f.totals.fail(FileVanished)
		f.log.Warn("Trace file was deleted before it was read: have more segments kept", "file", one.path, "bytes", unread)
	}
	one.close()
	one.dropped = true
	f.state.dirty = true
}
