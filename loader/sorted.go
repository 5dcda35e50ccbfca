package loader

import "context"

// sorted writes the rows of the spill, which come bucket by bucket, one file
// after the other. A file that has a writer already goes on.
func (d *direct) sorted(ctx context.Context, made []File) ([]File, error) {
	w := &sortedWriter{d: d, made: made}
	err := d.spill.Each(func(bucket int64, row []byte) error { return w.add(ctx, bucket, row) })
	if err == nil {
		err = w.finish()
	}
	if err != nil {
		w.drop()
		return nil, err
	}
	return w.made, nil
}

// sortedWriter writes rows that come bucket by bucket.
type sortedWriter struct {
	d    *direct
	open *dataFile
	made []File
	rows int64
}

func (w *sortedWriter) add(ctx context.Context, bucket int64, row []byte) error {
	if w.open == nil || w.open.key != bucket {
		if err := w.next(ctx, bucket); err != nil {
			return err
		}
	}
	if err := w.open.cols.AddRow(row); err != nil {
		return err
	}
	if w.rows++; w.rows%8192 == 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	w.d.t.tell("write", len(w.made), false)
	return w.open.cut()
}

// next ends the open file and begins, or takes up, that of another bucket.
func (w *sortedWriter) next(ctx context.Context, bucket int64) error {
	if err := w.finish(); err != nil {
		return err
	}
	if w.open = w.d.files[bucket]; w.open == nil {
		w.open = w.d.t.newFile(w.d.t.schema, bucket)
	}
	delete(w.d.files, bucket)
	w.d.t.tell("write", len(w.made), false)
	return ctx.Err()
}

func (w *sortedWriter) finish() error {
	if w.open == nil {
		return nil
	}
	file, err := w.open.finish()
	if err != nil {
		return err
	}
	w.made, w.open = append(w.made, file), nil
	return nil
}

func (w *sortedWriter) drop() {
	if w.open != nil {
		w.open.drop()
	}
}
