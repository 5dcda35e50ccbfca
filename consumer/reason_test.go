package consumer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
)

func TestReason(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for want, err := range map[string]error{
		"connection refused":        fmt.Errorf("unable to dial: %w", refused),
		"no such host: k1":          &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "k1", IsNotFound: true}},
		"no answer in time":         fmt.Errorf("request: %w", context.DeadlineExceeded),
		"the connection was closed": fmt.Errorf("read: %w", io.EOF),
		"something else":            errors.New("something else"),
	} {
		got := Reason(err)
		if got.Error() != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if !errors.Is(got, err) {
			t.Errorf("%q has lost its cause", want)
		}
	}
	slow := Reason(&net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded})
	if slow.Error() != "no answer in time" {
		t.Errorf("a time-out is told as %q", slow)
	}
	if code := classify(refused); !errors.Is(code, ErrUnavailable) || code.Error() != "cluster unavailable: connection refused" {
		t.Errorf("classified: %v", code)
	}
}
