package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// write is one thing to be written to a shard's partition, in the order of the
// queue.
type write struct {
	// records gives what to write. Of a barrier it is called, without the
	// lock, after everything before it is written and applied.
	records func() ([]record.Record, error)
	barrier bool
	// done gets the outcome with the lock held, exactly once.
	done func(code int16)
}

func single(r ...record.Record) func() ([]record.Record, error) {
	return func() ([]record.Record, error) { return r, nil }
}

// enqueue adds a write; a goroutine appends while there is something to append.
// The caller holds the lock.
func (s *shard) enqueue(w *write) {
	s.queue = append(s.queue, w)
	if s.writing {
		return
	}
	s.writing = true
	term, epoch := s.term, s.epoch
	s.co.wg.Go(func() { s.writeAll(term, epoch) })
}

// writeAll appends the queue until it is empty or the term over. What piles up
// while one batch is being committed makes the next one.
func (s *shard) writeAll(term uint64, epoch offsets.Epoch) {
	for {
		batch := s.take(term)
		if batch == nil {
			return
		}
		var records []record.Record
		code := int16(0)
		for _, w := range batch {
			rs, err := w.records()
			if err != nil {
				s.co.config.Logger.Error("group coordinator", "partition", s.partition, "error", err)
				code = kerr.CoordinatorNotAvailable.Code
			}
			records = append(records, rs...)
		}
		if code == 0 {
			code = s.append(term, epoch, records, batch[0].barrier)
		}
		s.mu.Lock()
		if s.term == term {
			s.taken = nil
			for _, w := range batch {
				w.done(code)
			}
		}
		s.unlock()
	}
}

// take moves the next writes out of the queue: one barrier, or others up to the
// size of a batch.
func (s *shard) take(term uint64) []*write {
	s.mu.Lock()
	defer s.unlock()
	if s.term != term {
		return nil
	}
	n, size := 0, 0
	for n < len(s.queue) {
		w := s.queue[n]
		if w.barrier {
			if n == 0 {
				n = 1
			}
			break
		}
		rs, _ := w.records() // known beforehand, never an error
		if size += sizeOf(rs); n > 0 && size > s.co.config.Settings.MaxBatch {
			break
		}
		n++
	}
	if n == 0 {
		s.writing = false
		return nil
	}
	s.taken = append([]*write(nil), s.queue[:n]...)
	s.queue = append([]*write(nil), s.queue[n:]...)
	return s.taken
}

func sizeOf(rs []record.Record) int {
	n := 0
	for i := range rs {
		n += len(rs[i].Key) + len(rs[i].Value) + 32
	}
	return n
}

// append writes records and waits until they are committed and applied. Those
// of one request go in one batch; only a barrier's, which stand for themselves,
// may be spread over several.
func (s *shard) append(term uint64, epoch offsets.Epoch, records []record.Record, spread bool) int16 {
	for len(records) > 0 {
		builder := record.NewBuilder(record.None, 0)
		n := 0
		for n < len(records) && (n == 0 || !spread || builder.Len() < s.co.config.Settings.MaxBatch) {
			builder.Append(records[n])
			n++
		}
		records = records[n:]
		batch, err := builder.Batch()
		if err != nil {
			s.co.config.Logger.Error("group coordinator: build batch", "partition", s.partition, "error", err)
			return kerr.UnknownServerError.Code
		}
		if code := s.commit(term, epoch, batch); code != 0 {
			return code
		}
	}
	return 0
}

func (s *shard) commit(term uint64, epoch offsets.Epoch, batch record.Batch) int16 {
	ctx, cancel := context.WithTimeout(s.co.ctx, s.co.config.Settings.CommitTimeout)
	defer cancel()
	// Bound to the epoch: a writer that was left behind by its term must not
	// append what was refused long ago after what the next term has committed.
	at, err := s.co.config.Append(ctx, s.partition, epoch, batch)
	if err != nil {
		s.co.config.Logger.Warn("group coordinator: append", "partition", s.partition, "error", err)
		return codeOf(err)
	}
	s.co.applier.poke(s.partition)
	wait := s.await(term, at, epoch)
	select {
	case code := <-wait:
		if v, _ := s.co.config.View(s.partition); code == 0 && (!v.Leads || v.Epoch != epoch) {
			code = kerr.NotCoordinator.Code // the broker is about to say so
		}
		return code
	case <-ctx.Done():
		return kerr.CoordinatorNotAvailable.Code
	}
}

// applied is how far the applier has come, and who waits for it.
type applied struct {
	at      offsets.Offset
	waiting []applyWait
}

type applyWait struct {
	at    offsets.Offset
	epoch offsets.Epoch
	done  chan<- int16
}

// verdict tells whether the record at an applied offset is of the epoch it was
// appended in: an acknowledgement is bound to both.
func (s *shard) verdict(at offsets.Offset, epoch offsets.Epoch) int16 {
	if s.co.config.EpochAt(s.partition, at) != epoch {
		return kerr.NotCoordinator.Code
	}
	return 0
}

func (a *applied) fail(code int16) {
	for _, w := range a.waiting {
		w.done <- code
	}
	a.waiting = nil
}

// await gives the channel that tells when the record at an offset is applied.
func (s *shard) await(term uint64, at offsets.Offset, epoch offsets.Epoch) <-chan int16 {
	done := make(chan int16, 1)
	s.mu.Lock()
	defer s.unlock()
	switch {
	case s.term != term:
		done <- kerr.NotCoordinator.Code
	case s.applied.at > at:
		done <- s.verdict(at, epoch)
	default:
		s.applied.waiting = append(s.applied.waiting, applyWait{at, epoch, done})
	}
	return done
}

// passed tells the shard how far the applier has come.
func (s *shard) passed(at offsets.Offset) {
	s.mu.Lock()
	defer s.unlock()
	a := &s.applied
	a.at = at
	kept := a.waiting[:0]
	for _, w := range a.waiting {
		if w.at < at {
			w.done <- s.verdict(w.at, w.epoch)
		} else {
			kept = append(kept, w)
		}
	}
	a.waiting = kept
}
