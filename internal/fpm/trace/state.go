package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/google/renameio/v2"
)

// stateVersion is that of the state file. Files of another version are not used.
const stateVersion = 1

// savedState is the content of a state file.
type savedState struct {
	Version int          `json:"version"`
	Files   []savedPlace `json:"files"`
}

// savedPlace is how far a file was read.
type savedPlace struct {
	Path   string `json:"path"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	// HeadSize bytes at the beginning of the file have the CRC-32 HeadSum: numbers of deleted files come again.
	HeadSize  int    `json:"head_size"`
	HeadSum   uint32 `json:"head_crc32"`
	Offset    int64  `json:"offset"`
	Searching bool   `json:"searching,omitempty"`
}

// stateFile keeps how far files were read across restarts. One without a path does nothing.
type stateFile struct {
	path    string
	log     *slog.Logger
	dirty   bool
	failing bool
	saved   time.Time
}

// load returns the saved places by path, and whether there was a state to go on from.
func (s *stateFile) load(path string, log *slog.Logger) (map[string]*savedPlace, bool) {
	s.path, s.log = path, log
	if path == "" {
		return nil, false
	}
	s.dirty = true
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	var state savedState
	if err == nil {
		err = json.Unmarshal(data, &state)
	}
	if err == nil && state.Version != stateVersion {
		err = fmt.Errorf("version %d is not %d", state.Version, stateVersion)
	}
	if err != nil {
		s.failing = true
		log.Warn("State of trace files cannot be used, they are followed as on a first start", "file", path, "err", err)
		return nil, false
	}
	places := make(map[string]*savedPlace, len(state.Files))
	for i := range state.Files {
		places[state.Files[i].Path] = &state.Files[i]
	}
	return places, true
}

// resume returns where to go on in a file, and false when it is not the one whose place was saved.
func (p *savedPlace) resume(there found) (cursor, bool) {
	if p == nil || there.id != (fileID{p.Device, p.Inode}) || p.Offset < 0 || there.size < p.Offset || p.HeadSize < 0 || p.HeadSize > headSize {
		return cursor{}, false
	}
	opened, err := os.Open(there.path)
	if err != nil {
		return cursor{}, false
	}
	defer opened.Close()
	if head := readHead(opened, p.HeadSize); len(head) != p.HeadSize || crc32.ChecksumIEEE(head) != p.HeadSum {
		return cursor{}, false
	}
	return cursor{offset: p.Offset, searching: p.Searching}, true
}

// save writes the state if there is news, at once or when the last time is long enough ago. A failure is logged once.
func (s *stateFile) save(f *Follower, now bool) {
	if s.path == "" || !s.dirty || !now && time.Since(s.saved) < f.options.Timing.Save {
		return
	}
	s.saved, s.dirty = time.Now(), false
	state := savedState{Version: stateVersion, Files: make([]savedPlace, 0, len(f.files))}
	for _, one := range f.files {
		state.Files = append(state.Files, savedPlace{
			Path: one.path, Device: one.id.device, Inode: one.id.inode,
			HeadSize: len(one.head), HeadSum: crc32.ChecksumIEEE(one.head),
			Offset: one.cursor.offset, Searching: one.cursor.searching,
		})
	}
	data, err := json.Marshal(state)
	if err == nil {
		err = renameio.WriteFile(s.path, data, 0o644)
	}
	if err != nil && !s.failing {
		s.log.Warn("State of trace files cannot be saved, a restart will follow them from their end", "file", s.path, "err", err)
	}
	s.failing = err != nil
	s.dirty = s.dirty || err != nil
}
