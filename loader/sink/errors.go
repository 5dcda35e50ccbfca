package sink

import (
	"errors"
	"fmt"
	"io/fs"
)

// ErrExist and ErrNotExist are what callers branch on; they are those of io/fs,
// so that errors.Is works with either name.
var (
	ErrExist    = fs.ErrExist
	ErrNotExist = fs.ErrNotExist
)

// ErrRefused says that the store works and won't do this, for a reason a person
// has to change: a quota, a kind of folder it can't be used with. The error it
// stands in names the reason.
var ErrRefused = errors.New("refused by the store")

// ErrSwept is of a put whose bytes were swept away before they had their name, since
// who put them stood still for a day. It may be repeated.
var ErrSwept = errors.New("was swept away before it had its name")

var errUnclean = errors.New("not a clean relative path")

// Class says what a caller may do about an error.
type Class uint8

const (
	// Permanent: the same call would fail again.
	Permanent Class = iota
	// Retryable: nothing was changed, the same call may work later.
	Retryable
	// Ambiguous: the call may or may not have worked; look, then decide.
	Ambiguous
)

// String names the class.
func (c Class) String() string {
	switch c {
	case Permanent:
		return "permanent"
	case Retryable:
		return "retryable"
	case Ambiguous:
		return "ambiguous"
	default:
		return fmt.Sprintf("class(%d)", uint8(c))
	}
}

// Error is an error of a sink: which operation, on which path, and what may be
// done about it.
type Error struct {
	Op    string
	Path  string
	Class Class
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.Path, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// ClassOf is the class of an error; one that no sink made is Permanent.
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return Permanent
}
