package console

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/consumer/admin"
	"sawlog/jobs"
)

// refusedBy makes a refusal of what brokers refused; the kind of it says whether
// another form or another moment would help.
func refusedBy(err error) error {
	code, _ := errors.AsType[*kerr.Error](err)
	var kind error
	switch code {
	case kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.GroupIDNotFound:
		kind = jobs.ErrNotFound
	case kerr.TopicAlreadyExists, kerr.NonEmptyGroup, kerr.GroupSubscribedToTopic, kerr.ReassignmentInProgress:
		kind = jobs.ErrConflict
	case kerr.InvalidConfig, kerr.InvalidPartitions, kerr.InvalidReplicationFactor, kerr.InvalidReplicaAssignment,
		kerr.InvalidTopicException, kerr.InvalidRequest, kerr.PolicyViolation, kerr.OffsetOutOfRange:
		kind = jobs.ErrInvalid
	default:
		return err
	}
	return &jobs.Refusal{Kind: kind, Msg: err.Error()}
}

// done is the error of a deed: what brokers refused, or, where none of them said
// so, that it may be done all the same. Where it may be, or some of it is, the page
// that shows how it came out is to be looked at.
func done(err error, look string) error {
	_, partly := errors.AsType[*admin.Partly](err)
	switch what := "it was"; {
	case admin.Unsure(err):
		if partly {
			what = "the others were"
		}
		return &outcomeError{fmt.Errorf("whether %s done is not known: %w", what, err), look}
	case partly:
		return &outcomeError{refusedBy(err), look}
	}
	return refusedBy(err)
}

// outcomeError is the error of a deed of which not nothing was done.
type outcomeError struct {
	err  error
	look string // the page that shows how it came out
}

func (e *outcomeError) Error() string { return e.err.Error() }

func (e *outcomeError) Unwrap() error { return e.err }

// Advice is where to look.
func (e *outcomeError) Advice() string { return "look at " + e.look + " before anything is done again" }

// record logs a deed as it came out.
func (k *console) record(deed string, err error, about ...any) {
	about = append(about, "by", by)
	if err != nil {
		k.Logger.Warn("a deed failed", append([]any{"deed", deed, "err", err}, about...)...)
		return
	}
	k.Logger.Info(deed, about...)
}
