package loader

import "sawlog/offsets"

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

	// Number is the ledger record that committed the run; -1 = none.
	Number int64 `json:"-"`
	// Notes counts things worth showing, such as duplicate_keys.
	Notes map[string]int64 `json:"-"`
}

// OutcomeRange accounts for the range of one partition.
type OutcomeRange struct {
	Topic       string         `json:"topic"`
	Partition   int32          `json:"partition"`
	Start       offsets.Offset `json:"start"`
	End         offsets.Offset `json:"end"`
	Data        int64          `json:"data"`
	Skipped     int64          `json:"skipped"`
	Quarantined int64          `json:"quarantined"`
	Control     int64          `json:"control"`
	Aborted     int64          `json:"aborted"`
	Compacted   int64          `json:"compacted"`
	Gap         int64          `json:"gap"`
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
