package loader

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"sawlog/formats"
	"sawlog/offsets"
)

// Fold is what the ledger records 0..Head say together: the one pure function
// behind every decision about a data set. Apply adds a record or refuses it; a
// Fold never holds half a record.
//
// Its invariants, checked by Apply (rules.go):
//
//	numbers have no holes, and each record holds the hash of the one before
//	record N+1 says that N is published                                  (L2)
//	covered offsets are disjoint between records, and add up             (L1)
//	a record that loads offsets again retires exactly the files of them  (L8)
//	a path is made visible once; a retired one never again               (L3)
//	only visible files are retired or amended, an amended one keeps its rows (L7)
//	an hour is sealed once; late rows are those of hours sealed at the base
//	the schema only grows; types get wider by a compact record of all files
type Fold struct {
	Head     int64  // number of the last record; -1 = none
	HeadHash string // sha256 of the last record's bytes

	Dataset string
	Job     string
	Schema  *formats.Schema // of the data set; nil before the first load

	Partitions map[PartitionKey]*Partition
	Files      map[string]*Visible   // by final path
	Retired    map[string]Retirement // by final path
	Hours      map[int64]*Hour       // by bucket key
	Plans      map[string]PlanMark   // plans a record names, by id
	Records    []RecordRef           // one per record
}

// PartitionKey names a partition for ever: a topic made again has another id.
type PartitionKey struct {
	Cluster   string
	TopicID   offsets.TopicID
	Partition int32
}

// Partition is what was loaded of one partition.
type Partition struct {
	Topic     string
	Start     offsets.Offset // frozen by the record that first names the partition
	Covered   offsets.Set
	Watermark int64 // largest plausible event time, microseconds; NoWatermark = none
}

// NoWatermark is the watermark of a partition without plausible event times.
const NoWatermark int64 = math.MinInt64

// Next is the offset the next load starts at: the end of the unbroken coverage
// from the frozen start.
func (p *Partition) Next() offsets.Offset { return p.Covered.ContiguousEnd(p.Start) }

// Visible is a file a reader may see, or a quarantine file.
type Visible struct {
	File
	Number  int64  `json:"number"` // record that made it visible
	Run     string `json:"run"`
	Plan    string `json:"plan"` // plan of that record
	Split   int    `json:"split"`
	Profile int    `json:"profile,omitempty"` // writer profile, where an amend record changed the plan's
	Amended int64  `json:"amended,omitempty"` // the amend record that changed its bytes; 0 = none
}

// Retirement is what became of a file that is visible no more.
type Retirement struct {
	Number int64  `json:"number"`        // record that retired it
	Plan   string `json:"plan"`          // plan of the record that had made it visible
	Stage  string `json:"stage"`         // where it was staged then
	Dir    string `json:"dir,omitempty"` // of its bucket, where that is not its own folder
}

// Hour is the history of one bucket.
type Hour struct {
	Files   int64    `json:"files"`
	Rows    int64    `json:"rows"`
	Bytes   int64    `json:"bytes"`
	Late    int64    `json:"late"`
	Sealed  int64    `json:"sealed"` // record that sealed it; NotSealed = none
	Touched []int64  `json:"touched"`
	Dirs    []string `json:"dirs"` // folders it has or had files in
}

// NotSealed stands where an hour is still open.
const NotSealed int64 = -1

// LastTouched is the record that last changed the hour.
func (h *Hour) LastTouched() int64 { return h.Touched[len(h.Touched)-1] }

// PlanMark is what a record did to a plan.
type PlanMark struct {
	State  PlanState `json:"state"` // PlanCommitted or PlanAbandoned
	Number int64     `json:"number"`
}

// PlanState says what may still become of a plan.
type PlanState string

// The states of a plan. Only open plans are resumed.
const (
	PlanOpen      PlanState = "open"
	PlanCommitted PlanState = "committed"
	PlanAbandoned PlanState = "abandoned"
	PlanReplaced  PlanState = "replaced" // a later plan revises it
	PlanDead      PlanState = "dead"     // a record after its base took its work
)

// RecordRef is one line of the data set's history.
type RecordRef struct {
	Number      int64  `json:"number"`
	At          int64  `json:"at"`
	Kind        Kind   `json:"kind"`
	Run         string `json:"run"`
	Plan        string `json:"plan,omitempty"`
	Tick        string `json:"tick,omitempty"`
	Files       int64  `json:"files"`
	Rows        int64  `json:"rows"`
	Bytes       int64  `json:"bytes"`
	Quarantined int64  `json:"quarantined"`
}

// NewFold is the fold of no record.
func NewFold() *Fold {
	return &Fold{
		Head:       -1,
		Partitions: map[PartitionKey]*Partition{},
		Files:      map[string]*Visible{},
		Retired:    map[string]Retirement{},
		Hours:      map[int64]*Hour{},
		Plans:      map[string]PlanMark{},
	}
}

// key is the partition an input counts.
func (in *Input) key() PartitionKey { return PartitionKey{in.Cluster, in.TopicID, in.Partition} }

// Key is the partition a planned range belongs to.
func (in *PlanInput) Key(cluster string) PartitionKey {
	return PartitionKey{cluster, in.TopicID, in.Partition}
}

// Apply adds the next record, whose bytes have the given hash. A record that
// breaks a rule changes nothing; the error is a *RecordError.
func (f *Fold) Apply(rec *Record, hash string) error {
	if err := f.check(rec); err != nil {
		return err
	}
	f.Head, f.HeadHash = rec.Number, hash
	if rec.Number == 0 {
		f.Dataset, f.Job = rec.Dataset, rec.Job
	}
	if rec.Schema != nil {
		f.Schema = rec.Schema
	}
	for i := range rec.Inputs {
		f.cover(&rec.Inputs[i])
	}
	ref := RecordRef{
		Number: rec.Number, At: rec.At, Kind: rec.Kind, Run: rec.Run, Plan: rec.Plan, Tick: rec.Tick,
	}
	touched := map[int64]bool{}
	for _, name := range rec.Retires {
		f.retire(name, rec.Number, touched)
	}
	for i := range rec.Files {
		f.show(rec, &rec.Files[i], touched)
		ref.count(&rec.Files[i])
	}
	for _, hour := range rec.Sealed {
		f.hour(hour).Sealed = rec.Number
		touched[hour] = true
	}
	for hour := range touched {
		h := f.hour(hour)
		h.Touched = append(h.Touched, rec.Number)
	}
	if rec.Plan != "" && rec.Kind != Amend {
		mark := PlanMark{PlanCommitted, rec.Number}
		if rec.Kind == Abandon {
			mark.State = PlanAbandoned
		}
		f.Plans[rec.Plan] = mark
	}
	f.Records = append(f.Records, ref)
	return nil
}

func (f *Fold) cover(in *Input) {
	p := f.Partitions[in.key()]
	if p == nil {
		p = &Partition{Start: in.Start, Watermark: NoWatermark}
		f.Partitions[in.key()] = p
	}
	p.Topic = in.Topic
	p.Covered = p.Covered.Add(in.Range)
	p.Watermark = max(p.Watermark, in.Watermark)
}

func (f *Fold) retire(name string, number int64, touched map[int64]bool) {
	v := f.Files[name]
	delete(f.Files, name)
	gone := Retirement{Number: number, Plan: v.Plan, Stage: v.Stage}
	if len(v.Values) > 0 {
		gone.Dir = v.HourDir()
	}
	f.Retired[name] = gone
	if v.Hour == nil {
		return
	}
	h := f.hour(*v.Hour)
	h.Files--
	h.Rows -= v.Rows
	h.Bytes -= v.Bytes
	h.Late -= v.Late
	touched[*v.Hour] = true
}

func (f *Fold) show(rec *Record, file *File, touched map[int64]bool) {
	if file.Hour != nil {
		touched[*file.Hour] = true
	}
	if rec.Kind == Amend {
		v := f.Files[file.Path]
		if v.Hour != nil {
			f.hour(*v.Hour).Bytes += file.Bytes - v.Bytes
		}
		v.Stage, v.Bytes, v.SHA256 = file.Stage, file.Bytes, file.SHA256
		v.Profile, v.Amended = rec.Profile, rec.Number
		return
	}
	_, split, _ := stageOf(file.Stage) // check has seen that it is one
	f.Files[file.Path] = &Visible{File: *file, Number: rec.Number, Run: rec.Run, Plan: rec.Plan, Split: split}
	if file.Hour == nil {
		return
	}
	h := f.hour(*file.Hour)
	h.Files++
	h.Rows += file.Rows
	h.Bytes += file.Bytes
	h.Late += file.Late
	if dir := file.HourDir(); !slices.Contains(h.Dirs, dir) {
		h.Dirs = append(h.Dirs, dir)
	}
}

func (f *Fold) hour(key int64) *Hour {
	h := f.Hours[key]
	if h == nil {
		h = &Hour{Sealed: NotSealed}
		f.Hours[key] = h
	}
	return h
}

func (ref *RecordRef) count(file *File) {
	ref.Files++
	ref.Bytes += file.Bytes
	if file.Hour == nil {
		ref.Quarantined += file.Rows
	} else {
		ref.Rows += file.Rows
	}
}

// SealedBy tells whether an hour was sealed by record n or one before it.
func (f *Fold) SealedBy(hour, n int64) bool {
	h := f.Hours[hour]
	return h != nil && h.Sealed != NotSealed && h.Sealed <= n
}

// Fate is what may still become of a plan; replacedBy is the id of a plan that
// revises it, or "".
func (f *Fold) Fate(planID string, p *Plan, replacedBy string) PlanState {
	mark, named := f.Plans[planID]
	switch {
	case named:
		return mark.State
	case replacedBy != "":
		return PlanReplaced
	case f.Overlap(p) != nil:
		return PlanDead
	default:
		return PlanOpen
	}
}

// Overlap explains why the work of a plan is no longer there to do: another
// record has loaded offsets of its ranges, or retired files it would replace.
// nil = all of it is still to do.
func (f *Fold) Overlap(p *Plan) error {
	if p.Kind == Supersede || p.Kind == Compact {
		return f.overtaken(p)
	}
	for i := range p.Inputs {
		in := &p.Inputs[i]
		have := f.Partitions[in.Key(p.Cluster)]
		if have != nil && have.Covered.Overlaps(in.Range) {
			return fmt.Errorf("%s/%d: offsets of %s are loaded already (loaded: %v)",
				in.Topic, in.Partition, in.Range, have.Covered)
		}
	}
	return nil
}

// overtaken explains why the files a plan reads and replaces are not what they
// were: a plan is of these files, so once a record has retired one or changed
// its bytes there is no work left that the plan could do.
func (f *Fold) overtaken(p *Plan) error {
	for _, name := range p.Retires {
		if err := f.stillThere(name, ""); err != nil {
			return err
		}
	}
	for i := range p.Splits {
		for _, old := range p.Splits[i].Files {
			if err := f.stillThere(old.Path, old.SHA256); err != nil {
				return err
			}
		}
	}
	if p.Kind == Compact {
		return nil
	}
	loaded := map[PartitionKey]offsets.Set{}
	for i := range p.Inputs {
		in := &p.Inputs[i]
		loaded[in.Key(p.Cluster)] = loaded[in.Key(p.Cluster)].Add(in.Range)
	}
	return f.wholeSplits(p.Retires, loaded)
}

// stillThere wants a file to be visible, with these bytes where a hash is given.
func (f *Fold) stillThere(name, hash string) error {
	v := f.Files[name]
	gone, retired := f.Retired[name]
	switch {
	case retired:
		return fmt.Errorf("%s was retired by record %d", name, gone.Number)
	case v == nil:
		return fmt.Errorf("%s is no file of the data set", name)
	case hash != "" && v.SHA256 != hash:
		return fmt.Errorf("%s holds other bytes than were planned with (sha256 %s, now %s)", name, hash, v.SHA256)
	default:
		return nil
	}
}

// CheckStart tells whether a load may start at an offset of a partition: only
// where the coverage from the frozen start ends, so that nothing is skipped or
// doubled. A gap a person accepted lets it start later.
func (f *Fold) CheckStart(key PartitionKey, topic string, start offsets.Offset, gapAccepted bool) error {
	p := f.Partitions[key]
	if p == nil || p.Next() == start || p.Next() < start && gapAccepted {
		return nil
	}
	e := fail(ExitConflict, "%s/%d: a load of this data set continues at offset %d, not at %d",
		topic, key.Partition, p.Next(), start)
	if start < p.Next() {
		return e.hint("load the offsets before %d again with a superseding backfill (backfill --only all), or into another root with replay", p.Next())
	}
	return e.hint("accept the gap with --accept-gap REASON, or load this range into another root with replay")
}

func (f *Fold) visible(want func(*Visible) bool) []*Visible {
	var found []*Visible
	for _, v := range f.Files {
		if want(v) {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, func(a, b *Visible) int { return strings.Compare(a.Path, b.Path) })
	return found
}
