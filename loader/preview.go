package loader

import "sawlog/offsets"

// Preview is what a plan would do. Ranges and splits are exact; rows are an
// upper bound and hours and sizes estimates, unless Exact.
type Preview struct {
	Plan      string         `json:"plan"`   // id the plan would get
	Status    string         `json:"status"` // ready | covered | resume
	Exact     bool           `json:"exact"`  // the log was read (--scan)
	Ranges    []PreviewRange `json:"ranges"`
	Splits    []PreviewSplit `json:"splits"`
	Rows      int64          `json:"rows"`
	RowsAre   string         `json:"rows_are"` // upper_bound | exact
	Bytes     int64          `json:"bytes"`
	BytesAre  string         `json:"bytes_are"` // estimate
	Hours     []PreviewHour  `json:"hours"`
	HoursAre  string         `json:"hours_are"` // estimate | exact
	Bad       int64          `json:"bad,omitempty"`     // scan only
	Skipped   int64          `json:"skipped,omitempty"` // scan only
	Columns   []string       `json:"columns,omitempty"` // new columns a scan found
	Retires   []string       `json:"retires,omitempty"`
}

// PreviewRange is the frozen range of one partition.
type PreviewRange struct {
	Topic     string         `json:"topic"`
	Partition int32          `json:"partition"`
	Start     offsets.Offset `json:"start"`
	End       offsets.Offset `json:"end"`
	Gap       int64          `json:"gap,omitempty"`
}

// PreviewSplit is one split and its estimated size.
type PreviewSplit struct {
	Index  int          `json:"index"`
	Ranges []SplitRange `json:"ranges"`
	Bytes  int64        `json:"bytes"` // estimate, of the log
}

// PreviewHour is one bucket a plan would write to.
type PreviewHour struct {
	Hour string `json:"hour"` // RFC 3339, UTC
	Rows int64  `json:"rows"` // 0 when not known
}
