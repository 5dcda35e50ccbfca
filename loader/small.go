package loader

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"sawlog/formats"
)

// smallWriter makes files of less than a batch, one after the other, in memory:
// a data set of many hours is made of them, and making a writer, a digest and a
// local file takes many times longer than writing a few rows.
type smallWriter struct {
	schema     *formats.Schema
	page, dict int64
	out        memory
	writer     fileWriter
	digest     *formats.Digest
}

// smallKept is the largest file whose writer is kept for the next one, in bytes
// of its decoded rows.
const smallKept = 256 << 10

// memory is a file in memory.
type memory struct{ bytes.Buffer }

func (m *memory) ReadAt(b []byte, at int64) (int, error) {
	if at < 0 || at > int64(m.Len()) {
		return 0, io.EOF
	}
	n := copy(b, m.Bytes()[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// finishSmall writes all rows of a file, of which none has gone to a writer,
// and stages it.
func (f *dataFile) finishSmall() (File, error) {
	t, w := f.t, &f.t.small
	size := f.cols.Bytes()
	if w.schema != f.schema || w.page != f.page || w.dict != f.dict {
		*w = smallWriter{schema: f.schema, page: f.page, dict: f.dict}
	}
	w.out.Reset()
	var err error
	if w.writer == nil {
		w.writer, err = f.newWriter(&w.out)
		w.digest = formats.NewDigest(f.schema)
	} else {
		err = w.writer.Restart(&w.out)
		w.digest.Reset()
	}
	if err == nil {
		w.digest.Add(f.cols)
		err = errors.Join(w.writer.Write(f.cols), w.writer.Close())
	}
	if err != nil {
		return File{}, fmt.Errorf("small file: %w", err)
	}
	hash := sha256.Sum256(w.out.Bytes())
	made := f.made(File{
		Bytes: int64(w.out.Len()), SHA256: hex.EncodeToString(hash[:]), Digest: w.digest.Sum(), Rows: int64(f.cols.Rows()),
	})
	if err := t.stage(made.Stage, w.out.Bytes()); err != nil {
		return File{}, err
	}
	if size > smallKept {
		*w = smallWriter{}
	} else if t.spare == nil && f.key != quarantineKey && f.schema == t.schema {
		t.spare = f.cols
		t.spare.Reset()
	}
	f.drop()
	return made, nil
}

// stage writes a file into the attempt's folder.
func (t *task) stage(name string, data []byte) error {
	w, err := t.sink.Create(name)
	if err != nil {
		return fmt.Errorf("stage: %w", err)
	}
	_, err = w.Write(data)
	if closed := w.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = t.sink.Remove(name) // half a file; the error above is the one to report
		return fmt.Errorf("stage: %w", err)
	}
	return nil
}
