package controller

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"sawlog/broker/log"
	batches "sawlog/broker/record"
	"sawlog/offsets"
)

// Sizes of the Raft log on disk.
const (
	raftSegmentBytes = 8 << 20
	raftReadBytes    = 1 << 20
	yearMs           = 365 * 24 * 60 * 60 * 1000 // a segment ends by size, not by age
)

// raftPartition is the replica the Raft log is kept as.
var raftPartition = offsets.TopicPartition{Topic: "raft", Partition: 0}

// entries is the Raft log, kept as records of one of our own logs: the entry
// of index i is the record at offset i-1, see doc.go. It is a raft.LogStore.
type entries struct {
	log  *log.Log
	path string // its folder
	// truncated is told the last index that stays before the tail is cut.
	truncated func(last uint64) error
	// synced is told from time to time up to which index the log is.
	synced func(last uint64) error
	told   time.Time // when it was told last

	writing sync.Mutex // held while the log is written, so also while a disk hangs

	mu     sync.Mutex
	cached []raft.Log // what the last read decoded, in order
}

// offsetOf and indexOf map between Raft indexes, which begin at 1, and offsets.
func offsetOf(index uint64) offsets.Offset { return offsets.Offset(index) - 1 }

func indexOf(o offsets.Offset) uint64 { return uint64(o) + 1 }

// IsMonotonic tells Raft that indexes in the log have no gaps.
func (e *entries) IsMonotonic() bool { return true }

// FirstIndex is the first index in the log, 0 when it is empty.
func (e *entries) FirstIndex() (uint64, error) {
	if e.empty() {
		return 0, nil
	}
	return indexOf(e.log.Start()), nil
}

// LastIndex is the last index in the log, 0 when it is empty.
func (e *entries) LastIndex() (uint64, error) {
	if e.empty() {
		return 0, nil
	}
	return uint64(e.log.End()), nil
}

func (e *entries) empty() bool { return e.log.Start() >= e.log.End() }

// lacks tells whether the log ends before an index.
func (e *entries) lacks(index uint64) bool { return e.empty() || offsetOf(index) >= e.log.End() }

// GetLog reads one entry.
func (e *entries) GetLog(index uint64, into *raft.Log) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := offsetOf(index)
	if at < e.log.Start() || at >= e.log.End() {
		return raft.ErrLogNotFound
	}
	if len(e.cached) == 0 || index < e.cached[0].Index || index > e.cached[len(e.cached)-1].Index {
		if err := e.read(at); err != nil {
			return fmt.Errorf("raft log %s: entry %d: %w", e.path, index, err)
		}
	}
	if i := index - e.cached[0].Index; i < uint64(len(e.cached)) && e.cached[i].Index == index {
		*into = e.cached[i]
		return nil
	}
	return fmt.Errorf("raft log %s: entry %d: %w: it is missing in its batch", e.path, index, errFormat)
}

// read fills the cache with entries from at on.
func (e *entries) read(at offsets.Offset) error {
	e.cached = nil
	rest, err := e.log.ReadBytes(at, raftReadBytes, e.log.End())
	if err != nil {
		return err
	}
	var read []raft.Log
	var it batches.Iterator
	for len(rest) > 0 {
		var b batches.Batch
		b, rest, err = batches.Split(rest)
		if err == nil {
			err = b.CheckCRC()
		}
		if err != nil && len(read) > 0 {
			break // it is met again by who asks for that entry
		}
		if err != nil {
			return err
		}
		if err := it.Reset(b); err != nil {
			return fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
		}
		for it.Next() {
			l, err := decodeRaftRecord(it.Record())
			if err != nil {
				return err
			}
			// The epoch of a batch is not under its checksum; the term in the key is.
			if uint64(b.Epoch()) != l.Term {
				return fmt.Errorf("%w: entry %d of term %d is in a batch of epoch %d", errFormat, l.Index, l.Term, b.Epoch())
			}
			if len(read) > 0 && l.Index != read[len(read)-1].Index+1 {
				return fmt.Errorf("%w: entry %d follows %d", errFormat, l.Index, read[len(read)-1].Index)
			}
			read = append(read, l)
		}
		if err := it.Err(); err != nil {
			return fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
		}
	}
	if len(read) == 0 {
		return fmt.Errorf("%w: nothing at offset %d", errFormat, at)
	}
	e.cached = read
	return nil
}

// raftKeyVersion is the first byte of a record's key in the Raft log.
const raftKeyVersion = 1

const raftKeySize = 1 + 1 + 8

// extensionsHeader names the record header that holds an entry's extensions.
const extensionsHeader = "ext"

func encodeRaftRecord(l *raft.Log) batches.Record {
	key := make([]byte, 0, raftKeySize)
	key = binary.BigEndian.AppendUint64(append(key, raftKeyVersion, byte(l.Type)), l.Term)
	r := batches.Record{Timestamp: raftMillis(l), Key: key, Value: l.Data}
	if len(l.Extensions) > 0 {
		r.Headers = []batches.Header{{Key: []byte(extensionsHeader), Value: l.Extensions}}
	}
	return r
}

// raftMillis is when the leader appended the entry; the first one of a cluster
// has no time.
func raftMillis(l *raft.Log) int64 {
	if l.AppendedAt.IsZero() {
		return 0
	}
	return l.AppendedAt.UnixMilli()
}

// decodeRaftRecord copies a record out of the iterator's buffers.
func decodeRaftRecord(r *batches.Record) (raft.Log, error) {
	l := raft.Log{Index: indexOf(r.Offset)}
	if len(r.Key) != raftKeySize || r.Key[0] != raftKeyVersion {
		return l, fmt.Errorf("%w: raft log entry %d has a key of version %.1x and %d bytes", errFormat, l.Index, r.Key, len(r.Key))
	}
	l.Type, l.Term = raft.LogType(r.Key[1]), binary.BigEndian.Uint64(r.Key[2:])
	l.Data = append([]byte{}, r.Value...)
	if r.Timestamp != 0 {
		l.AppendedAt = time.UnixMilli(r.Timestamp)
	}
	for _, h := range r.Headers {
		if string(h.Key) == extensionsHeader {
			l.Extensions = append([]byte{}, h.Value...)
		}
	}
	return l, nil
}

// StoreLog stores one entry.
func (e *entries) StoreLog(l *raft.Log) error { return e.StoreLogs([]*raft.Log{l}) }

// StoreLogs appends entries and syncs them. An empty log may go on anywhere;
// entries that overlap the log's end replace it.
func (e *entries) StoreLogs(logs []*raft.Log) error {
	e.writing.Lock()
	defer e.writing.Unlock()
	if len(logs) == 0 {
		return nil
	}
	if err := e.moveTo(logs[0].Index); err != nil {
		return fmt.Errorf("raft log: %w", err)
	}
	for len(logs) > 0 {
		batch, n, err := buildRaftBatches(logs)
		if err != nil {
			return err
		}
		if _, err := e.log.Append(batch, log.Append{
			Epoch: offsets.Epoch(logs[0].Term), Now: raftMillis(logs[0]), Internal: true,
		}); err != nil {
			return fmt.Errorf("raft log entry %d: %w", logs[0].Index, err)
		}
		logs = logs[n:]
	}
	if err := e.log.Flush(); err != nil {
		return fmt.Errorf("raft log: %w", err)
	}
	if time.Since(e.told) < tellEvery {
		return nil
	}
	e.told = time.Now()
	return e.synced(uint64(e.log.End()))
}

// tellEvery is how often it is noted beside the log how much of it is synced.
const tellEvery = 10 * time.Second

// moveTo makes index the next one to be appended.
func (e *entries) moveTo(index uint64) error {
	switch at := offsetOf(index); {
	case at == e.log.End():
		return nil
	case e.empty():
		defer e.forget()
		return e.log.Reset(at)
	case at > e.log.End():
		return fmt.Errorf("%w: entry %d after %d", errFormat, index, e.log.End())
	default:
		return e.truncate(at)
	}
}

func (e *entries) truncate(to offsets.Offset) error {
	defer e.forget()
	if err := e.truncated(uint64(to)); err != nil {
		return err
	}
	if err := e.log.Truncate(to); err != nil {
		return err
	}
	if end := e.log.End(); end != to {
		return fmt.Errorf("raft log %s: %w: cut after entry %d it ends at %d", e.path, errFormat, to, end)
	}
	return nil
}

// forget drops what was read, after the log was cut: who reads meanwhile has
// the cache locked, so nothing of before the cut stays in it.
func (e *entries) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cached = nil
}

// buildRaftBatches makes batches of the first entries, those of one term. Each is
// a batch of its own: a log is cut between batches only, and Raft cuts it between
// any two entries.
func buildRaftBatches(logs []*raft.Log) ([]batches.Batch, int, error) {
	if term := logs[0].Term; term == 0 || term > math.MaxInt32 {
		return nil, 0, fmt.Errorf("raft log entry %d: %w: term %d is none, or larger than a leader epoch", logs[0].Index, errFormat, term)
	}
	var all []batches.Batch
	for i, l := range logs {
		switch {
		case l.Term != logs[0].Term:
			return all, len(all), nil
		case l.Index != logs[0].Index+uint64(i):
			return nil, 0, fmt.Errorf("raft log entry %d: %w: it follows %d", l.Index, errFormat, logs[i-1].Index)
		}
		b := batches.NewBuilder(batches.None, 0)
		b.Append(encodeRaftRecord(l))
		batch, err := b.Batch()
		if err != nil {
			return nil, 0, fmt.Errorf("raft log entry %d: %w", l.Index, err)
		}
		all = append(all, batch)
	}
	return all, len(all), nil
}

// DeleteRange deletes the entries from first to last, both included: a head of
// the log that a snapshot covers, a tail another leader overwrites, or all.
func (e *entries) DeleteRange(first, last uint64) error {
	e.writing.Lock()
	defer e.writing.Unlock()
	defer e.forget()
	from, to := offsetOf(first), offsetOf(last)+1
	switch {
	case from <= e.log.Start() && to >= e.log.End():
		if err := e.truncated(0); err != nil {
			return err
		}
		return e.log.Reset(to)
	case from <= e.log.Start():
		return e.log.DeleteBefore(to)
	case to >= e.log.End():
		return e.truncate(from)
	default:
		return fmt.Errorf("raft log: %w: entries %d to %d deleted from within", errFormat, first, last)
	}
}

// verify reads all entries after index, which a snapshot covers, and checks
// that they follow each other, belong to terms the node has seen and can be
// applied. A damaged log is found here, with its place, and not by a panic
// half-way.
func (e *entries) verify(after, term uint64, levels Levels) error {
	last, err := e.LastIndex()
	if err != nil {
		return err
	}
	var previous uint64
	for index := max(after+1, indexOf(e.log.Start())); index <= last; index++ {
		var l raft.Log
		if err := e.GetLog(index, &l); err != nil {
			return err
		}
		if l.Term < previous || l.Term > term {
			return fmt.Errorf("raft log %s: entry %d: %w: term %d after %d, the node is at term %d", e.path, index, errFormat, l.Term, previous, term)
		}
		previous = l.Term
		if l.Type != raft.LogCommand {
			continue
		}
		_, records, err := decodeEntry(l.Data)
		if err == nil {
			err = levels.checkRaised(records)
		}
		if err != nil {
			return fmt.Errorf("raft log %s: entry %d: %w", e.path, index, err)
		}
	}
	return nil
}
