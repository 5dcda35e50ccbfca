package loader

import (
	"sawlog/formats"
	"sawlog/offsets"
)

// Result is what one attempt of a split reports in its result.json, written
// last into the attempt's folder.
type Result struct {
	V       int    `json:"v"`
	Plan    string `json:"plan"`
	Split   int    `json:"split"`
	Attempt string `json:"attempt"`
	// Inputs counts each range of the split.
	Inputs []Input `json:"inputs"`
	Files  []File  `json:"files"`
	// Unknown is set, and Files is empty, when the records hold paths the
	// plan's schema does not: what inference saw on the whole split.
	Unknown *formats.Report `json:"unknown,omitempty"`
	Drift   []Drift         `json:"drift,omitempty"` // what the quarantined records of reason type are
	// Notes counts things worth showing, such as duplicate_keys, replaced_utf8.
	Notes map[string]int64 `json:"notes,omitempty"`
}

// Input accounts for one range: End − Start = Data + Skipped + Quarantined +
// Control + Aborted + Compacted + Gap.
type Input struct {
	Cluster   string          `json:"cluster"`
	TopicID   offsets.TopicID `json:"topicId"`
	Topic     string          `json:"topic"`
	Partition int32           `json:"partition"`
	offsets.Range
	Account
	// Watermark is the largest plausible event time seen, in microseconds;
	// math.MinInt64 = none.
	Watermark int64 `json:"watermark"`
}

// File is one file of a split, staged and then published.
type File struct {
	Stage  string `json:"stage"` // path of the staged file, relative to the root
	Path   string `json:"path"`  // final path, relative to the root
	Hour   *int64 `json:"hour"`  // bucket key: UTC start of the unit, seconds since the epoch; null = quarantine
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Digest string `json:"digest"` // logical digest of the rows
	Rows   int64  `json:"rows"`
	Late   int64  `json:"late"` // rows that came after the hour was sealed
	// Parts are the ranges of a merged file; empty for a split of one range.
	Parts []SplitRange `json:"parts,omitempty"`
	// Values are those of the bucket rule's fields, as its folder has them.
	Values []string `json:"values,omitempty"`
}
