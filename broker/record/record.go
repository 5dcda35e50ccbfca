package record

import "sawlog/offsets"

// Header is one header of a record; a nil value is null.
type Header struct {
	Key   []byte
	Value []byte
}

// Record is one record. Nil keys and values are null, empty ones are not.
type Record struct {
	Offset offsets.Offset
	// Timestamp is in milliseconds since 1970, NoTimestamp when unknown.
	Timestamp int64
	Key       []byte
	Value     []byte
	Headers   []Header
}
