package loader

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"time"

	"sawlog/offsets"
)

// HourText prints a bucket key as people read it: RFC 3339, UTC.
func HourText(key int64) string { return time.Unix(key, 0).UTC().Format(time.RFC3339) }

// Find tells which record a run id, plan id or record number names; of several
// records of one run it is the last that brought or changed files.
func (f *Fold) Find(what string) (RecordRef, bool) {
	best := -1
	for i := len(f.Records) - 1; i >= 0; i-- {
		ref := &f.Records[i]
		if ref.Run != what && ref.Plan != what {
			continue
		}
		if ref.Kind != Amend && ref.Kind != Abandon {
			return *ref, true
		}
		if best < 0 {
			best = i
		}
	}
	if best >= 0 {
		return f.Records[best], true
	}
	if n, err := strconv.ParseInt(what, 10, 64); err == nil && n >= 0 && n <= f.Head {
		return f.Records[n], true
	}
	return RecordRef{}, false
}

// Lookup is Find with an error that says what there is instead.
func (f *Fold) Lookup(what string) (RecordRef, error) {
	ref, ok := f.Find(what)
	if ok {
		return ref, nil
	}
	e := fail(ExitNotFound, "no run, plan or record %q in the ledger of data set %s", what, f.Dataset)
	if f.Head < 0 {
		return ref, e.hint("the ledger holds no record yet")
	}
	last := f.Records[f.Head]
	return ref, e.hint("the ledger holds records 0 to %d; the last is run %s, plan %s", f.Head, last.Run, last.Plan)
}

// VisibleOf lists the files a record brought and that are visible still, in
// order of their paths.
func (f *Fold) VisibleOf(number int64) []*Visible {
	return f.visible(func(v *Visible) bool { return v.Number == number })
}

// All lists every visible file, quarantine files too, in order of the paths.
func (f *Fold) All() []*Visible { return f.visible(func(*Visible) bool { return true }) }

// HoldersOf lists the files that may hold an offset: those of the split that
// loaded it, one per hour the split has rows of, and its quarantine file. Topic
// is a name or a topic id.
func (f *Fold) HoldersOf(topic string, partition int32, at offsets.Offset) []*Visible {
	ids := map[string]bool{}
	for key, p := range f.Partitions {
		if key.Partition == partition && (p.Topic == topic || key.TopicID.String() == topic) {
			ids[key.TopicID.Hex()] = true
		}
	}
	type split struct {
		plan string
		n    int
	}
	holders := map[split]bool{}
	holds := func(v *Visible) bool {
		for _, part := range v.Parts {
			if ids[part.TopicID.Hex()] && part.Partition == partition && part.Contains(at) {
				return true
			}
		}
		name, ok := ParseFileName(path.Base(v.Path))
		if !ok || name.Merged || name.Partition != partition || !name.Contains(at) {
			return false
		}
		for id := range ids {
			if id[:8] == name.TopicID {
				return true
			}
		}
		return false
	}
	for _, v := range f.Files {
		if holds(v) {
			holders[split{v.Plan, v.Split}] = true
		}
	}
	return f.visible(func(v *Visible) bool {
		return holds(v) || v.Hour == nil && holders[split{v.Plan, v.Split}]
	})
}

// Covers tells whether an offset was loaded, in whatever way it was accounted
// for.
func (f *Fold) Covers(topic string, partition int32, at offsets.Offset) bool {
	for key, p := range f.Partitions {
		named := p.Topic == topic || key.TopicID.String() == topic
		if named && key.Partition == partition && p.Covered.Overlaps(offsets.Range{Start: at, End: at + 1}) {
			return true
		}
	}
	return false
}

// The states of an hour of a data set.
const (
	HourFilling = "filling" // has rows, more may come
	HourSealed  = "sealed"  // complete
	HourLate    = "late"    // complete, and rows came after it was
)

// HourState is one bucket as people see it.
type HourState struct {
	Hour    string  `json:"hour"` // RFC 3339, UTC
	Key     int64   `json:"key"`
	State   string  `json:"state"`
	Files   int64   `json:"files"`
	Rows    int64   `json:"rows"`
	Bytes   int64   `json:"bytes"`
	Late    int64   `json:"late"`
	Sealed  *int64  `json:"sealed"` // ledger record; null = open
	Records []int64 `json:"records"`
}

// HourStates lists the hours of [from, to) that have a history, in order; to 0
// = no end.
func (f *Fold) HourStates(from, to int64) []HourState {
	var states []HourState
	for key, h := range f.Hours {
		if key < from || to != 0 && key >= to {
			continue
		}
		s := HourState{
			Hour: HourText(key), Key: key, State: HourFilling,
			Files: h.Files, Rows: h.Rows, Bytes: h.Bytes, Late: h.Late, Records: slices.Clone(h.Touched),
		}
		if h.Sealed != NotSealed {
			sealed := h.Sealed
			s.Sealed, s.State = &sealed, HourSealed
			if h.Late > 0 {
				s.State = HourLate
			}
		}
		states = append(states, s)
	}
	slices.SortFunc(states, func(a, b HourState) int { return cmp.Compare(a.Key, b.Key) })
	return states
}
