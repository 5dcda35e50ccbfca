package formats

// Options says how a record becomes a row. It is frozen in the plan.
type Options struct {
	Value      string            `json:"value"` // json | csv | text | raw
	Columns    []string          `json:"columns,omitempty"`
	Delimiter  string            `json:"delimiter,omitempty"`
	SkipHeader bool              `json:"skip_header,omitempty"`
	Key        string            `json:"key,omitempty"`
	Tombstones string            `json:"tombstones,omitempty"` // skip | row
	OnBad      string            `json:"on_bad,omitempty"`     // quarantine
	Time       TimeOptions       `json:"time"`
	Include    []string          `json:"include,omitempty"`
	Exclude    []string          `json:"exclude,omitempty"`
	Rename     map[string]string `json:"rename,omitempty"`
	Hash       []string          `json:"hash,omitempty"`
	Metadata   []string          `json:"metadata,omitempty"`
	// Reserved are the path keys of the layout (dt, hr): no column takes their name.
	Reserved []string `json:"reserved,omitempty"`
}

// TimeOptions says where a row's event time is found and how it is read.
type TimeOptions struct {
	Field         []string `json:"field"`            // key path; ["_timestamp"] = the record's own
	Format        string   `json:"format,omitempty"` // rfc3339 | epoch_s | epoch_ms | epoch_us | epoch_ns | strptime letters
	Zone          string   `json:"zone,omitempty"`   // of text without a zone
	PlausibleFrom Instant  `json:"plausible_from,omitempty"`
	PlausibleTo   Instant  `json:"plausible_to,omitempty"`
}

// Validate refuses options no decoder could carry out.
func (o *Options) Validate() error { panic("unwritten") }

// Base is the schema a data set starts with: metadata columns, then the
// declared columns (nil = none: every CSV column as a string, the value column
// of text and raw, and inference for JSON), with include, exclude, rename and
// hash applied.
func (o *Options) Base(declared *Schema) (*Schema, error) { panic("unwritten") }
