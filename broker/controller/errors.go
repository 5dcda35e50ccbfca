package controller

import (
	"errors"
	"fmt"
)

// What callers branch on. Each is wrapped with the names and numbers of the case.
var (
	ErrTopicExists       = errors.New("topic exists")
	ErrUnknownTopic      = errors.New("unknown topic")
	ErrUnknownPartition  = errors.New("unknown partition")
	ErrUnknownBroker     = errors.New("unknown broker")
	ErrDuplicateBroker   = errors.New("another live broker has this id")
	ErrStaleBrokerEpoch  = errors.New("stale broker epoch")
	ErrInvalidTopic      = errors.New("invalid topic name")
	ErrInvalidPartitions = errors.New("invalid number of partitions")
	ErrInvalidFactor     = errors.New("invalid replication factor")
	ErrInvalidAssignment = errors.New("invalid replica assignment")
	ErrInvalidConfig     = errors.New("invalid configuration")
	ErrInvalidISR        = errors.New("invalid ISR")
	ErrIneligible        = errors.New("ineligible replica")
	ErrFencedEpoch       = errors.New("fenced leader epoch")
	ErrStalePartition    = errors.New("stale partition epoch")
	ErrAheadOfController = errors.New("epoch is newer than the controller's")
	ErrNotEligibleLeader = errors.New("no eligible leader")
	ErrElectionNotNeeded = errors.New("election not needed")
	ErrNoReassignment    = errors.New("no reassignment is under way")
	// ErrFormatLevel: the cluster's format level and what was asked for, or who
	// asked, don't go together.
	ErrFormatLevel = errors.New("format level")
	// ErrTooLarge: the change must be made in one step and does not fit in one
	// log entry (10,000 records, 256 KiB).
	ErrTooLarge = errors.New("change too large")
	// ErrNotController: this node is not the active controller and did nothing.
	ErrNotController = errors.New("not the active controller")
	// ErrUncertain: leadership ended while the change was under way; it may
	// still happen.
	ErrUncertain = errors.New("outcome unknown")
	ErrClosed    = errors.New("controller closed")
)

// refused is a request that can't be carried out: a kind for callers to branch
// on, and Kafka's words, which its clients show to people.
type refused struct {
	kind error
	text string
}

func (r *refused) Error() string { return r.text }

func (r *refused) Unwrap() error { return r.kind }

func refuse(kind error, format string, args ...any) error {
	return &refused{kind, fmt.Sprintf(format, args...)}
}
