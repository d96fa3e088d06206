package exporter

import "github.com/omni-exporter/omni_exporter/internal/fpm/stream"

// state returns what tells how the connections to publishers are, or nil if forward
// passes are off.
func (f *forwardPasses) state() func() []stream.EndpointState {
	if f == nil {
		return nil
	}
	return f.streams.State
}
