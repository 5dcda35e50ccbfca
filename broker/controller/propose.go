package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// proposal is a wish for a change, waiting for its turn.
type proposal struct {
	ctx  context.Context
	ask  ask
	done chan outcome // takes one
}

// outcome is what became of a proposal: the index of the image that holds it
// and what else the asker wants to know, or a refusal that rests on that image.
type outcome struct {
	index  uint64
	answer answer
	err    error
}

// maxCoalesced bounds how many proposals one turn takes.
const maxCoalesced = 1024

// propose hands a wish to the proposer of this node, which must be the active
// controller, and waits until it is applied.
func (c *Controller) propose(ctx context.Context, a ask) outcome {
	p := &proposal{ctx, a, make(chan outcome, 1)}
	select {
	case c.queue <- p:
	case <-ctx.Done():
		return outcome{err: ctx.Err()}
	case <-c.closing:
		return outcome{err: ErrClosed}
	}
	select {
	case o := <-p.done:
		return o
	case <-ctx.Done():
		return outcome{err: fmt.Errorf("%w: %w", ErrUncertain, ctx.Err())}
	case <-c.proposerDone:
		select {
		case o := <-p.done:
			return o
		default:
			return outcome{err: ErrClosed}
		}
	}
}

// runProposer is the one goroutine that decides. All proposals that wait when
// it gets to them are decided one after the other, each on the image the ones
// before it lead to, and go into the log as one entry, so that concurrent
// wishes share one sync of the disk. It waits for the entry to be applied and
// begins anew: it never decides on a guess of the future.
func (c *Controller) runProposer() {
	defer close(c.proposerDone)
	for {
		select {
		case <-c.closing:
			return
		case lead := <-c.raft.LeaderCh():
			if lead {
				c.turn(nil)
			}
		case p := <-c.queue:
			c.turn(c.gather(p))
		}
	}
}

// gather takes all proposals that wait.
func (c *Controller) gather(first *proposal) []*proposal {
	batch := []*proposal{first}
	for len(batch) < maxCoalesced {
		select {
		case p := <-c.queue:
			batch = append(batch, p)
		default:
			return batch
		}
	}
	return batch
}

// turn decides on a batch of proposals, commits what comes of it and answers.
// Also a refusal is answered only then, as it may rest on a change before it.
func (c *Controller) turn(batch []*proposal) {
	t := &turn{c: c}
	err := t.takeOver()
	outcomes := make([]outcome, len(batch))
	for i, p := range batch {
		if err != nil {
			break
		}
		o := &outcomes[i]
		if o.err = p.ctx.Err(); o.err == nil {
			o.err, err = t.add(func(im *Image) (d decision, refusal error) {
				d, o.answer, refusal = p.ask.decide(im, c.settings)
				return d, refusal
			})
		}
	}
	if err == nil {
		err = t.commit()
	}
	if err == nil {
		err = t.await()
	}
	if err == nil && !t.committed {
		err = c.barrier()
	}
	index := c.Image().Index
	for i, p := range batch {
		if err != nil {
			p.done <- outcome{err: err}
			continue
		}
		outcomes[i].index = index
		p.done <- outcomes[i]
	}
}

// turn is the entry being filled, and those before it.
type turn struct {
	c         *Controller
	term      uint64
	entry     entry
	image     *Image   // as it will be with the entry
	ready     [][]byte // entries before it, which go into the log together
	committed bool
}

// takeOver makes sure that this node leads, holds all that former leaders
// committed and has finished what they left half done.
func (t *turn) takeOver() error {
	c := t.c
	if c.raft.State() != raft.Leader {
		return ErrNotController
	}
	t.term = c.raft.CurrentTerm()
	if t.term != c.ledTerm {
		if err := c.barrier(); err != nil {
			return err
		}
	}
	if err := t.begin(); err != nil {
		return err
	}
	if t.term == c.ledTerm {
		return nil
	}
	refusal, err := t.add(func(im *Image) (decision, error) { return im.repair(c.settings) })
	if err = errors.Join(refusal, err); err != nil {
		return err
	}
	refusal, err = t.add(func(im *Image) (decision, error) { return decision{records: im.raise()}, nil })
	if err = errors.Join(refusal, err); err != nil {
		return err
	}
	if err := t.commit(); err != nil {
		return err
	}
	if err := t.await(); err != nil {
		return err
	}
	c.ledTerm = t.term
	c.led.Store(t.term)
	return nil
}

// begin starts an entry on the present image.
func (t *turn) begin() error {
	if err := t.c.machine.failure(); err != nil {
		return err
	}
	now := t.c.Image()
	if err := t.follow(now); err != nil {
		return err
	}
	if hashed(t.entry.Sequence) {
		sum := now.Hash()
		t.entry.Before = &sum
	}
	return nil
}

// follow starts an entry on an image that need not be there yet.
func (t *turn) follow(im *Image) (err error) {
	t.entry = entry{Term: t.term, Sequence: im.Sequence + 1}
	t.image, err = im.apply(im.Index+1, nil)
	return err
}

// add decides on one proposal and puts its records into the entry, which is
// committed whenever it is full.
func (t *turn) add(decide func(*Image) (decision, error)) (refusal, err error) {
	d, refusal := decide(t.image)
	if refusal != nil || len(d.records) == 0 {
		return refusal, nil
	}
	encoded := make([][]byte, len(d.records))
	total := 0
	for i, r := range d.records {
		encoded[i] = appendRecord(nil, r)
		size := recordSize(encoded[i])
		if empty := new(entry); !empty.fits(1, size) {
			return fmt.Errorf("%w: a record of %d bytes", ErrTooLarge, size), nil
		}
		total += size
	}
	if d.atomic {
		if empty := new(entry); !empty.fits(len(encoded), total) {
			return fmt.Errorf("%w: %d records, %d bytes", ErrTooLarge, len(encoded), total), nil
		}
		if !t.entry.fits(len(encoded), total) {
			if err := t.commit(); err != nil {
				return nil, err
			}
			return t.add(decide)
		}
	}
	for len(encoded) > 0 {
		n := t.put(encoded)
		if t.image, err = t.image.extend(d.records[:n]); err != nil {
			return nil, err
		}
		encoded, d.records = encoded[n:], d.records[n:]
		if len(encoded) > 0 || d.last {
			if err := t.commit(); err != nil {
				return nil, err
			}
		}
	}
	if d.last {
		return nil, t.await()
	}
	return nil, nil
}

// put adds as many records as fit and tells how many.
func (t *turn) put(encoded [][]byte) (n int) {
	for n < len(encoded) && t.entry.fits(1, recordSize(encoded[n])) {
		t.entry.add(encoded[n])
		n++
	}
	return n
}

// commit makes the entry ready for the log and begins the next one on what it
// leads to: a change of thousands of partitions takes several entries and is not
// to wait for a round through the disks of all nodes for each. Should one be
// lost, those after it are dropped, as they don't follow the image any more.
func (t *turn) commit() error {
	if len(t.entry.records) == 0 {
		return nil
	}
	t.ready = append(t.ready, t.entry.encode())
	if hashed(t.entry.Sequence + 1) {
		return t.await() // only of the image itself there is a hash
	}
	return t.follow(t.image)
}

// await puts what is ready into the log, returns when it is applied, and begins
// anew on that. When a part of it was applied and the rest wasn't, nobody may be
// told that nothing was done.
func (t *turn) await() error {
	if len(t.ready) == 0 {
		return nil
	}
	underway := make([]raft.ApplyFuture, len(t.ready))
	for i, data := range t.ready {
		underway[i] = t.c.raft.Apply(data, 0)
	}
	for _, future := range underway {
		err := future.Error()
		if err != nil {
			err = raftError(err)
		} else if a := future.Response().(applied); a.err != nil {
			err = a.err
		} else if a.dropped {
			err = fmt.Errorf("%w: it lost its place meanwhile", ErrNotController)
		}
		switch {
		case errors.Is(err, ErrNotController) && t.committed:
			return fmt.Errorf("%w: only a part of it was done: %v", ErrUncertain, err)
		case err != nil:
			return err
		}
		t.committed = true
	}
	t.ready = nil
	return t.begin()
}

// barrier returns when all that was committed before is applied.
func (c *Controller) barrier() error {
	if err := c.raft.Barrier(0).Error(); err != nil {
		return raftError(err)
	}
	return c.machine.failure()
}

// raftError turns Raft's errors into ours.
func raftError(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w: %w", ErrNotController, err)
	case errors.Is(err, raft.ErrRaftShutdown):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	default:
		return fmt.Errorf("%w: %w", ErrUncertain, err)
	}
}
