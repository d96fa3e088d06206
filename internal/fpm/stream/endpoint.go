// Package stream subscribes to the ZMQ publishers of forward-pass metrics: one supervised connection per
// data-parallel rank, which reconnects for ever and which nothing that a peer sends can crash, block or bloat.
//
// The wire format is ZMTP 3 as spoken by libzmq; zmq4.Open does the handshake and the framing over a connection that
// is dialled, timed and limited here. Package zmq4's own sockets are not used: they trust their peer.
package stream

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// DefaultPort is where rank 0 publishes unless DYN_FORWARDPASS_METRIC_PORT says otherwise (Dynamo's FPM reference).
const DefaultPort = 20380

// MaxDataParallelSize bounds the ranks of one engine, and so the connections that one line of configuration opens.
const MaxDataParallelSize = 4096

// maxIPCPath is the length of sun_path in Linux's struct sockaddr_un, less the terminating zero.
const maxIPCPath = 107

// Endpoint is one rank's publisher. It is comparable.
type Endpoint struct {
	// Address is "tcp://host:port" or "ipc://path".
	Address string
	// Rank is the data-parallel rank that should be publishing there, or fpm.UnknownRank.
	Rank   int
	Labels fpm.Labels
}

// ParseAddress splits an address into a network ("tcp", "unix") and what to dial there. Its errors name the address
// and the remedy.
func ParseAddress(address string) (network, dial string, err error) {
	scheme, rest, found := strings.Cut(address, "://")
	switch {
	case !found:
		return "", "", fmt.Errorf("endpoint %q: needs a scheme, as in tcp://host:%d or ipc:///path", address, DefaultPort)
	case scheme == "ipc":
		if rest == "" || len(rest) > maxIPCPath || strings.ContainsAny(rest, "*\x00") {
			return "", "", fmt.Errorf("endpoint %q: needs the path of a socket, at most %d bytes long", address, maxIPCPath)
		}
		return "unix", rest, nil
	case scheme != "tcp":
		return "", "", fmt.Errorf("endpoint %q: scheme %q is not supported, use tcp:// or ipc://", address, scheme)
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		return "", "", fmt.Errorf("endpoint %q: needs host and port, as in tcp://10.0.0.5:%d", address, DefaultPort)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", "", fmt.Errorf("endpoint %q: %q is no port, use 1 to 65535", address, port)
	}
	if host == "" || strings.ContainsAny(host, "*;/@ ") {
		return "", "", fmt.Errorf("endpoint %q: %q is no host to connect to, name the publisher's address", address, host)
	}
	return "tcp", rest, nil
}

// ExpandRanks returns the endpoints of an engine's ranks: ports base, base+1, ... as Dynamo and vLLM bind them, or
// paths base.0, base.1, ... as SGLang does. A size of 0 or 1 leaves the address alone, and since a lone endpoint may
// be any rank of a larger engine, its rank is unknown.
func ExpandRanks(base Endpoint, dataParallelSize int) ([]Endpoint, error) {
	network, dial, err := ParseAddress(base.Address)
	if err != nil {
		return nil, err
	}
	if dataParallelSize < 0 || dataParallelSize > MaxDataParallelSize {
		return nil, fmt.Errorf("endpoint %q: data_parallel_size %d is not between 1 and %d", base.Address, dataParallelSize, MaxDataParallelSize)
	}
	if dataParallelSize <= 1 {
		base.Rank = fpm.UnknownRank
		return []Endpoint{base}, nil
	}
	out := make([]Endpoint, dataParallelSize)
	for rank := range out {
		out[rank] = Endpoint{Rank: rank, Labels: base.Labels}
		if network == "unix" {
			out[rank].Address = base.Address + "." + strconv.Itoa(rank)
			if _, _, err := ParseAddress(out[rank].Address); err != nil {
				return nil, err
			}
			continue
		}
		host, port, _ := net.SplitHostPort(dial)
		first, _ := strconv.Atoi(port)
		if first+rank > 65535 {
			return nil, fmt.Errorf("endpoint %q: data_parallel_size %d goes beyond port 65535, use a lower base port", base.Address, dataParallelSize)
		}
		out[rank].Address = "tcp://" + net.JoinHostPort(host, strconv.Itoa(first+rank))
	}
	return out, nil
}

// check reports every endpoint that cannot be connected to or comes twice, and returns the others in order.
func check(endpoints []Endpoint) (good []Endpoint, err error) {
	seen := make(map[string]bool, len(endpoints))
	var errs []error
	for _, e := range endpoints {
		if _, _, err := ParseAddress(e.Address); err != nil {
			errs = append(errs, err)
			continue
		}
		if seen[e.Address] {
			errs = append(errs, fmt.Errorf("endpoint %q: listed twice, the first counts; each rank needs its own port or path", e.Address))
			continue
		}
		seen[e.Address] = true
		good = append(good, e)
	}
	return good, errors.Join(errs...)
}
