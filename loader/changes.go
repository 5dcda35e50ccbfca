package loader

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"sawlog/formats"
	"sawlog/offsets"
)

// Change is what one ledger record did to a data set, as the change feed tells
// it (`out changes`). A reader that applies all changes in order, each once,
// has the files of the data set; Number is what it remembers.
type Change struct {
	Number  int64          `json:"number"`
	Kind    Kind           `json:"kind"`
	At      string         `json:"at"` // RFC 3339, UTC, milliseconds
	Run     string         `json:"run"`
	Plan    string         `json:"plan"`
	Tick    string         `json:"tick"`
	By      string         `json:"by"`
	Why     string         `json:"why"`
	Added   []ChangeFile   `json:"added"`
	Retired []ChangeFile   `json:"retired"`
	Amended []ChangeFile   `json:"amended"` // other bytes, the same rows
	Hours   []string       `json:"hours"`   // whose files, or completeness, changed
	Sealed  []string       `json:"sealed"`  // complete from this record on
	Offsets []ChangeRange  `json:"offsets"` // loaded, or loaded again
	Columns []ChangeColumn `json:"columns"` // new, or of a wider type
}

// ChangeFile is a file of a change; Hour is empty for a quarantine file.
type ChangeFile struct {
	Path   string `json:"path"`
	Hour   string `json:"hour"`
	Rows   int64  `json:"rows"`
	Late   int64  `json:"late"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// ChangeRange are the offsets of one partition.
type ChangeRange struct {
	Topic     string         `json:"topic"`
	Partition int32          `json:"partition"`
	Start     offsets.Offset `json:"start"`
	End       offsets.Offset `json:"end"`
	Rows      int64          `json:"rows"`
}

// ChangeColumn is a column and its type after the change.
type ChangeColumn struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Changes tells, in order, what each record after number since did; -1 = all of
// them. The last record is published first, so that its files are there.
func (l *Ledger) Changes(ctx context.Context, since int64, fn func(*Change) error) error {
	if err := l.Publish(ctx); err != nil {
		return err
	}
	if since > l.fold.Head || since < -1 {
		e := fail(ExitNotFound, "the ledger of data set %s ends with record %d, there is no record %d", l.fold.Dataset, l.fold.Head, since)
		return e.hint("a ledger never gets shorter: is this the data set the number is of?")
	}
	f := NewFold()
	for f.Head < l.fold.Head {
		if err := ctx.Err(); err != nil {
			return err
		}
		rec, hash, err := readRecord(l.sink, f.Head+1)
		if err != nil {
			return err
		}
		c := f.change(rec)
		was := f.Schema
		if err := f.Apply(rec, hash); err != nil {
			return damaged(err)
		}
		if rec.Number <= since {
			continue
		}
		c.Columns = columnsBetween(was, f.Schema)
		for hour := range hoursOf(f, rec.Number) {
			c.Hours = append(c.Hours, HourText(hour))
		}
		slices.Sort(c.Hours)
		if err := fn(c); err != nil {
			return err
		}
	}
	return nil
}

// columnsBetween lists the columns a record brought or widened.
func columnsBetween(was, is *formats.Schema) []ChangeColumn {
	columns := []ChangeColumn{}
	if is == nil {
		return columns
	}
	old := map[string]string{}
	if was != nil {
		for i := range was.Fields {
			old[was.Fields[i].Name] = was.Fields[i].Type.String()
		}
	}
	for i := range is.Fields {
		name, text := is.Fields[i].Name, is.Fields[i].Type.String()
		if old[name] != text {
			columns = append(columns, ChangeColumn{name, text})
		}
	}
	return columns
}

// change is what a record does to the fold before it.
func (f *Fold) change(rec *Record) *Change {
	c := &Change{
		Number: rec.Number, Kind: rec.Kind, At: time.UnixMilli(rec.At).UTC().Format("2006-01-02T15:04:05.000Z"),
		Run: rec.Run, Plan: rec.Plan, Tick: rec.Tick, By: rec.By, Why: rec.Why,
		Added: []ChangeFile{}, Retired: []ChangeFile{}, Amended: []ChangeFile{},
		Hours: []string{}, Sealed: []string{}, Offsets: []ChangeRange{}, Columns: []ChangeColumn{},
	}
	for i := range rec.Files {
		if file := changeFile(&rec.Files[i]); rec.Kind == Amend {
			c.Amended = append(c.Amended, file)
		} else {
			c.Added = append(c.Added, file)
		}
	}
	for _, name := range rec.Retires {
		if v := f.Files[name]; v != nil {
			c.Retired = append(c.Retired, changeFile(&v.File))
		}
	}
	for _, list := range [][]ChangeFile{c.Added, c.Retired, c.Amended} {
		slices.SortFunc(list, func(a, b ChangeFile) int {
			return cmp.Or(strings.Compare(a.Hour, b.Hour), strings.Compare(a.Path, b.Path))
		})
	}
	for _, hour := range rec.Sealed {
		c.Sealed = append(c.Sealed, HourText(hour))
	}
	for i := range rec.Inputs {
		if in := &rec.Inputs[i]; !in.Empty() {
			c.Offsets = append(c.Offsets, ChangeRange{in.Topic, in.Partition, in.Start, in.End, in.Data})
		}
	}
	return c
}

func changeFile(file *File) ChangeFile {
	c := ChangeFile{Path: file.Path, Rows: file.Rows, Late: file.Late, Bytes: file.Bytes, SHA256: file.SHA256}
	if file.Hour != nil {
		c.Hour = HourText(*file.Hour)
	}
	return c
}
