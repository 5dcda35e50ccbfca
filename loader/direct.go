package loader

import (
	"context"
	"maps"
	"slices"

	"sawlog/formats"
)

// direct writes the files of all buckets side by side while they fit. When they
// no longer do, rows of files that have no writer yet, and of all buckets that
// come later, go through a spill and are written bucket by bucket in the end
// (sorted.go). Files that have a writer keep what they have: one of them goes on,
// the others wait for the spill. Each record is read and decoded once, whatever
// happens.
//
// Decoding a record tells its event time, so it is decoded right into the
// columns of the bucket of the record before it, and its row is moved where that
// guess was wrong.
type direct struct {
	t       *task
	files   map[int64]*dataFile
	last    *dataFile // of the last row
	scratch *dataFile // where nothing can be guessed, and before the spill
	limit   int64     // of all open files, in bytes
	waiting int64     // of those that have a writer and are not written to
	over    int       // rows that came while the files took more than that

	spill *spill // nil = all files fit
	on    *dataFile
	row   formats.RowCursor
}

func newDirect(t *task) *direct {
	d := &direct{t: t, files: map[int64]*dataFile{}, limit: directLimit(t.memory, t.fetch)}
	d.scratch = t.newFile(t.schema, 0)
	d.last = d.scratch
	// Files with a writer are finished one after the other: there must be room
	// for one of them to grow as large as any.
	d.waiting = max(besides(t.memory), d.limit-d.scratch.most())
	return d
}

// write makes the files of the split.
func (d *direct) write(ctx context.Context) ([]File, error) {
	files, err := d.run(ctx)
	d.drop()
	if d.spill != nil {
		if closed := d.spill.Close(); err == nil {
			err = closed
		}
	}
	return files, err
}

func (d *direct) run(ctx context.Context) ([]File, error) {
	t := d.t
	if err := t.each(ctx, "read", d.take); err != nil || t.infer != nil {
		return nil, err
	}
	d.scratch.drop()
	var made []File
	for _, key := range slices.Sorted(maps.Keys(d.files)) {
		if d.files[key].waits {
			continue
		}
		file, err := d.files[key].finish()
		if err != nil {
			return nil, err
		}
		made = append(made, file)
		delete(d.files, key)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t.tell("stage", len(made), false)
	}
	if t.bad.file != nil {
		file, err := t.bad.file.finish()
		if err != nil {
			return nil, err
		}
		t.bad.file = nil
		made = append(made, file)
	}
	if d.spill == nil {
		return made, nil
	}
	return d.sorted(ctx, made)
}

// take puts one record into the columns of its bucket.
func (d *direct) take(rng int, m *formats.Message) error {
	t := d.t
	if t.infer != nil {
		return t.observe(rng, m)
	}
	huge := int64(len(m.Value)) > t.plan.Writer.BatchBytes
	if huge {
		d.last = d.scratch // whose room is not kept
	}
	at, err := t.decoder.Append(d.last.cols, m)
	if err != nil {
		if err = t.refuse(rng, m, err); t.infer != nil {
			d.drop()
		}
		return err
	}
	key, err := t.buckets.Number(at, d.last.cols)
	if err != nil {
		d.last.cols.Truncate(d.last.cols.Rows() - 1)
		return t.refuse(rng, m, err)
	}
	t.passed(rng, at)
	f := d.place(key)
	if f != d.last {
		f.cols.TakeLast(d.last.cols)
	}
	d.last = f
	if f == d.scratch {
		err = d.later(key)
	} else {
		err = f.cut()
	}
	if huge {
		d.scratch.cols = formats.NewColumns(t.schema)
	}
	if err != nil || !d.full() {
		return err
	}
	return d.makeRoom()
}

// place is the file that takes a row of a bucket now; the scratch columns are
// for rows that go to the spill.
func (d *direct) place(key int64) *dataFile {
	switch {
	case d.last.key == key && d.last != d.scratch:
		return d.last
	case d.spill != nil && d.on != nil && d.on.key == key:
		return d.on
	case d.spill != nil:
		return d.scratch
	}
	f := d.files[key]
	if f == nil {
		f = d.t.newFile(d.t.schema, key)
		d.files[key] = f
	}
	return f
}

// later sends the row in the scratch columns to the spill.
func (d *direct) later(key int64) error {
	if f := d.files[key]; f != nil {
		f.waits = true
	}
	d.row.Reset(d.scratch.cols)
	err := d.spill.Add(key, &d.row)
	d.scratch.cols.Reset()
	return err
}

// full tells, now and then, whether the files but the largest take too much.
func (d *direct) full() bool {
	if d.spill != nil || d.t.used <= d.limit && d.t.written <= d.waiting {
		return false
	}
	if d.over++; d.over%fullEvery != 1 {
		return false
	}
	var largest, writer int64
	for _, f := range d.files {
		if largest = max(largest, f.used); f.writer != nil {
			writer = max(writer, f.used)
		}
	}
	return d.t.used > d.limit && d.t.used-largest > besides(d.t.memory) || d.t.written-writer > d.waiting
}

// fullEvery is how many rows pass between looks at all files.
const fullEvery = 256

// makeRoom begins the spill.
func (d *direct) makeRoom() error {
	t := d.t
	t.logger.Info("open files outgrow memory: further rows are sorted by bucket first", "split", t.index, "memory", t.memory, "files", len(d.files))
	d.spill = newSpill(t.spool, sortBytes(t.memory))
	d.on = d.goesOn()
	for key, f := range d.files {
		if f.writer != nil {
			continue
		}
		d.row.Reset(f.cols)
		for range f.cols.Rows() {
			if err := d.spill.Add(key, &d.row); err != nil {
				return err
			}
		}
		f.drop()
		delete(d.files, key)
	}
	if d.last = d.scratch; d.on != nil {
		d.last = d.on
	}
	return nil
}

// goesOn is the file that is written on beside the spill: that of the last row,
// or else the largest, if there is room for it to grow.
func (d *direct) goesOn() *dataFile {
	largest := d.last
	for _, f := range d.files {
		if f.writer != nil && f.used > largest.used {
			largest = f
		}
	}
	for _, f := range [...]*dataFile{d.last, largest} {
		if f.writer != nil && d.t.written-f.used+f.most() <= d.limit+d.limit/8 {
			return f
		}
	}
	return nil
}

// drop forgets all files.
func (d *direct) drop() {
	for _, f := range d.files {
		f.drop()
	}
	clear(d.files)
	d.scratch.drop()
	d.t.bad.drop()
}
