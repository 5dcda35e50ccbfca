package loader

import (
	"context"
	"errors"
	"maps"
	"slices"

	"sawlog/formats"
)

// errFull says that the open files outgrow the memory of the task.
var errFull = errors.New("open files outgrow memory")

// direct writes the files of all buckets side by side, or ends with errFull.
//
// Decoding a record tells its event time, so it is decoded right into the
// columns of the bucket of the record before it, and taken back and decoded
// again where that guess was wrong. While guesses fail often, the event time
// is looked at first.
type direct struct {
	t       *task
	files   map[int64]*dataFile
	last    *dataFile // of the last row
	scratch *dataFile // where no guess can be made
	misses  int       // recent wrong guesses
	limit   int64
	over    int // rows that came while the files took more than the limit
}

// missLimit is how many guesses, less right ones, may fail before times are
// looked at first.
const missLimit = 16

func (t *task) direct(ctx context.Context) ([]File, error) {
	d := &direct{t: t, files: map[int64]*dataFile{}, limit: directLimit(t.memory, t.fetch)}
	d.scratch = t.newFile(t.schema, 0)
	files, err := d.run(ctx)
	if err != nil {
		d.drop()
	}
	return files, err
}

func (d *direct) run(ctx context.Context) ([]File, error) {
	t := d.t
	if err := t.each(ctx, "read", d.row); err != nil {
		return nil, err
	}
	if t.infer != nil {
		d.drop()
		return nil, nil
	}
	d.scratch.drop()
	var made []File
	for _, key := range slices.Sorted(maps.Keys(d.files)) {
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
	return made, nil
}

// row puts one record into the columns of its bucket.
func (d *direct) row(rng int, m *formats.Message) error {
	t := d.t
	if t.infer != nil {
		return t.observe(rng, m)
	}
	f := d.last
	if f == nil || d.misses > missLimit {
		f = d.guess(m)
	}
	n := f.cols.Rows()
	at, err := t.decoder.Append(f.cols, m)
	if err != nil {
		if err = t.refuse(rng, m, err); t.infer != nil {
			d.drop()
		}
		return err
	}
	if key := t.buckets.Key(at); f == d.scratch || key != f.key {
		f.cols.Truncate(n)
		f = d.file(key)
		if _, err := t.again.Append(f.cols, m); err != nil {
			return err
		}
	}
	switch {
	case f == d.last && d.misses > 0:
		d.misses--
	case f != d.last:
		d.misses = min(d.misses+2, 2*missLimit)
	}
	d.last = f
	t.passed(rng, at)
	if err := f.cut(); err != nil {
		return err
	}
	if t.used > d.limit && d.full() {
		return errFull
	}
	return nil
}

// full tells, now and then, whether the files but the largest take too much.
func (d *direct) full() bool {
	if d.over++; d.over%fullEvery != 1 {
		return false
	}
	var largest int64
	for _, f := range d.files {
		largest = max(largest, f.used)
	}
	return d.t.used-largest > besides(d.t.memory)
}

// fullEvery is how many rows pass between looks at all files.
const fullEvery = 256

// guess is the file a record belongs to by its event time alone; the scratch
// columns where that cannot be told.
func (d *direct) guess(m *formats.Message) *dataFile {
	at, err := d.t.again.Time(m)
	if err != nil {
		return d.scratch
	}
	if f := d.files[d.t.buckets.Key(at)]; f != nil {
		return f
	}
	return d.scratch
}

func (d *direct) file(key int64) *dataFile {
	f := d.files[key]
	if f == nil {
		f = d.t.newFile(d.t.schema, key)
		d.files[key] = f
	}
	return f
}

// drop forgets all files.
func (d *direct) drop() {
	for _, f := range d.files {
		f.drop()
	}
	clear(d.files)
	d.last = nil
	d.scratch.drop()
	d.t.bad.drop()
}
