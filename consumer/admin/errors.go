package admin

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/consumer"
)

// Error is what a broker refused.
type Error struct {
	What string // it was about: "topic orders", "orders/3"; "" = nothing in particular
	Code *kerr.Error
	Said string // by the broker, besides the code; "" = nothing
}

func (e *Error) Error() string {
	text := e.Said
	if text == "" {
		text = strings.TrimSuffix(e.Code.Description, ".")
		switch e.Code {
		case kerr.UnknownTopicOrPartition, kerr.UnknownTopicID:
			text = "no such topic or partition"
		case kerr.TopicAlreadyExists:
			text = "it is there already"
		}
	}
	text += " (" + e.Code.Message + ")"
	if e.What == "" {
		return text
	}
	return e.What + ": " + text
}

// Unwrap leads to the code and to what it means.
func (e *Error) Unwrap() error { return consumer.CodeError(e.Code.Code) }

// refusal is nil for code 0; what names the thing the code is about, said is what
// the broker said besides.
func refusal(what string, code int16, said *string) error {
	known := kerr.TypedErrorForCode(code)
	if known == nil {
		return nil
	}
	return &Error{what, known, deref(said)}
}

// refusals gathers what a broker refused of many things: the first is told, the
// others are counted.
type refusals struct {
	first error
	more  int
}

func (r *refusals) add(err error) {
	switch {
	case err == nil:
	case r.first == nil:
		r.first = err
	default:
		r.more++
	}
}

func (r *refusals) err() error {
	if r.more == 0 {
		return r.first
	}
	return fmt.Errorf("%w, and %d more like it", r.first, r.more)
}

// oneAnswer is the first of a list, of which a broker left out the only one.
func oneAnswer[T any](what string, list []T) (*T, error) {
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: %w", what, errSilent)
	}
	return &list[0], nil
}

var errSilent = errors.New("the broker answered, and said nothing of it")

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
