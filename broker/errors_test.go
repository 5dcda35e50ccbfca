package broker

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/broker/log"
	"sawlog/broker/record"
	"sawlog/broker/replica"
)

// TestCodesOfReplication holds the codes that a broker alone never answers, and
// those on which a producer's retry depends: what an append failed of for reasons
// nobody foresaw is never UNKNOWN_SERVER_ERROR.
func TestCodesOfReplication(t *testing.T) {
	for _, tc := range []struct {
		err              error
		code, ofAnAppend *kerr.Error
	}{
		{replica.ErrNotLeader, kerr.NotLeaderForPartition, kerr.NotLeaderForPartition},
		{replica.ErrNotEnoughReplicas, kerr.NotEnoughReplicas, kerr.NotEnoughReplicas},
		{replica.ErrNotEnoughAfterAppend, kerr.NotEnoughReplicasAfterAppend, kerr.NotEnoughReplicasAfterAppend},
		{replica.ErrOffsetNotAvailable, kerr.OffsetNotAvailable, kerr.OffsetNotAvailable},
		{replica.ErrFencedEpoch, kerr.FencedLeaderEpoch, kerr.FencedLeaderEpoch},
		{replica.ErrUnknownEpoch, kerr.UnknownLeaderEpoch, kerr.UnknownLeaderEpoch},
		{replica.ErrGone, kerr.UnknownTopicOrPartition, kerr.UnknownTopicOrPartition},
		{log.ErrOutOfOrderSequence, kerr.OutOfOrderSequenceNumber, kerr.OutOfOrderSequenceNumber},
		{log.ErrInvalidProducerEpoch, kerr.InvalidProducerEpoch, kerr.InvalidProducerEpoch},
		{log.ErrNoSpace, kerr.KafkaStorageError, kerr.KafkaStorageError},
		{&log.ErrOffsetOutOfRange{}, kerr.OffsetOutOfRange, kerr.OffsetOutOfRange},
		{&log.CorruptError{Err: record.ErrInvalid}, kerr.CorruptMessage, kerr.CorruptMessage},
		{&record.RecordError{Kind: record.ErrInvalid, Err: record.ErrCorrupt}, kerr.InvalidRecord, kerr.InvalidRecord},
		{errors.New("nobody foresaw this"), kerr.UnknownServerError, kerr.KafkaStorageError},
	} {
		wrapped := fmt.Errorf("somewhere: %w", tc.err)
		if codeOf(wrapped) != tc.code.Code || appendCode(wrapped) != tc.ofAnAppend.Code {
			t.Errorf("%v: codes %d and %d, want %s and %s", tc.err, codeOf(wrapped), appendCode(wrapped), tc.code.Message, tc.ofAnAppend.Message)
		}
	}
	if codeOf(nil) != 0 || appendCode(nil) != 0 {
		t.Error("no error has a code")
	}
}
