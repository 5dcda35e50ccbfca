package console

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/consumer"
	"sawlog/consumer/admin"
	"sawlog/jobs"
)

// refusedBy makes a refusal of what brokers refused; the kind of it says whether
// another form or another moment would help.
func refusedBy(err error) error {
	e, ok := errors.AsType[*admin.Error](err)
	if !ok {
		return err
	}
	refusal := &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: e.Error()}
	switch e.Code {
	case kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.GroupIDNotFound:
		refusal.Kind = jobs.ErrNotFound
	case kerr.TopicAlreadyExists, kerr.NonEmptyGroup, kerr.GroupSubscribedToTopic, kerr.ReassignmentInProgress:
		refusal.Kind = jobs.ErrConflict
	case kerr.InvalidConfig, kerr.InvalidPartitions, kerr.InvalidReplicationFactor, kerr.InvalidReplicaAssignment,
		kerr.InvalidTopicException, kerr.InvalidRequest, kerr.PolicyViolation, kerr.OffsetOutOfRange:
	default:
		if e.Code.Retriable {
			return fmt.Errorf("%w: %w", consumer.ErrUnavailable, err)
		}
		return err
	}
	return refusal
}

// done is the error of a deed: what brokers refused, or, where none of them said
// so, that it may be done all the same.
func done(err error, look string) error {
	if _, refused := errors.AsType[*admin.Error](err); refused || err == nil {
		return refusedBy(err)
	}
	return fmt.Errorf("whether it was done is not known, look at %s: %w", look, err)
}
