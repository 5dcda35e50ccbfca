package formats

import (
	"fmt"
	"io"
)

// Output is where the writer of a file puts its bytes: it passes them on, counts
// them and keeps the first error for ever, which encoders of others drop.
type Output struct {
	To    io.Writer
	Bytes int64
	Err   error
}

func (o *Output) Write(b []byte) (int, error) {
	if o.Err != nil {
		return 0, o.Err
	}
	n, err := o.To.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	o.Bytes += int64(n)
	o.Err = err
	return n, err
}

// Recovered, deferred, turns a panic of an encoder or a reader of others into an
// error; what names them.
func Recovered(what string, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%s: %v", what, r)
	}
}
