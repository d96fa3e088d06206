package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// process is a server in a process of its own, so that its processor time and
// memory can be told apart from those of the rest.
type process struct {
	cmd       *exec.Cmd
	stdin     io.Closer
	addresses []string
}

// startRole starts this program in a role, and returns when it has printed where it
// listens.
func startRole(role string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.Command(self, append([]string{role}, args...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	p := &process{cmd: cmd, stdin: in}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "" {
		p.addresses = append(p.addresses, lines.Text())
	}
	if err := lines.Err(); err != nil {
		p.stop()
		return nil, fmt.Errorf("read where %s listens: %w", role, err)
	}
	if len(p.addresses) == 0 {
		p.stop()
		return nil, fmt.Errorf("%s does not say where it listens", role)
	}
	return p, nil
}

func (p *process) stop() {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Signal(os.Interrupt)
	_ = p.cmd.Wait()
}

// ticks is how many units of processor time Linux counts a second
// (sysconf(_SC_CLK_TCK)), on every architecture that Go runs on.
const ticks = 100

// usage is what a process has used so far.
type usage struct {
	processor time.Duration
	peak      int64 // bytes of memory
}

func (p *process) usage() (usage, error) {
	dir := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return usage{}, fmt.Errorf("read processor time: %w", err)
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	var u usage
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(string(f))
		if err != nil {
			return usage{}, fmt.Errorf("read processor time: %w", err)
		}
		u.processor += time.Duration(n) * time.Second / ticks
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return usage{}, fmt.Errorf("read memory: %w", err)
	}
	for line := range bytes.Lines(status) {
		if value, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			kib, err := strconv.ParseInt(string(bytes.Fields(value)[0]), 10, 64)
			if err != nil {
				return usage{}, fmt.Errorf("read memory: %w", err)
			}
			u.peak = kib << 10
		}
	}
	return u, nil
}
