package consumer

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
)

// Reason says in plain words why a cluster, or any server, could not be reached:
// "connection refused", "no such host: k1", "no answer in time". errors.Is and
// errors.As find what the library said. Other errors are returned as they are.
func Reason(err error) error {
	text := reasonText(err)
	if text == "" {
		return err
	}
	return &reason{text, err}
}

func reasonText(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	var sys *os.SyscallError
	var slow interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return "no answer in time"
	case errors.As(err, &dns):
		return "no such host: " + dns.Name
	case errors.As(err, &op) && errors.As(op.Err, &sys):
		return sys.Err.Error()
	case errors.As(err, &op):
		return op.Err.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "the connection was closed"
	}
	return ""
}

type reason struct {
	text string
	err  error
}

func (r *reason) Error() string { return r.text }

func (r *reason) Unwrap() error { return r.err }
