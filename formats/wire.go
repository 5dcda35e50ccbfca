package formats

import (
	"encoding/binary"
	"fmt"
)

// WireSchema is the schema that bytes of a record were written with. The plan
// holds all of it, so that a load asks no registry.
type WireSchema struct {
	ID uint32 `json:"id,omitempty"` // in the registry; 0 = a file's
	// Text is, for Avro, the JSON of the schemas it refers to and last its own;
	// for Protobuf one FileDescriptorSet in base64, imports first.
	Text []string `json:"text,omitempty"`
	// Unknown says that the registry has no schema of that id that could be read,
	// and why: records that name it are bad.
	Unknown string `json:"unknown,omitempty"`
}

// Framings of a value.
const (
	// FramingNone: the value is the message.
	FramingNone = ""
	// FramingConfluent: a byte 0, the schema's id in four bytes, big-endian, for
	// Protobuf the indexes of the message in its file, then the message. It is
	// never guessed from the bytes: a message may start with 0 too.
	FramingConfluent = "confluent"
)

// frameHeader is the length of magic byte and id.
const frameHeader = 5

// schemaID is the id in the header of a framed value.
func schemaID(value []byte) (uint32, error) {
	switch {
	case len(value) < frameHeader:
		return 0, &BadRecord{BadFraming, fmt.Sprintf("%d bytes hold no byte 0 and 4 bytes of schema id", len(value))}
	case value[0] != 0:
		return 0, &BadRecord{BadFraming, fmt.Sprintf("the value starts with byte %#02x, not with 0 and a schema id", value[0])}
	}
	return binary.BigEndian.Uint32(value[1:]), nil
}

// framed says that values name their schema.
func (o *Options) framed() bool { return o.Framing == FramingConfluent }

// writer is the frozen schema of an id; nil = the plan has not met it.
func (o *Options) writer(id uint32) *WireSchema {
	for i := range o.Writers {
		if o.Writers[i].ID == id {
			return &o.Writers[i]
		}
	}
	return nil
}
