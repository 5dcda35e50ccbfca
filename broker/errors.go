package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/broker/controller"
	"sawlog/broker/log"
	"sawlog/broker/record"
	"sawlog/broker/replica"
)

// codeOf is Kafka's error code of an error, for the reply. What nobody foresaw
// is UNKNOWN_SERVER_ERROR, but never in answer to an append: a producer would
// take it for a reason to write the records again under a new epoch.
func codeOf(err error) int16 {
	if err == nil {
		return 0
	}
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Code
	}
	var outside *log.ErrOffsetOutOfRange
	if errors.As(err, &outside) {
		return kerr.OffsetOutOfRange.Code
	}
	var corrupt *log.CorruptError
	if errors.As(err, &corrupt) {
		return kerr.CorruptMessage.Code
	}
	for _, c := range codes() {
		if errors.Is(err, c.err) {
			return c.code.Code
		}
	}
	return kerr.UnknownServerError.Code
}

type code struct {
	err  error
	code *kerr.Error
}

// codes is the one table from the errors of the rooms below to Kafka's.
func codes() []code {
	return []code{
		{replica.ErrNotLeader, kerr.NotLeaderForPartition},
		{replica.ErrFencedEpoch, kerr.FencedLeaderEpoch},
		{replica.ErrUnknownEpoch, kerr.UnknownLeaderEpoch},
		{replica.ErrNotEnoughReplicas, kerr.NotEnoughReplicas},
		{replica.ErrNotEnoughAfterAppend, kerr.NotEnoughReplicasAfterAppend},
		{replica.ErrOffsetNotAvailable, kerr.OffsetNotAvailable},
		{replica.ErrGone, kerr.UnknownTopicOrPartition},

		{log.ErrOutOfOrderSequence, kerr.OutOfOrderSequenceNumber},
		{log.ErrInvalidProducerEpoch, kerr.InvalidProducerEpoch},
		{log.ErrBatchTooLarge, kerr.MessageTooLarge},
		{log.ErrNoSpace, kerr.KafkaStorageError},
		{log.ErrFailed, kerr.KafkaStorageError},
		{log.ErrClosed, kerr.NotLeaderForPartition},

		{record.ErrMagic, kerr.UnsupportedForMessageFormat},
		{record.ErrUnsupportedCodec, kerr.UnsupportedCompressionType},
		{record.ErrTimestamp, kerr.InvalidTimestamp},
		{record.ErrInvalid, kerr.InvalidRecord},
		{record.ErrCorrupt, kerr.CorruptMessage},
		{record.ErrTooLarge, kerr.CorruptMessage},

		{controller.ErrTopicExists, kerr.TopicAlreadyExists},
		{controller.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
		{controller.ErrUnknownPartition, kerr.UnknownTopicOrPartition},
		{controller.ErrInvalidTopic, kerr.InvalidTopicException},
		{controller.ErrInvalidPartitions, kerr.InvalidPartitions},
		{controller.ErrInvalidFactor, kerr.InvalidReplicationFactor},
		{controller.ErrInvalidAssignment, kerr.InvalidReplicaAssignment},
		{controller.ErrInvalidConfig, kerr.InvalidConfig},
		{controller.ErrUnknownBroker, kerr.BrokerIDNotRegistered},
		{controller.ErrDuplicateBroker, kerr.DuplicateBrokerRegistration},
		{controller.ErrStaleBrokerEpoch, kerr.StaleBrokerEpoch},
		{controller.ErrFormatLevel, kerr.UnsupportedVersion},
		{controller.ErrElectionNotNeeded, kerr.ElectionNotNeeded},
		{controller.ErrNoReassignment, kerr.NoReassignmentInProgress},
		{controller.ErrNotEligibleLeader, kerr.EligibleLeadersNotAvailable},
		{controller.ErrTooLarge, kerr.PolicyViolation},
		{controller.ErrNotController, kerr.NotController},
		{controller.ErrUncertain, kerr.RequestTimedOut},
		{controller.ErrClosed, kerr.NotController},

		{context.DeadlineExceeded, kerr.RequestTimedOut},
		{context.Canceled, kerr.NotController},
	}
}

// refusal is a request answered with an error code and words of its own.
type refusal struct {
	code *kerr.Error
	text string
}

func (r *refusal) Error() string { return r.text }

func (r *refusal) Unwrap() error { return r.code }

// refuse makes a refusal. The words are Kafka's where its tools show them.
func refuse(code *kerr.Error, format string, args ...any) error {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// codeAndText is what admin replies carry.
func codeAndText(err error) (int16, *string) {
	if err == nil {
		return 0, nil
	}
	text := err.Error()
	if known, ok := err.(*kerr.Error); ok { // a wrapped one comes with words of its own
		text = known.Description
	}
	return codeOf(err), &text
}

// appendCode is codeOf for a failed append: what nobody foresaw becomes a
// retriable code that a producer answers by sending the same batch again.
func appendCode(err error) int16 {
	c := codeOf(err)
	if c == kerr.UnknownServerError.Code {
		return kerr.KafkaStorageError.Code
	}
	return c
}
