package stream

import (
	"encoding/binary"
	"strings"
)

// socketType is the property of READY that says what a peer is, in lower case.
const socketType = "socket-type"

// readyFrame is a READY command of one property, as libzmq spells it.
func readyFrame(kind string) []byte {
	body := append([]byte("\x05READY\x0bSocket-Type\x00\x00\x00"), byte(len(kind)))
	body = append(body, kind...)
	return append([]byte{flagCommand, byte(len(body))}, body...)
}

// parseReady reads the body of a READY command: properties of a short name and a long value (RFC 23). Names are
// returned in lower case, they compare without regard to it.
func parseReady(body []byte) (map[string]string, error) {
	name, rest, ok := cutShort(body)
	if !ok {
		return nil, fault(ReasonHandshake, "malformed command after the greeting")
	}
	if name == "ERROR" {
		text, _, _ := cutShort(rest)
		return nil, fault(ReasonHandshake, "the peer refuses us: %.64q", text)
	}
	if name != "READY" {
		return nil, fault(ReasonHandshake, "command %.16q instead of READY", name)
	}
	properties := make(map[string]string)
	for len(rest) > 0 {
		key, after, ok := cutShort(rest)
		if !ok || key == "" || len(after) < 4 {
			return nil, fault(ReasonHandshake, "READY with a malformed property")
		}
		size := binary.BigEndian.Uint32(after)
		after = after[4:]
		if uint64(size) > uint64(len(after)) {
			return nil, fault(ReasonHandshake, "READY with a property beyond its end")
		}
		properties[strings.ToLower(key)] = string(after[:size])
		rest = after[size:]
	}
	return properties, nil
}

// cutShort splits off a text that is preceded by its length in one byte.
func cutShort(b []byte) (text string, rest []byte, ok bool) {
	if len(b) == 0 || int(b[0]) > len(b)-1 {
		return "", nil, false
	}
	n := int(b[0])
	return string(b[1 : 1+n]), b[1+n:], true
}
