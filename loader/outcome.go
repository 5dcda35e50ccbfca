package loader

import (
	"cmp"
	"slices"

	"sawlog/offsets"
)

// Outcome is how a run ended; its JSON is the one people and scripts read.
type Outcome struct {
	Run         string         `json:"run"`
	Job         string         `json:"job"`
	Status      string         `json:"status"` // committed | covered | failed | interrupted
	Plan        string         `json:"plan"`
	Rows        int64          `json:"rows"`
	Quarantined int64          `json:"quarantined"`
	Skipped     int64          `json:"skipped"`
	Files       int64          `json:"files"`
	Bytes       int64          `json:"bytes"`
	Ranges      []OutcomeRange `json:"ranges"`
	Hours       []OutcomeHour  `json:"hours"`
	Drift       []Drift        `json:"drift,omitempty"`       // what the records of reason type in quarantine are
	NewColumns  []Column       `json:"new_columns,omitempty"` // that the data set had not before

	// Number is the ledger record that holds the run's work; -1 = none.
	Number int64 `json:"-"`
	// Notes counts things worth showing, such as duplicate_keys.
	Notes map[string]int64 `json:"-"`
}

// OutcomeRange accounts for the range of one partition.
type OutcomeRange struct {
	Topic     string         `json:"topic"`
	Partition int32          `json:"partition"`
	Start     offsets.Offset `json:"start"`
	End       offsets.Offset `json:"end"`
	Account
}

// OutcomeHour is one bucket a run wrote to.
type OutcomeHour struct {
	Hour string `json:"hour"` // RFC 3339, UTC
	Rows int64  `json:"rows"`
	Late int64  `json:"late"`
}

// The ways a run ends.
const (
	StatusCommitted   = "committed"
	StatusCovered     = "covered"
	StatusFailed      = "failed"
	StatusInterrupted = "interrupted"
)

// OutcomeOf is the outcome of the run a ledger record was written by.
func OutcomeOf(rec *Record) *Outcome {
	out := &Outcome{
		Run: rec.Run, Job: rec.Job, Status: StatusCommitted, Plan: rec.Plan,
		Ranges: []OutcomeRange{}, Hours: []OutcomeHour{}, Number: rec.Number, Drift: rec.Drift, NewColumns: rec.NewColumns,
	}
	out.count(rec.Inputs, rec.Files)
	return out
}

// outcome is that of this run's record or, without one, of what it staged.
func (r *run) outcome(rec *Record) *Outcome {
	var out *Outcome
	if rec != nil {
		out = OutcomeOf(rec)
		out.Run = r.ask.Run
	} else {
		out = &Outcome{
			Run: r.ask.Run, Job: r.plan.Job, Plan: r.planID,
			Ranges: []OutcomeRange{}, Hours: []OutcomeHour{}, Number: -1, Drift: driftOf(onePerSplit(r.results)),
		}
	}
	out.Notes = map[string]int64{}
	for _, res := range onePerSplit(r.results) {
		if rec == nil {
			out.count(res.Inputs, res.Files)
		}
		for note, n := range res.Notes {
			out.Notes[note] += n
		}
	}
	return out
}

// count adds ranges and files.
func (o *Outcome) count(inputs []Input, files []File) {
	for i := range inputs {
		in := &inputs[i]
		if in.Empty() {
			continue
		}
		o.Skipped += in.Skipped
		o.Ranges = append(o.Ranges, OutcomeRange{
			Topic: in.Topic, Partition: in.Partition, Start: in.Start, End: in.End, Account: in.Account,
		})
	}
	for i := range files {
		f := &files[i]
		o.Files++
		o.Bytes += f.Bytes
		if f.Hour == nil {
			o.Quarantined += f.Rows
			continue
		}
		o.Rows += f.Rows
		o.hour(*f.Hour, f.Rows, f.Late)
	}
}

func (o *Outcome) hour(key, rows, late int64) {
	hour := HourText(key)
	i, found := slices.BinarySearchFunc(o.Hours, hour, func(h OutcomeHour, to string) int { return cmp.Compare(h.Hour, to) })
	if !found {
		o.Hours = slices.Insert(o.Hours, i, OutcomeHour{Hour: hour})
	}
	o.Hours[i].Rows += rows
	o.Hours[i].Late += late
}
