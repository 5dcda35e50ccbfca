package formats

import "errors"

// ErrSkip says that a record makes no row by policy: a tombstone or a header.
var ErrSkip = errors.New("record skipped by policy")

// ErrUnknownPath says that a record holds a path the inferred schema has not,
// or names a schema of the registry that the plan has not.
var ErrUnknownPath = errors.New("record holds a path or names a schema that the plan has not")

// Decoder turns records into rows. It is not safe for concurrent use.
type Decoder interface {
	// Time is the event time of a record, without making a row.
	Time(m *Message) (Instant, error)
	// Append adds the record as a row and gives its event time. On an error,
	// *BadRecord, ErrSkip or ErrUnknownPath, the columns are unchanged.
	Append(c *Columns, m *Message) (Instant, error)
	// Notes counts what is worth showing: duplicate_keys, replaced_utf8.
	Notes() map[string]int64
}

// NewDecoder returns the decoder of a schema and options.
func NewDecoder(s *Schema, o Options) (Decoder, error) {
	f, err := newRowFrame(s, o)
	if err != nil {
		return nil, err
	}
	switch o.Value {
	case "json":
		return newJSONDecoder(f)
	case "csv":
		return newCSVDecoder(f)
	case "text":
		if o.Pattern != "" {
			return newPatternDecoder(f)
		}
	case "avro":
		return newAvroDecoder(f)
	case "protobuf":
		return newProtobufDecoder(f)
	}
	return newWholeDecoder(f) // text and raw: Validate knows no other
}
