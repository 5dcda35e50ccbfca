package parquet

import (
	"bytes"
	"io"
)

// stickySink passes bytes on, counts them and keeps the first error for ever:
// arrow v15 drops errors of its sink. Once held is set, bytes go there instead.
type stickySink struct {
	w    io.Writer
	n    int64
	err  error
	held *bytes.Buffer
}

func (s *stickySink) Write(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.held != nil {
		return s.held.Write(b)
	}
	n, err := s.w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	s.n += int64(n)
	s.err = err
	return n, err
}
