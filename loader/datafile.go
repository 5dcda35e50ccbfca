package loader

import (
	"fmt"
	"math"
	"os"

	"sawlog/formats"
	"sawlog/formats/parquet"
	"sawlog/loader/sink"
)

// quarantineKey stands for the bucket key of a quarantine file.
const quarantineKey = math.MinInt64

// dataFile is one file on its way: rows gather in columns, go to the writer in
// batches counted from the file's first row, and the writer's bytes go to a
// scratch file, which is staged once it is whole. Small files have no writer and
// no local file before they end.
type dataFile struct {
	t      *task
	key    int64 // number of its folder (folder.go), or quarantineKey
	schema *formats.Schema
	cols   *formats.Columns
	digest *formats.Digest // kilobytes per column, so it comes with the writer
	local  *spool
	shelf  *os.File // pages of the open row group that memory has no room for
	writer fileWriter

	page, dict int64 // limits, bytes

	rows     int64 // handed to the writer
	group    int64 // decoded bytes in the writer's open row group
	inRow    int   // rows in it
	used     int64 // bytes of memory this file is thought to take
	bare     int64 // of them, those that rows in cols do not change
	inWriter int64 // used, once it has a writer
	waits    bool  // rows of it are in the spill
}

func (t *task) newFile(s *formats.Schema, key int64) *dataFile {
	f := &dataFile{t: t, key: key, schema: s}
	if s == t.schema && t.spare != nil {
		f.cols, t.spare = t.spare, nil
	} else {
		f.cols = formats.NewColumns(s)
	}
	f.page, f.dict = t.limits(s, key)
	f.settle()
	return f
}

// settle estimates the memory of the file without rows in cols.
func (f *dataFile) settle() {
	leaves := int64(len(f.cols.Leaves()))
	f.bare = 1024 + leaves*leafBytes
	if f.writer != nil {
		f.bare += writerBytes(leaves, f.group, f.page, f.dict)
	}
	f.account(0)
}

// account adds that of decoded bytes in cols and keeps the task's sums.
func (f *dataFile) account(columns int64) {
	used := f.bare + columns*columnSlack
	if f.writer != nil {
		f.t.written += used - f.inWriter
		f.inWriter = used
	}
	f.t.used += used - f.used
	f.used = used
}

// most is what the file takes when its row group is full.
func (f *dataFile) most() int64 {
	leaves := int64(len(f.cols.Leaves()))
	w := &f.t.plan.Writer
	return 1024 + leaves*leafBytes + w.BatchBytes*columnSlack + writerBytes(leaves, w.GroupBytes, f.page, f.dict)
}

// limits are the page and dictionary limits of the file. Dictionaries are kept
// smaller than pages: until a column falls back to plain pages, the hash table of
// its dictionary takes several times its bytes (writer profile 1: up to 30 times),
// in every column at once.
func (t *task) limits(s *formats.Schema, key int64) (page, dict int64) {
	page = t.plan.Writer.PageBytes
	if key == quarantineKey || t.carried {
		page = pageLimit(s)
	}
	return page, min(page, dictLimit(s))
}

// cut hands the rows to the writer if the batch is full. It is called after
// every row, so that batches end after the same rows whatever else happens.
func (f *dataFile) cut() error {
	w := &f.t.plan.Writer
	size := f.cols.Bytes()
	if f.cols.Rows() >= w.BatchRows || size >= w.BatchBytes {
		return f.write(size)
	}
	f.account(size)
	return nil
}

func (f *dataFile) write(size int64) error {
	if f.writer == nil {
		if err := f.open(); err != nil {
			return err
		}
	}
	f.digest.Add(f.cols)
	if err := f.writer.Write(f.cols); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	n := f.cols.Rows()
	f.rows += int64(n)
	f.group, f.inRow = f.group+size, f.inRow+n
	if f.group >= f.t.plan.Writer.GroupBytes || f.inRow >= f.t.plan.Writer.GroupRows {
		f.group, f.inRow = 0, 0
	}
	if f.streams() {
		f.group, f.inRow = streamBytes, 0
	}
	if f.cols.Reset(); size > 2*f.t.plan.Writer.BatchBytes {
		f.cols = formats.NewColumns(f.schema) // one huge record: do not keep its room
	}
	f.settle()
	return nil
}

func (f *dataFile) open() error {
	local, err := newSpool(f.t.spool)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	f.local = local
	f.digest = formats.NewDigest(f.schema) // kilobytes a leaf: not for files that only gather rows
	writer, err := f.newWriter(local)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	f.writer = writer
	f.settle()
	return nil
}

// finish ends the file and stages it.
func (f *dataFile) finish() (File, error) {
	if f.writer == nil {
		return f.finishSmall()
	}
	if n := f.cols.Rows(); n > 0 {
		if err := f.write(f.cols.Bytes()); err != nil {
			return File{}, err
		}
	}
	if err := f.writer.Close(); err != nil {
		return File{}, fmt.Errorf("spool: %w", err)
	}
	f.writer = nil
	made := f.made(File{Bytes: f.local.size, SHA256: f.local.sum(), Digest: f.digest.Sum(), Rows: f.rows})
	if err := f.t.sink.Upload(f.local, f.local.size, made.Stage); err != nil {
		return File{}, fmt.Errorf("stage: %w", err)
	}
	f.drop()
	return made, nil
}

// made adds to what a file is where it belongs.
func (f *dataFile) made(made File) File {
	t := f.t
	if f.key == quarantineKey {
		made.Path = QuarantinePath(t.names, t.split.Index)
	} else {
		at := t.buckets.At(f.key)
		made.Path = FinalPath(t.buckets.Folder(f.key), t.names, t.plan.Writer.extension(), t.split)
		hour := at.bucket // a copy: the entry would hold all of at in memory
		made.Hour, made.Values = &hour, at.values
	}
	made.Stage = StagePath(t.dir, made.Path)
	if len(t.split.Ranges) > 1 || f.key == quarantineKey { // its name doesn't tell
		made.Parts = t.split.Ranges
	}
	return made
}

// drop forgets the file and its local bytes.
func (f *dataFile) drop() {
	f.t.used -= f.used
	f.t.written -= f.inWriter
	f.used, f.inWriter = 0, 0
	f.cols, f.digest, f.writer = nil, nil, nil
	if f.local != nil {
		_ = f.local.Close() // its bytes are staged, or not wanted
	}
	if f.shelf != nil {
		_ = f.shelf.Close()
	}
	f.local, f.shelf = nil, nil
}

// scratch is the file that the writer's pages wait in.
func (f *dataFile) scratch() (parquet.Scratch, error) {
	file, err := sink.Scratch(f.t.spool)
	if err != nil {
		return nil, err
	}
	f.shelf = file
	return file, nil
}
