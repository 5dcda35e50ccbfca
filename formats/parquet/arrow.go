package parquet

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"

	"sawlog/formats"
)

// arrowFile is the encoder of writer profile 1: arrow's column writers, with
// our statistics and a mended footer.
type arrowFile struct {
	leaves  []formats.Leaf
	sink    *stickySink
	page    int
	file    *file.Writer
	group   file.BufferedRowGroupWriter // nil = none open
	columns []leafWriter
	stats   []leafStats
	groups  []groupFacts
}

func newArrowFile(sink *stickySink, s *formats.Schema, leaves []formats.Leaf, o *Options, codec compress.Compression, level int) (*arrowFile, error) {
	root, err := fileSchema(s)
	if err != nil {
		return nil, err
	}
	props := parquet.NewWriterProperties(
		parquet.WithAllocator(allocator),
		parquet.WithVersion(parquet.V2_LATEST),
		parquet.WithDataPageVersion(parquet.DataPageV1),
		parquet.WithDictionaryDefault(true),
		parquet.WithDictionaryFor("_offset", false), // every value is new
		parquet.WithDictionaryPageSizeLimit(o.DictBytes),
		parquet.WithDataPageSize(o.PageBytes),
		parquet.WithBatchSize(1<<30), // leafWriter cuts the chunks, at rows
		parquet.WithStats(false),     // leafStats makes them
		parquet.WithCreatedBy(createdBy(1)),
		parquet.WithCompression(codec),
		parquet.WithCompressionLevel(level),
	)
	a := &arrowFile{leaves: leaves, sink: sink, page: int(o.PageBytes), columns: make([]leafWriter, len(leaves))}
	for i := range leaves {
		a.columns[i].leaf = &leaves[i]
	}
	a.file, err = newFile(sink, root, props)
	return a, err
}

// newFile starts arrow's writer, which panics when its first write fails.
func newFile(sink *stickySink, root *schema.GroupNode, props *parquet.WriterProperties) (w *file.Writer, err error) {
	defer func() {
		if err = errors.Join(sink.Err, err); err != nil {
			err = fmt.Errorf("parquet: starting the file: %w", err)
		}
	}()
	defer formats.Recovered("parquet", &err)
	return file.NewParquetWriter(sink, root, file.WithWriterProps(props)), nil
}

func (a *arrowFile) begin(stats []leafStats) (err error) {
	a.stats = stats
	a.group = a.file.AppendBufferedRowGroup()
	for i := range a.columns {
		if a.columns[i].to, err = a.group.Column(i); err != nil {
			return err
		}
	}
	return nil
}

func (a *arrowFile) write(leaf int, v *formats.Vector) error {
	a.stats[leaf].add(&a.leaves[leaf], v)
	return a.columns[leaf].write(v, a.page)
}

func (a *arrowFile) end(rows int64) error {
	err := a.group.Close()
	a.group = nil
	facts := groupFacts{rows: rows}
	for i := range a.columns {
		facts.stats = append(facts.stats, a.stats[i].thrift(&a.leaves[i]))
		facts.level = append(facts.level, a.stats[i].levels)
		a.columns[i].to = nil
	}
	a.groups = append(a.groups, facts)
	return err
}

func (a *arrowFile) footer(metadata map[string]string) ([]byte, error) {
	end := a.sink.Bytes
	a.sink.held = new(bytes.Buffer)
	if err := errors.Join(a.file.Close(), a.sink.Err); err != nil {
		return nil, err
	}
	raw, err := cutTail(a.sink.held.Bytes())
	if err != nil {
		return nil, err
	}
	a.sink.held = nil
	footer, err := mendFooter(raw, a.groups, metadata, end)
	if err != nil {
		return nil, fmt.Errorf("parquet: %w", err)
	}
	return footer, nil
}
