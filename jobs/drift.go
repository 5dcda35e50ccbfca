package jobs

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"sawlog/loader"
)

// Drift is one way in which the records of a job no longer fit the schema of a
// data set, over the runs that are kept.
type Drift struct {
	Dataset string `json:"dataset"`
	loader.Drift
	Since   string    `json:"since"` // the first run that met it
	SinceAt time.Time `json:"since_at"`
	Last    string    `json:"last"` // the last one
	LastAt  time.Time `json:"last_at"`
	Hint    string    `json:"hint"` // the way out
}

// drift lists what the runs of a job met that its schema can't hold, most records
// first. What no run has met since the job was last applied is over.
func (f *fold) drift(j *jobState) []Drift {
	type kind struct {
		dataset string
		loader.Drift
	}
	met := map[kind]*Drift{}
	for _, r := range f.byJob[j.Name] { // in queue order
		if r.Open() {
			continue
		}
		for _, d := range r.Drift {
			key := kind{r.Dataset, d}
			key.Records = 0
			m := met[key]
			if m == nil {
				m = &Drift{Dataset: r.Dataset, Drift: key.Drift, Since: r.Run, SinceAt: r.Ended}
				met[key] = m
			}
			m.Records += d.Records
			m.Last, m.LastAt = r.Run, r.Ended
		}
	}
	var out []Drift
	for _, m := range met {
		if m.LastAt.Before(j.At) {
			continue
		}
		m.Hint = m.WayOut(m.Dataset, m.Since)
		out = append(out, *m)
	}
	slices.SortFunc(out, func(a, b Drift) int {
		return cmp.Or(cmp.Compare(b.Records, a.Records), strings.Compare(a.Dataset, b.Dataset), strings.Compare(a.Column, b.Column), strings.Compare(a.Seen, b.Seen))
	})
	return out
}
