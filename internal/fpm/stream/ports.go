package stream

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// EphemeralRangeFile is where Linux keeps the range that outbound connections take their ports from.
const EphemeralRangeFile = "/proc/sys/net/ipv4/ip_local_port_range"

// PortRange is an inclusive range of TCP ports.
type PortRange struct{ First, Last int }

func (r PortRange) overlaps(o PortRange) bool { return r.First <= o.Last && o.First <= r.Last }

// String returns the range as "20380-20382", or one port as "20380".
func (r PortRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// ReadEphemeralRange reads a file of the form of EphemeralRangeFile.
func ReadEphemeralRange(path string) (PortRange, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return PortRange{}, fmt.Errorf("ephemeral port range: %w", err)
	}
	fields := strings.Fields(string(text))
	if len(fields) == 2 {
		first, err1 := strconv.ParseUint(fields[0], 10, 16)
		last, err2 := strconv.ParseUint(fields[1], 10, 16)
		if err1 == nil && err2 == nil && first <= last {
			return PortRange{int(first), int(last)}, nil
		}
	}
	return PortRange{}, fmt.Errorf("ephemeral port range: %s holds %.64q instead of two ports", path, text)
}

// Block is a stream as configured: the base address of an engine and the number of its ranks.
type Block struct {
	Address          string
	DataParallelSize int
}

// ports returns the host and the ports that the engine occupies there. With more than one rank, rank 0 also binds the
// port after the last rank's while the engine benchmarks itself (Dynamo's FPM reference). ok is false for other
// addresses than tcp.
func (b Block) ports() (host string, ports PortRange, ok bool) {
	network, dial, err := ParseAddress(b.Address)
	if err != nil || network != "tcp" {
		return "", PortRange{}, false
	}
	host, port, _ := net.SplitHostPort(dial)
	first, _ := strconv.Atoi(port)
	ports = PortRange{first, first}
	if b.DataParallelSize > 1 {
		ports.Last = first + b.DataParallelSize
	}
	return host, ports, true
}

// LintPorts returns a warning for each block of ports that reaches into another one's on the same host, or into the
// ephemeral range, which is this host's and the publishers' only if they are set alike. A zero range is not looked at.
func LintPorts(blocks []Block, ephemeral PortRange) (warnings []string) {
	for i, b := range blocks {
		host, ports, ok := b.ports()
		if !ok {
			continue
		}
		if ephemeral != (PortRange{}) && ports.overlaps(ephemeral) {
			warnings = append(warnings, fmt.Sprintf("forward-pass metrics of %q: ports %v overlap the ephemeral port range %v; "+
				"an outbound connection of the publisher's host can take one of them first, and binding then fails now and then, under load; "+
				"set DYN_FORWARDPASS_METRIC_PORT to a base below %d", b.Address, ports, ephemeral, max(ephemeral.First-ports.Last+ports.First, 1)))
		}
		for _, other := range blocks[:i] {
			otherHost, otherPorts, ok := other.ports()
			if ok && otherHost == host && ports.overlaps(otherPorts) {
				warnings = append(warnings, fmt.Sprintf("forward-pass metrics of %q: ports %v overlap ports %v of %q; "+
					"an engine of more than one rank occupies the port after its last rank's, too; set DYN_FORWARDPASS_METRIC_PORT of one of them to another base",
					b.Address, ports, otherPorts, other.Address))
			}
		}
	}
	return warnings
}
