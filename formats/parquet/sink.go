package parquet

import (
	"bytes"

	"sawlog/formats"
)

// stickySink is the output of a file. Once held is set, bytes go there instead.
type stickySink struct {
	formats.Output
	held *bytes.Buffer
}

func (s *stickySink) Write(b []byte) (int, error) {
	if s.held != nil && s.Err == nil {
		return s.held.Write(b)
	}
	return s.Output.Write(b)
}
