package consumer

import (
	"errors"
	"fmt"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// What callers branch on.
var (
	ErrUnavailable  = errors.New("cluster unavailable")
	ErrUnknownTopic = errors.New("unknown topic")
	ErrAuth         = errors.New("not authorized")
	// ErrSilent marks what a broker left out of its answer.
	ErrSilent = errors.New("the broker answered, and said nothing of it")
	// ErrTooLarge marks a batch that decompresses to more than the reader may hold.
	ErrTooLarge = record.ErrTooLarge
)

// GapError says that retention has removed offsets that were asked for.
type GapError struct {
	offsets.TopicPartition
	Asked    offsets.Offset
	LogStart offsets.Offset
}

func (e *GapError) Error() string {
	return fmt.Sprintf("%s: offset %d is gone: the log starts at %d (%d offsets lost)", e.TopicPartition, e.Asked, e.LogStart, e.LogStart-e.Asked)
}

// HoleError says that offsets are missing inside the log of a topic that is
// not compacted.
type HoleError struct {
	offsets.TopicPartition
	Hole offsets.Range
}

func (e *HoleError) Error() string {
	return fmt.Sprintf("%s: offsets %s are missing inside the log", e.TopicPartition, e.Hole)
}

// ShortError says that the log ends before the range that was asked for: it
// was cut off, or the topic is another one.
type ShortError struct {
	offsets.TopicPartition
	Asked  offsets.Offset
	LogEnd offsets.Offset
}

func (e *ShortError) Error() string {
	return fmt.Sprintf("%s: offset %d is beyond the end of the log, %d", e.TopicPartition, e.Asked, e.LogEnd)
}

// CutError says that the log was cut off below an offset that was read: a
// replica that lacked records was made the leader, and what was read from there
// on is not in the log any more.
type CutError struct {
	offsets.TopicPartition
	At    offsets.Offset // read up to here
	Epoch offsets.Epoch  // of the last record read
	End   offsets.Offset // where the leader's log leaves what was read, at the latest
}

func (e *CutError) Error() string {
	return fmt.Sprintf("%s: the log was cut off: offset %d was reached in leader epoch %d, which the log now leaves at offset %d", e.TopicPartition, e.At, e.Epoch, e.End)
}

// CorruptError names a batch whose bytes are damaged.
type CorruptError struct {
	offsets.TopicPartition
	Offset offsets.Offset // base offset of the batch, or where it was looked for
	Err    error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s: batch at offset %d is corrupt: %v", e.TopicPartition, e.Offset, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// OversizeError names a batch larger than the reader may hold.
type OversizeError struct {
	offsets.TopicPartition
	Offset offsets.Offset
	Bytes  int64
	Limit  int64
}

func (e *OversizeError) Error() string {
	return fmt.Sprintf("%s: batch at offset %d has %d bytes, more than the limit of %d", e.TopicPartition, e.Offset, e.Bytes, e.Limit)
}
