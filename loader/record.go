package loader

import "sawlog/formats"

// Kind says what a ledger record, or the plan behind it, does.
type Kind string

// The kinds of ledger records.
const (
	Load      Kind = "load"
	Backfill  Kind = "backfill"
	Supersede Kind = "supersede"
	Compact   Kind = "compact"
	Drop      Kind = "drop"
	Seal      Kind = "seal"
	Abandon   Kind = "abandon"
	Amend     Kind = "amend"
)

// Record is one ledger record: commit.json of its number.
type Record struct {
	V             int             `json:"v"`
	Number        int64           `json:"number"`
	Prev          string          `json:"prev"` // sha256 of the bytes of record Number−1; "" for 0
	Nonce         string          `json:"nonce"`
	Dataset       string          `json:"dataset"`
	Job           string          `json:"job"`
	Run           string          `json:"run"`
	Tick          string          `json:"tick,omitempty"`
	At            int64           `json:"at"` // milliseconds since the epoch
	By            string          `json:"by"`
	Why           string          `json:"why,omitempty"`
	SourceMutable bool            `json:"source_mutable"`
	Kind          Kind            `json:"kind"`
	Plan          string          `json:"plan,omitempty"`
	Base          int64           `json:"base"`
	Published     int64           `json:"published"` // Number−1, known to be published; -1 for 0
	Schema        *formats.Schema `json:"schema,omitempty"`
	Inputs        []Input         `json:"inputs,omitempty"`
	Files         []File          `json:"files,omitempty"`
	FilesRef      string          `json:"files_ref,omitempty"` // plans/<plan>/files-<sha>.jsonl holds Files
	Retires       []string        `json:"retires,omitempty"`
	Sealed        []int64         `json:"sealed,omitempty"` // bucket keys sealed by this record
}
