package protobuf

// Kind is how a field's value lies on the wire and what it means.
type Kind uint8

// The kinds of the language; an enum's values are Enum, groups are Messages.
const (
	Bool Kind = iota + 1
	Int32
	Sint32
	Sfixed32
	Uint32
	Fixed32
	Int64
	Sint64
	Sfixed64
	Uint64
	Fixed64
	Float
	Double
	String
	Bytes
	Enum
	Submessage
)

// String is the kind as schemas call it.
func (k Kind) String() string {
	return [...]string{
		"", "bool", "int32", "sint32", "sfixed32", "uint32", "fixed32", "int64", "sint64", "sfixed64", "uint64", "fixed64",
		"float", "double", "string", "bytes", "enum", "message",
	}[k]
}

// The well-known messages that have a meaning of their own.
const (
	Timestamp = "google.protobuf.Timestamp"
	Struct    = "google.protobuf.Struct"
	Value     = "google.protobuf.Value"
	ListValue = "google.protobuf.ListValue"
)

// Message is a message type. A recursive one makes a cycle of pointers.
type Message struct {
	Name   string // full name
	Fields []Field
	json   func(b []byte) ([]byte, error)
}

// Field is a field of a message.
type Field struct {
	Number   int32
	Name     string
	Kind     Kind
	Repeated bool
	Map      bool     // Message is its entry: key 1 and value 2
	Presence bool     // an absent value is no zero value
	Oneof    int      // 1, 2, … for the members of each oneof; 0 = none
	Message  *Message // of a Submessage
	Symbols  map[int32]string
}

// JSON is the canonical JSON of a message's bytes, without spaces.
func (m *Message) JSON(b []byte) ([]byte, error) { return m.json(b) }

// Wrapper says that the message is a well-known wrapper of one value.
func (m *Message) Wrapper() bool {
	switch m.Name {
	case "google.protobuf.DoubleValue", "google.protobuf.FloatValue", "google.protobuf.Int64Value", "google.protobuf.UInt64Value",
		"google.protobuf.Int32Value", "google.protobuf.UInt32Value", "google.protobuf.BoolValue", "google.protobuf.StringValue",
		"google.protobuf.BytesValue":
		return len(m.Fields) == 1
	}
	return false
}

// Free says that the message is JSON by its nature.
func (m *Message) Free() bool { return m.Name == Struct || m.Name == Value || m.Name == ListValue }
