package log

import (
	"errors"
	"fmt"

	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// What callers branch on; all of it is wrapped with the place it happened at.
var (
	// ErrOutOfOrderSequence tells that an idempotent batch does not follow the
	// one before it.
	ErrOutOfOrderSequence = errors.New("sequence out of order")
	// ErrInvalidProducerEpoch tells that a younger producer with the same id
	// has written.
	ErrInvalidProducerEpoch = errors.New("producer epoch is old")
	// ErrBatchTooLarge tells that a batch exceeds the topic's limit.
	ErrBatchTooLarge = errors.New("batch too large")
	// ErrStaleEpoch tells that a younger leader has written.
	ErrStaleEpoch = errors.New("leader epoch is old")
	// ErrNoSpace tells that the disk is full; nothing was written, and reads go
	// on.
	ErrNoSpace = errors.New("no space left on the data directory")
	// ErrFailed tells that an I/O error has ended all writing to the directory.
	ErrFailed = errors.New("data directory has failed")
	// ErrClosed tells that the log was closed, deleted or put aside.
	ErrClosed = errors.New("log is closed")
)

// roomless turns an error that says that the disk is full into ErrNoSpace.
func roomless(err error) error {
	if vfs.Full(err) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// ErrOffsetOutOfRange is returned for offsets outside [Start, End].
type ErrOffsetOutOfRange struct{ At, Start, End offsets.Offset }

func (e *ErrOffsetOutOfRange) Error() string {
	return fmt.Sprintf("offset %d out of range %d..%d", e.At, e.Start, e.End)
}

// CorruptError names damaged bytes. Offsets before Next cannot be read; Next
// is 0 where nothing is known to follow.
type CorruptError struct {
	Path string
	Pos  int64
	Next offsets.Offset
	Err  error
}

func (e *CorruptError) Error() string { return fmt.Sprintf("%s at byte %d: %v", e.Path, e.Pos, e.Err) }
func (e *CorruptError) Unwrap() error { return e.Err }
