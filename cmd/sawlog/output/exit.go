// Package output is how every verb speaks: data as a table or as JSON on
// standard output, all else on standard error, and one exit code.
package output

import (
	"context"
	"errors"
	"fmt"

	"sawlog/consumer"
	"sawlog/consumer/admin"
	"sawlog/jobs"
	"sawlog/loader"
)

// Exit codes, the same for every verb.
const (
	OK          = 0
	Failed      = 1
	Usage       = 2 // usage or invalid config
	NotFound    = 3
	Conflict    = 4 // conflict, or it exists already
	Auth        = 5
	Unavailable = 6 // unavailable or timed out: try again
	Partial     = 7 // some of it failed, or too many bad records
	Mismatch    = 8 // verification mismatch, or data gone
	Interrupted = 130
	Terminated  = 143
)

// ErrTerminated is the cause of a context that SIGTERM ended.
var ErrTerminated = errors.New("terminated")

// ErrInterrupted is the cause of a context that Ctrl-C ended.
var ErrInterrupted = errors.New("interrupted")

// Error is an error with its exit code and, where there is one, the way out.
type Error struct {
	Code int
	Msg  string
	Hint string
	Err  error
}

func (e *Error) Error() string {
	switch {
	case e.Msg == "" && e.Err != nil:
		return e.Err.Error()
	case e.Err != nil:
		return e.Msg + ": " + e.Err.Error()
	}
	return e.Msg
}

func (e *Error) Unwrap() error { return e.Err }

// ExitCode is the code the process ends with.
func (e *Error) ExitCode() int { return e.Code }

// Advice is the way out of the error, or "".
func (e *Error) Advice() string { return e.Hint }

// Errorf makes an Error with a code.
func Errorf(code int, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Msg: err.Error()}
}

// WithHint adds the way out.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Exit is the error of a command that has said all there is to say; nil for 0.
func Exit(code int) error {
	if code == OK {
		return nil
	}
	return silent(code)
}

type silent int

func (s silent) Error() string { return fmt.Sprintf("exit code %d", int(s)) }

func (s silent) ExitCode() int { return int(s) }

// Code finds the exit code of an error: its own where it has one, else what
// its cause says.
func Code(err error) int {
	if err == nil {
		return OK
	}
	if errors.Is(err, ErrInterrupted) {
		return Interrupted
	}
	if errors.Is(err, ErrTerminated) {
		return Terminated
	}
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	var load *loader.Error
	var wrong jobs.Problems
	var refused *admin.Error
	var partly *admin.Partly
	switch {
	case errors.As(err, &load):
		return load.Code
	case errors.As(err, &partly):
		return Partial
	case errors.As(err, &refused):
		code, _ := kafkaExit(refused.Code)
		return code
	case errors.As(err, &wrong):
		return Usage
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, consumer.ErrUnavailable):
		return Unavailable
	case errors.Is(err, consumer.ErrUnknownTopic):
		return NotFound
	case errors.Is(err, consumer.ErrAuth):
		return Auth
	}
	return Failed
}

// Advice finds the way out an error names, or "".
func Advice(err error) string {
	var advised interface{ Advice() string }
	var load *loader.Error
	var refused *admin.Error
	hint := ""
	switch {
	case errors.As(err, &advised):
		hint = advised.Advice()
	case errors.As(err, &load):
		hint = load.Hint
	case errors.As(err, &refused):
		_, hint = kafkaExit(refused.Code)
	}
	if hint == "" && errors.Is(err, consumer.ErrUnknownTopic) {
		return "sawlog topic list shows the topics of a cluster: is --brokers the one that is meant?"
	}
	if hint == "" && errors.Is(err, consumer.ErrUnavailable) {
		return "are enough brokers up? sawlog cluster status tells who answers, sawlog doctor connect HOST:PORT why one does not"
	}
	return hint
}
