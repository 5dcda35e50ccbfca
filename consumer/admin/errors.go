package admin

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/consumer"
	"sawlog/offsets"
)

// Error is what a broker refused.
type Error struct {
	What string // it was about: "topic orders", "orders/3"; "" = nothing in particular
	Code *kerr.Error
	Said string // by the broker, besides the code; "" = nothing

	partition bool // What ends in a topic's partition
}

func (e *Error) Error() string {
	if e.What == "" {
		return e.why()
	}
	return e.What + ": " + e.why()
}

// why is what the broker says, whatever it is about.
func (e *Error) why() string {
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
	return text + " (" + e.Code.Message + ")"
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
	return &Error{What: what, Code: known, Said: deref(said)}
}

// partitionRefusal is refusal for something of a partition, such as "records of ".
func partitionRefusal(of string, tp offsets.TopicPartition, code int16, said *string) error {
	err := refusal(of+tp.String(), code, said)
	if e, refused := err.(*Error); refused {
		e.partition = true
	}
	return err
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

var errSilent = consumer.ErrSilent

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
