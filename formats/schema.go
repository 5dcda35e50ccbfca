package formats

// Kind is the shape of a column or of a part of one.
type Kind uint8

// The kinds a schema can name; Parquet's logical types follow from them.
const (
	Bool Kind = iota + 1
	Int32
	Int64
	Float
	Double
	String
	Bytes
	Date      // days since 1970-01-01
	UUID      // 16 bytes
	JSON      // JSON text
	Timestamp // Unit since the epoch; Local = without a zone
	Decimal   // Precision, Scale
	List      // Elem
	Map       // string keys, Elem values
	Struct    // Fields
)

// TimeUnit is the resolution of a Timestamp.
type TimeUnit uint8

// Resolutions of a timestamp.
const (
	Millis TimeUnit = iota
	Micros
	Nanos
)

// Type is the type of a column or of a part of one. Its text form, the one job
// files and plans hold, is ParseType's grammar: int64, timestamp_us_local,
// decimal(10,2), list<struct<a:int64>>, map<string>.
type Type struct {
	Kind             Kind
	Unit             TimeUnit // of a Timestamp
	Local            bool     // a Timestamp without a zone
	Precision, Scale int32    // of a Decimal
	Elem             *Type    // of a List or Map
	Fields           []Field  // of a Struct
}

// Field is one column, or one member of a Struct.
type Field struct {
	Name string   `json:"name"`
	From []string `json:"from,omitempty"` // key path in the record; empty = [Name]
	Type *Type    `json:"type"`
}

// Schema is the column list of a data set, in file order. Metadata columns
// (names that start with "_", see MetadataColumns) stand first and take their
// value from the message, not from the decoded record.
type Schema struct {
	Fields []Field `json:"fields"`
	// Inferred says that new paths of the records may become new columns.
	Inferred bool `json:"inferred"`
}
