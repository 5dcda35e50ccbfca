package replica

import "errors"

// What callers branch on.
var (
	ErrNotLeader         = errors.New("not the leader of the partition")
	ErrFencedEpoch       = errors.New("leader epoch is older than the partition's")
	ErrUnknownEpoch      = errors.New("leader epoch is newer than the partition's")
	ErrNotEnoughReplicas = errors.New("fewer replicas in sync than min.insync.replicas")
	// ErrNotEnoughAfterAppend: the records were written and may still be committed.
	ErrNotEnoughAfterAppend = errors.New("fewer replicas in sync than min.insync.replicas after the append")
	// ErrOffsetNotAvailable: the high watermark isn't known yet after an election.
	ErrOffsetNotAvailable = errors.New("high watermark not known yet")
	// ErrGone: the partition was deleted.
	ErrGone = errors.New("partition deleted")
)
