package formats

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Options says how a record becomes a row. It is frozen in the plan.
type Options struct {
	Value string `json:"value"` // json | csv | text | raw | avro | protobuf
	// Pattern is a regular expression that all of a text must match; its named
	// groups are the fields. "" = the text is one column.
	Pattern    string   `json:"pattern,omitempty"`
	Columns    []string `json:"columns,omitempty"`
	Delimiter  string   `json:"delimiter,omitempty"` // of csv, one ASCII character; "" = comma
	SkipHeader bool     `json:"skip_header,omitempty"`
	// Schema is what avro and protobuf are read as; nil until the planner has asked the registry.
	Schema   *WireSchema  `json:"schema,omitempty"`
	Message  string       `json:"message,omitempty"` // of protobuf, a full name; "" = the first of the file
	Framing  string       `json:"framing,omitempty"` // FramingNone | FramingConfluent
	Registry *Registry    `json:"registry,omitempty"`
	Writers  []WireSchema `json:"writers,omitempty"` // what framed values were written with, by id

	Key        string            `json:"key,omitempty"`        // what _key holds: bytes ("") | string | json
	Tombstones string            `json:"tombstones,omitempty"` // skip ("") | row
	OnBad      string            `json:"on_bad,omitempty"`     // quarantine
	Time       TimeOptions       `json:"time"`
	Include    []string          `json:"include,omitempty"` // dotted key paths, * matches any run; empty = all
	Exclude    []string          `json:"exclude,omitempty"`
	Rename     map[string]string `json:"rename,omitempty"` // dotted key path → column name
	Hash       []string          `json:"hash,omitempty"`   // columns whose values are replaced by their sha256
	Metadata   []string          `json:"metadata,omitempty"`
	// Reserved are the path keys of the layout (dt, hr): no column takes their name.
	Reserved []string `json:"reserved,omitempty"`
}

// TimeOptions says where a row's event time is found and how it is read.
type TimeOptions struct {
	Field         []string `json:"field"`                    // key path; ["_timestamp"] = the record's own
	Format        string   `json:"format,omitempty"`         // rfc3339 | epoch_s | epoch_ms | epoch_us | epoch_ns | strptime letters
	Zone          string   `json:"zone,omitempty"`           // of text without a zone; "" = such rfc3339 text is bad, other text is UTC
	PlausibleFrom *Instant `json:"plausible_from,omitempty"` // nil = no limit; 0, the epoch, is one
	PlausibleTo   *Instant `json:"plausible_to,omitempty"`   // exclusive
}

// fromRecord says that the event time is the record's own timestamp.
func (t *TimeOptions) fromRecord() bool { return len(t.Field) == 1 && t.Field[0] == "_timestamp" }

// reader prepares the format and the zone.
func (t *TimeOptions) reader() (*timeFormat, error) {
	var zone *time.Location
	if t.Zone != "" {
		var err error
		if zone, _, err = LoadZone(t.Zone); err != nil {
			return nil, fmt.Errorf("time.zone: %w", err)
		}
		if t.Zone == "UTC" {
			zone = time.UTC
		}
	}
	return newTimeFormat(t.Format, zone)
}

// Validate refuses options no decoder could carry out.
func (o *Options) Validate() error {
	oneOf := func(name, value string, allowed ...string) error {
		if slices.Contains(allowed, value) {
			return nil
		}
		return fmt.Errorf("decode.%s: %q is none of %q", name, value, allowed)
	}
	if err := oneOf("value", o.Value, "json", "csv", "text", "raw", "avro", "protobuf"); err != nil {
		return err
	}
	if err := oneOf("key", o.Key, "", "bytes", "string", "json"); err != nil {
		return err
	}
	if err := oneOf("tombstones", o.Tombstones, "", "skip", "row"); err != nil {
		return err
	}
	if err := oneOf("on_bad", o.OnBad, "", "quarantine"); err != nil {
		return err
	}
	for _, name := range o.Metadata {
		if err := oneOf("metadata", name, MetadataColumns[:]...); err != nil {
			return err
		}
	}
	for from, to := range o.Rename {
		if to == "" {
			return fmt.Errorf("columns.rename: %q has no new name", from)
		}
	}
	if err := o.validatePattern(); err != nil {
		return err
	}
	if err := o.validateCSV(); err != nil {
		return err
	}
	if err := o.validateWire(); err != nil {
		return err
	}
	return o.validateTime()
}

// wire says that values are of a format with a schema of its own.
func (o *Options) wire() bool { return o.Value == "avro" || o.Value == "protobuf" }

// Unresolved says that the registry has yet to be asked for the schema.
func (o *Options) Unresolved() bool { return o.wire() && o.Schema == nil && o.Registry != nil }

func (o *Options) validateWire() error {
	switch {
	case o.Framing != FramingNone && o.Framing != FramingConfluent:
		return fmt.Errorf("decode.framing: %q is not %q", o.Framing, FramingConfluent)
	case !o.wire():
		if o.Schema != nil || o.Framing != "" || o.Registry != nil || len(o.Writers) > 0 {
			return fmt.Errorf("decode.schema and registry are for value: avro and protobuf, not %s", o.Value)
		}
	case o.Schema == nil && o.Registry == nil:
		return fmt.Errorf("decode.schema: %s needs a schema: schema: FILE or registry: URL", o.Value)
	case o.Schema != nil && len(o.Schema.Text) == 0:
		return fmt.Errorf("decode.schema: is empty")
	case o.framed() != (o.Registry != nil):
		return fmt.Errorf("decode.framing: values are framed where there is a registry, and only there")
	}
	return nil
}

func (o *Options) validatePattern() error {
	switch {
	case o.Pattern == "":
		return nil
	case o.Value != "text":
		return fmt.Errorf("decode.pattern: is for value: text, not %s", o.Value)
	}
	_, err := compilePattern(o.Pattern)
	return err
}

// fieldNames are the fields of CSV, or of a text by its pattern, and the option
// that names them.
func (o *Options) fieldNames() (names []string, from string, err error) {
	if o.Pattern == "" {
		return o.Columns, "decode.columns", nil
	}
	p, err := compilePattern(o.Pattern)
	if err != nil {
		return nil, "", err
	}
	return p.names, "decode.pattern", nil
}

func (o *Options) validateCSV() error {
	if o.Value != "csv" {
		if len(o.Columns) > 0 || o.Delimiter != "" || o.SkipHeader {
			return fmt.Errorf("decode.columns, delimiter and skip_header are for value: csv, not %s", o.Value)
		}
		return nil
	}
	if len(o.Columns) == 0 {
		return fmt.Errorf("decode.columns: csv needs the names of its columns")
	}
	seen := make(map[string]bool, len(o.Columns))
	for _, name := range o.Columns {
		if name == "" || seen[name] {
			return fmt.Errorf("decode.columns: %q is empty or stands twice", name)
		}
		seen[name] = true
	}
	if d := o.Delimiter; len(d) > 1 || d != "" && (d[0] >= 0x80 || d == `"` || d == "\n" || d == "\r") {
		return fmt.Errorf("decode.delimiter: %q is not one ASCII character other than a quote or a line end", d)
	}
	return nil
}

func (o *Options) validateTime() error {
	t := &o.Time
	switch {
	case len(t.Field) == 0:
		return fmt.Errorf("time.field is missing (_timestamp = the record's own time)")
	case t.fromRecord():
	case o.Value == "raw":
		return fmt.Errorf("time.field: value: raw has no fields, only _timestamp")
	case o.Value == "text" && o.Pattern == "":
		return fmt.Errorf("time.field: value: text has no fields without decode.pattern, only _timestamp")
	case o.Value == "csv" || o.Value == "text":
		if names, from, err := o.fieldNames(); err != nil || len(t.Field) != 1 || !slices.Contains(names, t.Field[0]) {
			return cmp.Or(err, fmt.Errorf("time.field: %q is not in %s", t.Field, from))
		}
	}
	if t.PlausibleFrom != nil && t.PlausibleTo != nil && *t.PlausibleTo <= *t.PlausibleFrom {
		return fmt.Errorf("time.plausible: the window is empty")
	}
	if _, err := t.reader(); err != nil {
		return err
	}
	return nil
}
