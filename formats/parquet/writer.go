package parquet

import (
	"io"

	"sawlog/formats"
)

// Profile is the number of the writer profile: everything about a file's bytes
// that is not in Options. A change of it changes the bytes of every file.
const Profile = 1

// Options are the settings of a file.
type Options struct {
	Codec         string // zstd | snappy | gzip | none
	Level         int    // of zstd or gzip; 0 = the codec's default
	PageBytes     int64  // page limit; 0 = PageLimit of the schema
	DictBytes     int64  // dictionary limit; 0 = PageLimit of the schema
	RowGroupBytes int64  // decoded bytes; 0 = 64 MiB
	RowGroupRows  int    // 0 = 1 Mi rows
	Metadata      map[string]string
}

// Writer writes one file.
type Writer struct{}

// NewWriter starts a file on w, which is not closed by the Writer.
func NewWriter(w io.Writer, s *formats.Schema, o Options) (*Writer, error) { panic("unwritten") }

// Write adds the rows of c as one batch; c may be used again at once.
func (w *Writer) Write(c *formats.Columns) error { panic("unwritten") }

// Close ends the file, checks its footer and gives the first error there was.
func (w *Writer) Close() error { panic("unwritten") }
