package exporter

import (
	"net"
	"net/netip"
	"os"
	"strings"
)

// listener is one address that the exporter listens at.
type listener struct {
	host string // "" for all of the host's addresses
	port string
}

// listensAt returns what tells whether a target's host:port is among those that the
// exporter listens at, as far as that can be known without asking a resolver. What it
// does not know, the hop header of scrapes finds out.
func listensAt(addresses []string) func(address string) bool {
	var listeners []listener
	for _, address := range addresses {
		host, port, err := net.SplitHostPort(address)
		if err != nil || port == "0" || port == "" || strings.Contains(host, "/") {
			continue
		}
		if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
			host = ""
		}
		listeners = append(listeners, listener{strings.ToLower(host), port})
	}
	names := map[string]bool{"localhost": true}
	if name, err := os.Hostname(); err == nil {
		names[strings.ToLower(name)] = true
	}
	return func(address string) bool {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return false
		}
		host = strings.ToLower(strings.TrimSuffix(host, "."))
		for _, l := range listeners {
			if l.port == port && l.answers(host, names) {
				return true
			}
		}
		return false
	}
}

// answers reports whether the listener is reached at a host.
func (l listener) answers(host string, names map[string]bool) bool {
	if host == l.host {
		return true
	}
	ip, err := netip.ParseAddr(host)
	loopback := host == "localhost" || err == nil && (ip.Unmap().IsLoopback() || ip.IsUnspecified())
	if l.host != "" {
		at, err := netip.ParseAddr(l.host)
		return loopback && (l.host == "localhost" || err == nil && at.IsLoopback())
	}
	return loopback || names[host] || err == nil && isOwn(ip.Unmap())
}

// isOwn reports whether an interface of this host has the address. Interfaces come
// and go, so they are looked at each time.
func isOwn(ip netip.Addr) bool {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Unmap() == ip {
			return true
		}
	}
	return false
}
