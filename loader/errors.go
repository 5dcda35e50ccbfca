package loader

import (
	"errors"
	"fmt"
)

// The exit codes an Error carries; they are those of the command line.
const (
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitConflict    = 4
	ExitAuth        = 5
	ExitUnavailable = 6 // retryable
	ExitPartial     = 7 // too many bad records
	ExitMismatch    = 8 // verification mismatch, or data gone
	ExitInterrupted = 130
)

// Error is an error with the exit code it ends a command with, and what the
// person who meets it can do.
type Error struct {
	Code int
	Msg  string
	Hint string
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Msg
	}
	if e.Msg == "" {
		return e.Err.Error()
	}
	return e.Msg + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// fail makes an Error without a cause.
func fail(code int, format string, args ...any) *Error {
	return &Error{Code: code, Msg: fmt.Sprintf(format, args...)}
}

// hint adds what to do.
func (e *Error) hint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// ExitCode is the exit code of err: 0 for nil, that of the Error in its chain,
// 1 where there is none.
func ExitCode(err error) int {
	var e *Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.Code
	default:
		return ExitFailed
	}
}
