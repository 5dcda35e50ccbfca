package loader

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"sawlog/formats"
)

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
	Drift         []Drift         `json:"drift,omitempty"`  // what quarantined records of reason type are
	NewColumns    []Column        `json:"new_columns,omitempty"`
	Profile       int             `json:"profile,omitempty"` // amend: the writer profile its files were made with
	// Sum is the sha256 of the canonical JSON of the record without it: nothing
	// else would notice a damaged last record.
	Sum string `json:"sum"`
}

// maxInlineFiles is how many files stand in the record itself; longer lists go
// to a file of their own, named by its hash.
const maxInlineFiles = 1000

// Encode is the record's file: canonical JSON and a newline, with its Sum set.
// Files stand elsewhere when FilesRef is set. hash is what the next record
// calls Prev.
func (rec *Record) Encode() (data []byte, hash string, err error) {
	out := *rec
	if out.FilesRef != "" {
		out.Files = nil
	}
	if out.Sum, err = out.checksum(); err != nil {
		return nil, "", err
	}
	if data, err = Canonical(&out); err != nil {
		return nil, "", err
	}
	rec.Sum = out.Sum
	data = append(data, '\n')
	return data, sum(data), nil
}

func (rec *Record) checksum() (string, error) {
	bare := *rec
	bare.Sum = ""
	data, err := Canonical(&bare)
	return sum(data), err
}

// DecodeRecord reads the file of record n. Files listed elsewhere are not read.
func DecodeRecord(n int64, data []byte) (*Record, error) {
	damaged := func(err error) error { return &RecordError{Number: n, Rule: "form", Err: err} }
	var rec Record
	if err := decodeStrict(data, &rec); err != nil {
		return nil, damaged(err)
	}
	said := rec.Sum
	again, _, err := rec.Encode()
	switch {
	case err != nil:
		return nil, damaged(err)
	case said != rec.Sum:
		return nil, damaged(fmt.Errorf("sum is %q, its content has %q", said, rec.Sum))
	case !bytes.Equal(again, data):
		return nil, damaged(errors.New("is not in canonical form"))
	case rec.Number != n:
		return nil, damaged(fmt.Errorf("says it is number %d", rec.Number))
	}
	return &rec, nil
}

// decodeStrict reads one JSON value that has no unknown keys and nothing after
// it but white space.
func decodeStrict(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("byte %d: %w", dec.InputOffset(), err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("byte %d: something follows the value", dec.InputOffset())
	}
	return nil
}

// encodeFiles is the list of a commit's files that is too long for the record:
// one canonical JSON object a line.
func encodeFiles(files []File) (data []byte, err error) {
	for i := range files {
		line, err := Canonical(&files[i])
		if err != nil {
			return nil, err
		}
		data = append(append(data, line...), '\n')
	}
	return data, nil
}

func decodeFiles(data []byte) ([]File, error) {
	var files []File
	for n := 1; len(data) > 0; n++ {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		if !whole {
			return nil, fmt.Errorf("line %d is cut off", n)
		}
		var file File
		if err := decodeStrict(line, &file); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		files, data = append(files, file), rest
	}
	return files, nil
}
