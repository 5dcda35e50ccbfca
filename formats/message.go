// Package formats turns the bytes of a record into columns, and columns into
// the bytes of a file. It does not know where records come from or where files
// go.
//
// A Decoder lays each record over Columns: per leaf of the Schema dense values
// with definition and repetition levels. JSON is read by a scanner that expects
// the schema's keys (json_fast.go); whatever surprises it is read again by a
// full decoder (json_tree.go, json_shred.go), which alone says what a record
// means. Inference looks at records without a schema; its Report joins with
// others in any order, and Extend makes columns of it.
//
// What others keep for ever has one form each, held by golden files: the JSON
// of Schema, Options and Report (their tags; a Type is text, {"list":T},
// {"map":T} or {"struct":[Field]}), the Digest ("sawlog-digest-1", digest.go),
// and the hash of a zone's data (the first 8 bytes, in hex, of the sha256 of
// its TZif file in zoneinfo.zip).
package formats

import "fmt"

// Message is one record of a log as a decoder sees it. Its slices belong to
// the caller and are valid only during the call.
type Message struct {
	Topic     string
	Partition int32
	Offset    int64
	Timestamp int64 // milliseconds since the epoch; -1 = none
	Key       []byte
	Value     []byte // nil = tombstone
	Headers   []Header
}

// Header is one header of a Message; a nil Value is null, not empty.
type Header struct {
	Key   string
	Value []byte
}

// Instant is an event time in microseconds since the epoch, floored.
type Instant int64

// Reason says why a record is bad; it is the enum of the quarantine file.
type Reason string

// The reasons a record goes to quarantine.
const (
	BadSyntax  Reason = "syntax"      // the value does not parse
	BadType    Reason = "type"        // a value does not fit its column's type
	BadFields  Reason = "fields"      // too few or too many CSV fields
	BadPattern Reason = "pattern"     // a text does not match the pattern
	BadTime    Reason = "time"        // event time missing or unreadable
	BadFolder  Reason = "folder"      // a value is too long to name a folder
	BadRange   Reason = "implausible" // event time outside the plausibility window
	BadNumber  Reason = "number"      // a number no type can hold, such as 1e400
	BadTooDeep Reason = "depth"
	BadFraming Reason = "framing" // no byte 0 and schema id before the value
	BadSchema  Reason = "schema"  // the schema it names is unknown or can't be read
)

// BadRecord is the error of a record that goes to quarantine.
type BadRecord struct {
	Reason Reason
	Detail string // names the column or byte position
}

func (e *BadRecord) Error() string { return fmt.Sprintf("bad record (%s): %s", e.Reason, e.Detail) }

// Misfit is the error of a record with a value that its column can't hold: a
// BadRecord of reason type that says how the records drift from the schema.
type Misfit struct {
	BadRecord
	Column string // dotted names
	Type   string // of the column
	Seen   string // what kind of value it was
}

// Unwrap gives the BadRecord.
func (e *Misfit) Unwrap() error { return &e.BadRecord }

func newMisfit(s *sink, seen, value string) *Misfit {
	return &Misfit{
		BadRecord: BadRecord{BadType, fmt.Sprintf("column %q is %s and can't hold %s", s.name, s.t, value)},
		Column:    s.name, Type: s.t.String(), Seen: seen,
	}
}
