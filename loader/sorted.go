package loader

import (
	"context"

	"sawlog/formats"
)

// sorted sorts the records of the split by bucket and then writes one file
// after the other.
func (t *task) sorted(ctx context.Context) ([]File, error) {
	s := newSpill(t.spool, sortBytes(t.memory))
	files, err := t.sortThrough(ctx, s)
	t.bad.drop()
	if closed := s.Close(); err == nil {
		err = closed
	}
	return files, err
}

func (t *task) sortThrough(ctx context.Context, s *spill) ([]File, error) {
	// A record is decoded here for its bucket and for all that can be wrong
	// with it, so that what is quarantined, and why, is the same either way.
	scratch := t.newFile(t.schema, 0)
	defer scratch.drop()
	err := t.each(ctx, "sort", func(rng int, m *formats.Message) error {
		if t.infer != nil {
			return t.observe(rng, m)
		}
		at, err := t.decoder.Append(scratch.cols, m)
		if err != nil {
			return t.refuse(rng, m, err)
		}
		scratch.cols.Reset()
		t.passed(rng, at)
		return s.Add(t.buckets.Key(at), rng, m)
	})
	if err != nil || t.infer != nil {
		return nil, err
	}
	var made []File
	if t.bad.file != nil {
		file, err := t.bad.file.finish()
		if err != nil {
			return nil, err
		}
		t.bad.file = nil
		made = append(made, file)
	}
	w := &sortedWriter{t: t, made: made}
	if err := w.run(ctx, s); err != nil {
		w.drop()
		return nil, err
	}
	return w.made, nil
}

// sortedWriter writes records that come bucket by bucket.
type sortedWriter struct {
	t    *task
	open *dataFile
	made []File
	rows int64
}

func (w *sortedWriter) run(ctx context.Context, s *spill) error {
	err := s.Each(func(r *spilled) error {
		if w.open == nil || w.open.key != r.bucket {
			if err := w.next(ctx, r.bucket); err != nil {
				return err
			}
		}
		in := &w.t.inputs[r.rng]
		r.msg.Topic, r.msg.Partition = in.Topic, in.Partition
		if _, err := w.t.again.Append(w.open.cols, &r.msg); err != nil {
			return err
		}
		if w.rows++; w.rows%8192 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			w.t.tell("write", len(w.made), false)
		}
		return w.open.cut()
	})
	if err != nil {
		return err
	}
	return w.finish()
}

// next ends the open file and begins that of another bucket.
func (w *sortedWriter) next(ctx context.Context, bucket int64) error {
	if err := w.finish(); err != nil {
		return err
	}
	w.open = w.t.newFile(w.t.schema, bucket)
	w.t.tell("write", len(w.made), false)
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
