package scrape

import (
	"context"
	"net"
	"sync"
	"time"
)

// keepAlive is how often an idle connection is probed.
const keepAlive = 30 * time.Second

// openConnections are the open connections of a client by the address that was dialled.
// A transport closes idle connections only all at once, and those of targets that
// went must not wait for their timeout: where targets come and go, they would pile up.
type openConnections struct {
	dialer net.Dialer

	mu   sync.Mutex
	open map[string]map[*connection]struct{}
}

// connection is one that its connections know of.
type connection struct {
	net.Conn

	address string
	of      *openConnections
}

func newOpenConnections() *openConnections {
	return &openConnections{dialer: net.Dialer{KeepAlive: keepAlive}, open: map[string]map[*connection]struct{}{}}
}

// dial is the transport's DialContext.
func (c *openConnections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	tracked := &connection{Conn: conn, address: address, of: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[address] == nil {
		c.open[address] = map[*connection]struct{}{}
	}
	c.open[address][tracked] = struct{}{}
	return tracked, nil
}

// Close closes the connection and forgets it.
func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open[c.address], c)
	if len(c.of.open[c.address]) == 0 {
		delete(c.of.open, c.address)
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// close closes the connections to an address.
func (c *openConnections) close(address string) {
	c.mu.Lock()
	var open []*connection
	for conn := range c.open[address] {
		open = append(open, conn)
	}
	c.mu.Unlock()
	for _, conn := range open {
		_ = conn.Close()
	}
}
