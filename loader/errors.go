package loader

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"sawlog/consumer"
	"sawlog/loader/sink"
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

// ErrGone is in the chain of errors that say what the log no longer gives: offsets
// that retention, compaction or a crash took, a topic that was deleted, or, of a
// rewrite, the files it replaced once they are swept. Their exit codes alone don't tell, for a cluster manager's errors have the same.
var ErrGone = errors.New("the log no longer has it")

// Error is an error with the exit code it ends a command with, and what the
// person who meets it can do.
type Error struct {
	Code int
	Msg  string
	Hint string
	Err  error
	Gone bool // it is ErrGone
}

// Is tells errors.Is that the error is ErrGone.
func (e *Error) Is(target error) bool { return e.Gone && target == ErrGone }

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

// coded gives every error its exit code: those of the source and the sink by
// what they say, context errors none, and the rest other.
func coded(err error, other int) error {
	var have *Error
	if err == nil || errors.As(err, &have) || errors.Is(err, context.Canceled) {
		return err
	}
	var (
		gap      *consumer.GapError
		hole     *consumer.HoleError
		short    *consumer.ShortError
		cut      *consumer.CutError
		corrupt  *consumer.CorruptError
		oversize *consumer.OversizeError
		stored   *sink.Error
	)
	e := &Error{Code: other, Err: err}
	switch {
	case errors.As(err, &gap):
		e.Code, e.Gone, e.Hint = ExitMismatch, true, "go on without them with --accept-gap REASON, which the ledger keeps"
	case errors.As(err, &corrupt) && errors.Is(err, consumer.ErrTooLarge), errors.As(err, &oversize):
		e.Code, e.Hint = ExitConflict, "give more --memory, or run fewer tasks at a time with --parallelism"
	case errors.As(err, &hole), errors.As(err, &short), errors.As(err, &cut), errors.As(err, &corrupt):
		e.Code, e.Gone = ExitMismatch, true
	case errors.Is(err, consumer.ErrUnknownTopic):
		e.Code, e.Gone = ExitNotFound, true
	case errors.Is(err, consumer.ErrAuth), errors.Is(err, fs.ErrPermission):
		e.Code = ExitAuth
	case errors.Is(err, sink.ErrRefused):
		e.Code = ExitConflict
	case errors.Is(err, consumer.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		e.Code = ExitUnavailable
	case errors.As(err, &stored) && stored.Class != sink.Permanent:
		e.Code = ExitUnavailable
	}
	return e
}

// at names the root in an error of the file store, whose paths are relative to
// it; other errors say all there is to say.
func at(root string, err error) error {
	var stored *sink.Error
	if err == nil || !errors.As(err, &stored) {
		return err
	}
	e := &Error{Code: ExitCode(err), Msg: root, Err: err}
	if have := (*Error)(nil); errors.As(err, &have) {
		e.Hint = have.Hint
	}
	return e
}
