package loader

import (
	"context"
	"errors"
	"fmt"
)

// stoppedError is of work that somebody ended: it says what stands.
type stoppedError struct {
	how   error // context.Canceled, or that the time was up
	state string
	err   error
}

func (e *stoppedError) Error() string { return e.how.Error() + ": " + e.state }

func (e *stoppedError) Unwrap() error { return e.err }

// stopped gives the error of work that somebody ended what stands, and what to do
// next; any other error stays as it is, and so does one that says so already.
func stopped(ctx context.Context, err error, next, state string, args ...any) error {
	how := ctx.Err()
	if err == nil || how == nil {
		return err
	}
	if _, told := errors.AsType[*stoppedError](err); told {
		return err
	}
	e := &Error{Code: ExitInterrupted, Err: &stoppedError{how, fmt.Sprintf(state, args...), err}}
	return e.hint("%s", next)
}

const (
	startsOver = "the same command again; it starts over"
	goesOn     = "the same command, or the next run of the job: it goes on with what is left"
	looks      = "the same command, or the next run of the job: it looks, and goes on from there"
)
