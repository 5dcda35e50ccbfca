package formats

// Report is what inference saw: mergeable, and the same whatever the order.
type Report struct{}

// Merge returns what a and b saw together; it leaves both alone.
func Merge(a, b *Report) *Report { panic("unwritten") }

// Extend returns base with new columns appended in byte order of their path.
// A nil base means the first inference of a data set.
func (r *Report) Extend(base *Schema, o Options) (*Schema, error) { panic("unwritten") }

// Inference watches records for paths a schema has not.
type Inference struct{}

// NewInference starts from the schema a data set has; nil = none yet.
func NewInference(base *Schema, o Options) *Inference { panic("unwritten") }

// Observe looks at one record; its error is *BadRecord or ErrSkip.
func (in *Inference) Observe(m *Message) error { panic("unwritten") }

// Report is what was seen so far.
func (in *Inference) Report() *Report { panic("unwritten") }
