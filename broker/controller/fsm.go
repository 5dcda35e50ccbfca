package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// When a snapshot is due: what a restart would have to replay since the last.
const (
	snapshotEntries = 4096
	snapshotBytes   = 4 << 20
)

// machine is the state that Raft's entries are applied to. ApplyBatch, Snapshot
// and Restore are called by one goroutine of Raft's. It is a raft.BatchingFSM.
type machine struct {
	onChange    func(old, new *Image)
	fail        func(error)     // told once when the state can't follow the log
	snapshotDue chan<- struct{} // told when a snapshot is due; must have room for one
	levels      Levels          // format levels this node knows

	image atomic.Pointer[Image]

	mu     sync.Mutex // held while an entry is applied and told
	live   bool       // changes are told; not while a node starts
	failed error
	moved  chan struct{} // closed, and replaced, when there is another image or none will come

	entries, bytes int // applied since the last snapshot
}

func newMachine(onChange func(old, new *Image), fail func(error), snapshotDue chan<- struct{}, levels Levels) *machine {
	m := &machine{onChange: onChange, fail: fail, snapshotDue: snapshotDue, levels: levels, moved: make(chan struct{})}
	m.image.Store(emptyImage())
	return m
}

// applied is what became of an entry.
type applied struct {
	image   *Image
	dropped bool // it was decided on another image or in another term
	err     error
}

// Apply applies one entry.
func (m *machine) Apply(l *raft.Log) any { return m.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch applies entries that were committed together, and tells of them as
// one change. After an entry that can't be applied the state stays as it was for
// good: to skip one would be to differ from the other nodes.
func (m *machine) ApplyBatch(logs []*raft.Log) []any {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, im := m.failed, m.image.Load()
	responses := make([]any, len(logs))
	for i, l := range logs {
		if l.Type != raft.LogCommand {
			continue
		}
		a := applied{err: m.failed}
		if m.failed == nil {
			a = m.next(im, l)
			m.count(len(l.Data))
		}
		switch {
		case a.err == nil && !a.dropped:
			im = a.image
		case a.err != nil && m.failed == nil:
			m.failed = fmt.Errorf("apply metadata: %w", a.err)
		}
		responses[i] = a
	}
	if im != m.image.Load() {
		m.become(im)
	}
	if m.failed != was {
		m.move()
		m.fail(m.failed)
	}
	return responses
}

// failure is why no entry can be applied any more.
func (m *machine) failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

// next is what an entry makes of an image.
func (m *machine) next(im *Image, l *raft.Log) applied {
	e, records, err := decodeEntry(l.Data)
	switch {
	case err != nil:
		return applied{err: fmt.Errorf("entry %d: %w", l.Index, err)}
	case e.Term != l.Term || e.Sequence != im.Sequence+1:
		return applied{image: im, dropped: true}
	case e.Before != nil && *e.Before != im.Hash():
		return applied{err: fmt.Errorf("entry %d: %w: this node's state differs from that of the leader of term %d", l.Index, errDiverged, l.Term)}
	}
	after, err := im.apply(l.Index, records)
	if err == nil {
		err = m.levels.check(after.FormatLevel)
	}
	return applied{image: after, err: err}
}

func (m *machine) become(next *Image) {
	old := m.image.Swap(next)
	if m.live {
		m.onChange(old, next)
	}
	m.move()
}

// move wakes those who wait for another image.
func (m *machine) move() {
	close(m.moved)
	m.moved = make(chan struct{})
}

// wait returns when the image holds the entry of an index and that was told.
func (m *machine) wait(ctx context.Context, index uint64, closing <-chan struct{}) error {
	for {
		m.mu.Lock()
		at, moved, err := m.image.Load().Index, m.moved, m.failed
		m.mu.Unlock()
		if at >= index || err != nil {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("%w: metadata entry %d is not here yet: %w", ErrUncertain, index, ctx.Err())
		case <-closing:
			return ErrClosed
		}
	}
}

func (m *machine) count(bytes int) {
	m.entries++
	if m.bytes += bytes; m.entries >= snapshotEntries || m.bytes >= snapshotBytes {
		m.entries, m.bytes = 0, 0
		select {
		case m.snapshotDue <- struct{}{}:
		default:
		}
	}
}

// begin tells the present image as the first change, and all from then on.
func (m *machine) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live = true
	m.onChange(emptyImage(), m.image.Load())
}

// Snapshot takes hold of the image, which needs no copy.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed != nil {
		return nil, m.failed
	}
	return snapshotOf{m.image.Load()}, nil
}

// Restore replaces the image by a snapshot's.
func (m *machine) Restore(source io.ReadCloser) error {
	src, err := io.ReadAll(source)
	if err = errors.Join(err, source.Close()); err != nil {
		return err
	}
	im, err := m.levels.decodeImage(src)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries, m.bytes = 0, 0
	m.become(im)
	return nil
}

// snapshotOf writes an image.
type snapshotOf struct{ *Image }

// Persist writes the image into a snapshot, which Raft closes.
func (s snapshotOf) Persist(sink raft.SnapshotSink) error {
	_, err := sink.Write(encodeImage(s.Image))
	return err
}

// Release does nothing: an image is garbage like any other value.
func (snapshotOf) Release() {}
