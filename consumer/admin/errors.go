package admin

import (
	"cmp"
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

// refusals gathers what a broker refused of many things: the first is told, or the
// first that may have been done all the same, the others are counted.
type refusals struct {
	first error
	more  int
	done  int // was not refused
}

func (r *refusals) add(err error) {
	switch {
	case err == nil:
		r.done++
	case r.first == nil:
		r.first = err
	default:
		if r.more++; !Unsure(r.first) && Unsure(err) {
			r.first = err
		}
	}
}

func (r *refusals) err() error {
	if r.more == 0 {
		return r.first
	}
	return fmt.Errorf("%w, and %d more like it", r.first, r.more)
}

// deed is the error of something that was to be done to each.
func (r *refusals) deed() error {
	if r.first == nil || r.done == 0 {
		return r.err()
	}
	return &Partly{Done: r.done, Of: r.done + 1 + r.more, Err: r.err()}
}

// deeds tells to which of all a deed was done, by what was told of each; failed is
// why nothing was told of some.
func deeds[K comparable](what string, all []K, told map[K]error, failed error) (done []K, err error) {
	var sum refusals
	for _, k := range all {
		err, known := told[k]
		if !known {
			err = fmt.Errorf("%s%v: %w", what, k, cmp.Or(failed, errSilent))
		}
		if sum.add(err); err == nil {
			done = append(done, k)
		}
	}
	return done, sum.deed()
}

// Partly is the error of a deed that was done to some of what it was asked for: for
// good, whatever became of the others.
type Partly struct {
	Done, Of int
	Err      error // of the others
}

func (e *Partly) Error() string { return fmt.Sprintf("%d of %d were done: %v", e.Done, e.Of, e.Err) }

// Unwrap leads to the error of what was not done.
func (e *Partly) Unwrap() error { return e.Err }

// Unsure tells whether, after the error of a deed, it may be done all the same: no
// broker refused it, or one says that it waited for others in vain.
func Unsure(err error) bool {
	code, refused := errors.AsType[*kerr.Error](err)
	return err != nil && (!refused || code == kerr.RequestTimedOut || code == kerr.NetworkException)
}

// Joined tells whether a group refused offsets because it has members.
func Joined(err error) bool {
	code, _ := errors.AsType[*kerr.Error](err)
	switch code {
	case kerr.NonEmptyGroup, kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress, kerr.StaleMemberEpoch, kerr.FencedMemberEpoch:
		return true
	}
	return false
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
