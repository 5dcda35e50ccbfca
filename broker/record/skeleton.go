// Package record reads and writes Kafka's record batch, version 2, as bytes.
package record

// Codec is a compression.
type Codec int8

const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

func ParseCodec(s string) (Codec, error)                            { panic("unwritten") }
func (c Codec) String() string                                      { panic("unwritten") }
func (c Codec) Compress(dst, src []byte, level int) ([]byte, error) { panic("unwritten") }
func (c Codec) Decompress(dst, src []byte, max int) ([]byte, error) { panic("unwritten") }

// Iterator walks the records of a batch.
type Iterator struct {
	// MaxDecompressed caps the decompressed size in bytes; 0 is 64 MiB.
	MaxDecompressed int
}

func (it *Iterator) Reset(b Batch) error { panic("unwritten") }
func (it *Iterator) Next() bool          { panic("unwritten") }
func (it *Iterator) Record() *Record     { panic("unwritten") }
func (it *Iterator) Err() error          { panic("unwritten") }

// Builder makes a batch.
type Builder struct{}

func NewBuilder(codec Codec, level int) *Builder             { panic("unwritten") }
func (w *Builder) Append(r Record)                           { panic("unwritten") }
func (w *Builder) Len() int                                  { panic("unwritten") }
func (w *Builder) Producer(id int64, epoch int16, seq int32) { panic("unwritten") }
func (w *Builder) Batch() (Batch, error)                     { panic("unwritten") }
func (w *Builder) Reset()                                    { panic("unwritten") }

// Rules are what a batch must keep to be taken from a client.
type Rules struct {
	// MaxDecompressed caps the decompressed size in bytes; 0 is 64 MiB.
	MaxDecompressed int
	// NeedKeys refuses null keys: the topic is compacted.
	NeedKeys bool
	// AllowControl takes transaction markers: the batch comes from a coordinator.
	AllowControl bool
	// LogAppendTime leaves timestamps unchecked: the log will set its own.
	LogAppendTime bool
	// Now is the broker's time in milliseconds; records more than BeforeMax
	// older or AfterMax younger are refused. 0 is no bound.
	Now, BeforeMax, AfterMax int64
}

// Facts are what Validate learned on its way.
type Facts struct {
	Count        int32
	Codec        Codec
	MaxTimestamp int64
	// Corrected tells that the batch claimed another greatest timestamp or
	// broker time and was changed, CRC included.
	Corrected bool
}

func Validate(b Batch, v Rules) (Facts, error)                               { panic("unwritten") }
func ParseControl(key []byte) (commit bool, err error)                       { panic("unwritten") }
func Recode(b Batch, codec Codec, level, maxDecompressed int) (Batch, error) { panic("unwritten") }
