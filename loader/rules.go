package loader

import (
	"fmt"
	"path"
	"strings"

	"sawlog/offsets"
)

// RecordError is a ledger record that breaks a rule, or cannot be read: the
// ledger is damaged there, or something else wrote it.
type RecordError struct {
	Number int64
	Rule   string // L1…L9, chain, count, schema, form
	Err    error
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("ledger record %d (%s): %v", e.Number, RecordPath(e.Number), e.Err)
}

func (e *RecordError) Unwrap() error { return e.Err }

// recordVersion is the version of the record's form.
const recordVersion = 1

// check holds a record against the rules; the fold is not changed.
func (f *Fold) check(rec *Record) error {
	broken := func(rule, format string, args ...any) error {
		return &RecordError{Number: rec.Number, Rule: rule, Err: fmt.Errorf(format, args...)}
	}
	switch {
	case rec.V != recordVersion:
		return broken("form", "version %d, this binary knows %d", rec.V, recordVersion)
	case rec.Number != f.Head+1:
		return broken("chain", "follows record %d: numbers have no holes", f.Head)
	case rec.Prev != f.HeadHash:
		return broken("chain", "prev is %q, record %d has hash %q", rec.Prev, f.Head, f.HeadHash)
	case rec.Published != rec.Number-1:
		return broken("L2", "published is %d, want %d", rec.Published, rec.Number-1)
	case rec.Base < -1 || rec.Base >= rec.Number:
		return broken("chain", "base %d is not before it", rec.Base)
	case rec.Dataset == "" || rec.Job == "":
		return broken("form", "names no data set or no job")
	case rec.Number > 0 && (rec.Dataset != f.Dataset || rec.Job != f.Job):
		return broken("form", "is of data set %q and job %q, the ledger belongs to %q and %q",
			rec.Dataset, rec.Job, f.Dataset, f.Job)
	case rec.FilesRef != "" && len(rec.Files) == 0:
		return broken("form", "its list of files %s was not read", rec.FilesRef)
	}
	checks := map[Kind]func(*Record, breaker) error{
		Load: f.checkLoad, Backfill: f.checkLoad, Supersede: f.checkSupersede, Compact: f.checkCompact,
		Drop: f.checkDrop, Seal: f.checkSeal, Abandon: f.checkAbandon, Amend: f.checkAmend,
	}
	kindCheck, known := checks[rec.Kind]
	if !known {
		return broken("form", "kind %q is not known to this binary", rec.Kind)
	}
	if err := kindCheck(rec, broken); err != nil {
		return err
	}
	return f.checkSealed(rec, broken)
}

type breaker func(rule, format string, args ...any) error

func (f *Fold) checkLoad(rec *Record, broken breaker) error {
	if len(rec.Retires) > 0 {
		return broken("L4", "a %s retires nothing", rec.Kind)
	}
	if len(rec.Inputs) == 0 {
		return broken("count", "a %s without inputs", rec.Kind)
	}
	for i := range rec.Inputs {
		in := &rec.Inputs[i]
		if p := f.Partitions[in.key()]; p != nil && p.Covered.Overlaps(in.Range) {
			return broken("L1", "%s/%d: offsets of %s were loaded before (loaded: %v)", in.Topic, in.Partition, in.Range, p.Covered)
		}
	}
	return f.checkNew(rec, broken)
}

// checkNew holds the plan, counts, files and schema of a record that brings
// rows against the fold.
func (f *Fold) checkNew(rec *Record, broken breaker) error {
	if err := f.checkPlan(rec, broken); err != nil {
		return err
	}
	if rec.Schema == nil {
		return broken("schema", "has none")
	}
	if _, err := extendSchema(f.Schema, rec.Schema); err != nil {
		return broken("schema", "%w", err)
	} else if err := keepsColumns(f.Schema, rec.Schema); err != nil {
		return broken("schema", "%w", err)
	}
	var data, bad int64
	seen := map[PartitionKey]offsets.Set{}
	for i := range rec.Inputs {
		in := &rec.Inputs[i]
		if in.Start < 0 || in.End < in.Start || in.Accounted() != in.Len() || in.negative() {
			return broken("count", "%s/%d %s: accounts for %d of %d offsets", in.Topic, in.Partition, in.Range, in.Accounted(), in.Len())
		}
		if in.Gap > 0 && rec.Why == "" {
			return broken("L9", "%s/%d %s: %d offsets are gone, and nobody says why that may be", in.Topic, in.Partition, in.Range, in.Gap)
		}
		if seen[in.key()].Overlaps(in.Range) {
			return broken("L1", "%s/%d %s: counted twice", in.Topic, in.Partition, in.Range)
		}
		seen[in.key()] = seen[in.key()].Add(in.Range)
		data += in.Data
		bad += in.Quarantined
	}
	rows, badRows, err := f.checkFiles(rec, broken)
	if err != nil {
		return err
	}
	if rows != data {
		return broken("count", "its files hold %d rows, its inputs %d", rows, data)
	}
	if badRows != bad {
		return broken("count", "its quarantine files hold %d records, its inputs %d", badRows, bad)
	}
	return nil
}

// checkPlan wants a record to name a plan that no record names yet.
func (f *Fold) checkPlan(rec *Record, broken breaker) error {
	if !planPattern.MatchString(rec.Plan) {
		return broken("form", "plan id %q", rec.Plan)
	}
	if mark, named := f.Plans[rec.Plan]; named {
		return broken("L1", "plan %s was %s by record %d", rec.Plan, mark.State, mark.Number)
	}
	return nil
}

// checkFiles holds the files a record makes visible against the fold.
func (f *Fold) checkFiles(rec *Record, broken breaker) (rows, badRows int64, err error) {
	seen := map[string]bool{}
	for i := range rec.Files {
		file := &rec.Files[i]
		if err := file.form(); err != nil {
			return 0, 0, broken("form", "%w", err)
		}
		switch gone, retired := f.Retired[file.Path]; {
		case retired:
			return 0, 0, broken("L3", "%s was retired by record %d", file.Path, gone.Number)
		case f.Files[file.Path] != nil:
			return 0, 0, broken("L1", "%s is visible since record %d", file.Path, f.Files[file.Path].Number)
		case seen[file.Path]:
			return 0, 0, broken("L1", "%s stands in it twice", file.Path)
		}
		seen[file.Path] = true
		if file.Hour == nil {
			badRows += file.Rows
			continue
		}
		rows += file.Rows
	}
	for i, late := range f.lateRows(rec) {
		if file := &rec.Files[i]; (rec.Kind == Load || rec.Kind == Backfill) && file.Late != late {
			return 0, 0, broken("count", "%s: %d late rows, want %d", file.Path, file.Late, late)
		}
	}
	return rows, badRows, nil
}

// lateRows tells how many rows of each file of a record came after its hour was
// sealed. Rows that take the place of retired ones are as late as those were;
// what an hour that was sealed at the base gets beside them is late. The files
// of an hour share the late rows in their order.
func (f *Fold) lateRows(rec *Record) []int64 {
	late := make([]int64, len(rec.Files))
	left := map[int64]int64{} // by hour
	for _, name := range rec.Retires {
		if v := f.Files[name]; v != nil && v.Hour != nil {
			left[*v.Hour] += v.Late
			if f.SealedBy(*v.Hour, rec.Base) {
				left[*v.Hour] -= v.Rows
			}
		}
	}
	for i := range rec.Files {
		if file := &rec.Files[i]; file.Hour != nil && f.SealedBy(*file.Hour, rec.Base) {
			left[*file.Hour] += file.Rows
		}
	}
	for i := range rec.Files {
		file := &rec.Files[i]
		if file.Hour != nil {
			late[i] = max(0, min(left[*file.Hour], file.Rows))
			left[*file.Hour] -= late[i]
		}
	}
	return late
}

// form checks what a file's entry says by itself.
func (file *File) form() error {
	_, _, staged := stageOf(file.Stage)
	quarantine := strings.HasPrefix(file.Path, QuarantineDir+"/")
	switch {
	case !staged || path.Clean(file.Stage) != file.Stage:
		return fmt.Errorf("stage %q is not under %s", file.Stage, StagesDir)
	case file.Path == "" || path.Clean(file.Path) != file.Path || path.IsAbs(file.Path) || strings.HasPrefix(file.Path, "../"):
		return fmt.Errorf("path %q leaves the data set", file.Path)
	case quarantine != (file.Hour == nil):
		return fmt.Errorf("%s: quarantine files have no hour, data files have one", file.Path)
	case !quarantine && strings.HasPrefix(file.Path, SystemDir+"/"):
		return fmt.Errorf("%s is no place for data", file.Path)
	case !isHash(file.SHA256):
		return fmt.Errorf("%s: sha256 %q", file.Path, file.SHA256)
	case file.Bytes <= 0 || file.Rows <= 0 || file.Late < 0:
		return fmt.Errorf("%s: %d bytes, %d rows, %d late", file.Path, file.Bytes, file.Rows, file.Late)
	}
	return nil
}

// checkRetires tells the rows of the files a record retires. A supersede of
// offsets whose files were all dropped retires nothing.
func (f *Fold) checkRetires(rec *Record, broken breaker) (rows int64, err error) {
	if len(rec.Retires) == 0 && rec.Kind != Supersede {
		return 0, broken("L4", "a %s retires something", rec.Kind)
	}
	seen := map[string]bool{}
	for _, name := range rec.Retires {
		v := f.Files[name]
		if v == nil || seen[name] {
			return 0, broken("L3", "retires %s, which is not visible", name)
		}
		seen[name] = true
		if v.Hour != nil {
			rows += v.Rows
		}
	}
	return rows, nil
}

func (f *Fold) checkSupersede(rec *Record, broken breaker) error {
	if _, err := f.checkRetires(rec, broken); err != nil {
		return err
	}
	if len(rec.Inputs) == 0 {
		return broken("count", "a supersede without inputs")
	}
	loaded := map[PartitionKey]offsets.Set{}
	for i := range rec.Inputs {
		in := &rec.Inputs[i]
		if p := f.Partitions[in.key()]; p == nil || !p.Covered.Covers(in.Range) {
			return broken("L8", "%s/%d: offsets of %s were not loaded before", in.Topic, in.Partition, in.Range)
		}
		loaded[in.key()] = loaded[in.key()].Add(in.Range)
	}
	if err := f.wholeSplits(rec.Retires, loaded); err != nil {
		return broken("L8", "%w", err)
	}
	return f.checkNew(rec, broken)
}

// wholeSplits wants a record that loads offsets again to retire whole splits,
// and exactly those of these offsets: rows would be doubled or lost otherwise.
func (f *Fold) wholeSplits(retires []string, loaded map[PartitionKey]offsets.Set) error {
	type split struct {
		plan string
		n    int
	}
	retired, splits := map[string]bool{}, map[split]bool{}
	for _, name := range retires {
		v := f.Files[name]
		retired[name] = true
		splits[split{v.Plan, v.Split}] = true
	}
	for name, v := range f.Files {
		if !retired[name] && splits[split{v.Plan, v.Split}] {
			return fmt.Errorf("retires a part of split %d of plan %s: %s stays", v.Split, v.Plan, name)
		}
		for _, part := range f.extent(v) {
			switch again := loaded[part.key]; {
			case retired[name] && !again.Covers(part.Range):
				return fmt.Errorf("retires %s, which has offsets %s of partition %d, and loads %v of them again", name, part.Range, part.key.Partition, again)
			case !retired[name] && again.Overlaps(part.Range):
				return fmt.Errorf("loads offsets again that %s holds, which stays: %s of partition %d", name, part.Range, part.key.Partition)
			}
		}
	}
	return nil
}

func (f *Fold) checkCompact(rec *Record, broken breaker) error {
	if _, err := f.checkRetires(rec, broken); err != nil {
		return err
	}
	if len(rec.Inputs) > 0 || len(rec.Sealed) > 0 {
		return broken("count", "a compact record reads no log and seals nothing")
	}
	if err := f.checkPlan(rec, broken); err != nil {
		return err
	}
	if rec.Schema != nil {
		wider, err := widens(f.Schema, rec.Schema)
		if err == nil && wider {
			err = f.keepsNone(rec.Retires)
		}
		if err != nil {
			return broken("schema", "%w", err)
		}
	}
	if _, _, err := f.checkFiles(rec, broken); err != nil {
		return err
	}
	rows := map[int64]int64{} // by hour: those that go, less those that come
	for _, name := range rec.Retires {
		v := f.Files[name]
		if v.Hour == nil {
			return broken("count", "a compact record leaves quarantine files alone: %s", name)
		}
		rows[*v.Hour] += v.Rows
	}
	for i := range rec.Files {
		if hour := rec.Files[i].Hour; hour != nil {
			rows[*hour] -= rec.Files[i].Rows
		} else {
			return broken("count", "a compact record makes no quarantine file: %s", rec.Files[i].Path)
		}
	}
	for hour, n := range rows {
		if n != 0 {
			return broken("count", "hour %s loses %d rows", HourText(hour), n)
		}
	}
	return nil
}

// keepsNone wants every data file to be among those retired.
func (f *Fold) keepsNone(retires []string) error {
	retired := map[string]bool{}
	for _, name := range retires {
		retired[name] = true
	}
	for name, v := range f.Files {
		if v.Hour != nil && !retired[name] {
			return fmt.Errorf("columns get wider types, and %s keeps the old ones", name)
		}
	}
	return nil
}

func (f *Fold) checkDrop(rec *Record, broken breaker) error {
	if len(rec.Inputs) > 0 || len(rec.Files) > 0 {
		return broken("form", "a drop brings nothing")
	}
	_, err := f.checkRetires(rec, broken)
	return err
}

func (f *Fold) checkSeal(rec *Record, broken breaker) error {
	if len(rec.Files) > 0 || len(rec.Retires) > 0 {
		return broken("form", "a seal changes no file")
	}
	for i := range rec.Inputs {
		if in := &rec.Inputs[i]; in.Len() != 0 || in.Accounted() != 0 {
			return broken("form", "a seal loads nothing, %s/%d has %s", in.Topic, in.Partition, in.Range)
		}
	}
	return nil
}

func (f *Fold) checkAbandon(rec *Record, broken breaker) error {
	if len(rec.Files) > 0 || len(rec.Retires) > 0 || len(rec.Inputs) > 0 || len(rec.Sealed) > 0 {
		return broken("form", "an abandon changes nothing but the fate of its plan")
	}
	if !planPattern.MatchString(rec.Plan) {
		return broken("form", "plan id %q", rec.Plan)
	}
	if mark, named := f.Plans[rec.Plan]; named {
		return broken("L5", "plan %s was %s by record %d", rec.Plan, mark.State, mark.Number)
	}
	return nil
}

func (f *Fold) checkAmend(rec *Record, broken breaker) error {
	if len(rec.Retires) > 0 || len(rec.Inputs) > 0 || len(rec.Sealed) > 0 || len(rec.Files) == 0 || rec.Profile <= 0 {
		return broken("form", "an amend swaps hashes of files and names their writer profile")
	}
	for i := range rec.Files {
		file := &rec.Files[i]
		if err := file.form(); err != nil {
			return broken("form", "%w", err)
		}
		v := f.Files[file.Path]
		switch {
		case v == nil:
			return broken("L7", "%s is not visible", file.Path)
		case v.Digest == "" || v.Digest != file.Digest || v.Rows != file.Rows:
			return broken("L7", "%s: %d rows of digest %s, it holds %d of %s", file.Path, file.Rows, file.Digest, v.Rows, v.Digest)
		}
	}
	return nil
}

func (f *Fold) checkSealed(rec *Record, broken breaker) error {
	for i, hour := range rec.Sealed {
		if h := f.Hours[hour]; h != nil && h.Sealed != NotSealed {
			return broken("L6", "hour %s was sealed by record %d", HourText(hour), h.Sealed)
		}
		if i > 0 && rec.Sealed[i-1] >= hour {
			return broken("form", "sealed hours are not in order")
		}
	}
	return nil
}
