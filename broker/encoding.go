package broker

import (
	"github.com/twmb/franz-go/pkg/kbin"

	"sawlog/offsets"
)

// The forms that Produce and Fetch, written by hand, share.

// readString reads a nullable string without copying it; nil is null.
func readString(b *kbin.Reader, flexible bool) []byte {
	n := 0
	if flexible {
		n = int(b.Uvarint()) - 1
	} else {
		n = int(b.Int16())
	}
	if n < 0 {
		return nil
	}
	return b.Span(n)
}

func readArrayLen(b *kbin.Reader, flexible bool) int32 {
	if flexible {
		return int32(b.Uvarint()) - 1
	}
	return b.Int32()
}

func appendArrayLen(dst []byte, n int, flexible bool) []byte {
	if flexible {
		return kbin.AppendCompactArrayLen(dst, n)
	}
	return kbin.AppendArrayLen(dst, n)
}

func appendName(dst, name []byte, flexible bool) []byte {
	if flexible {
		dst = kbin.AppendUvarint(dst, uint32(len(name))+1)
	} else {
		dst = kbin.AppendInt16(dst, int16(len(name)))
	}
	return append(dst, name...)
}

// appendLeaderTag writes the tagged field of a partition's leader (KIP-951).
func appendLeaderTag(dst []byte, tag byte, leader offsets.BrokerID, epoch offsets.Epoch) []byte {
	dst = append(dst, tag, 9) // 9 bytes follow
	dst = kbin.AppendInt32(dst, int32(leader))
	dst = kbin.AppendInt32(dst, int32(epoch))
	return append(dst, 0)
}

// appendEndpoints ends a flexible reply: with the brokers' addresses as tagged
// field 0 when the reply names leaders, and with none else.
func (b *Broker) appendEndpoints(dst []byte, named bool) []byte {
	if !named {
		return append(dst, 0)
	}
	im := b.controller.Image()
	var nodes []byte
	count := 0
	for i := range im.Brokers {
		br := &im.Brokers[i]
		host, port, ok := b.endpoint(br)
		if !ok || br.Fenced {
			continue
		}
		count++
		nodes = kbin.AppendInt32(nodes, int32(br.ID))
		nodes = kbin.AppendCompactString(nodes, host)
		nodes = kbin.AppendInt32(nodes, port)
		nodes = kbin.AppendCompactNullableString(nodes, optional(br.Rack))
		nodes = append(nodes, 0)
	}
	if count == 0 {
		return append(dst, 0)
	}
	head := kbin.AppendCompactArrayLen(nil, count)
	dst = append(dst, 1, 0)
	dst = kbin.AppendUvarint(dst, uint32(len(head)+len(nodes)))
	dst = append(dst, head...)
	return append(dst, nodes...)
}
