package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// carryOut does on the active controller what was asked for.
func (c *Controller) carryOut(ctx context.Context, a ask) outcome {
	if u, ok := a.(unregisterAsk); ok {
		return c.forget(ctx, u)
	}
	return c.propose(ctx, a)
}

// forget takes a broker out of the cluster: its node out of the quorum first,
// then its registration. What fails half-way can so be asked for again. A node
// of the quorum whose broker never registered is forgotten likewise.
func (c *Controller) forget(ctx context.Context, a unregisterAsk) outcome {
	select {
	case c.membership <- struct{}{}:
	case <-ctx.Done():
		return outcome{err: ctx.Err()}
	}
	defer func() { <-c.membership }()
	if o := c.propose(ctx, barrierAsk{}); o.err != nil {
		return o
	}
	im, server := c.Image(), c.serverOf(a.ID)
	_, refusal := im.unregister(a.ID)
	stranger := errors.Is(refusal, ErrUnknownBroker) && server != nil
	switch {
	case server != nil && server.ID == c.self, c.beating(a):
		return outcome{err: refuse(ErrDuplicateBroker, "The process of broker %d runs: stop it first, it would go on with what the cluster forgot.", a.ID)}
	case refusal != nil && !stranger:
		return outcome{err: refusal}
	}
	if server != nil {
		c.logger.Info("a node leaves the metadata quorum", "node", a.ID, "voted", server.Suffrage == raft.Voter)
		if err := raftDone(c.raft.RemoveServer(server.ID, 0, 0)); err != nil {
			return outcome{err: err}
		}
	}
	if stranger {
		return outcome{index: im.Index}
	}
	return c.propose(ctx, a)
}

// beating tells whether a broker was heard of less than a session ago.
func (c *Controller) beating(a unregisterAsk) bool {
	h := &c.beats
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions != nil && h.term == c.led.Load() && h.sessions.beating(a.ID, h.now())
}

const (
	// memberEvery is how often a node that hears of no leader asks the others
	// whether it is still one of them, and memberTime how long they may take.
	memberEvery = time.Second
	memberTime  = time.Second
)

// watchMembership ends a node that is no member of the cluster any more. It was
// forgotten while it was away, or another data directory has its place: it would
// hear of no leader for ever, and nobody would tell why.
func (c *Controller) watchMembership() {
	t := time.NewTicker(memberEvery)
	defer t.Stop()
	for silent := 0; ; {
		select {
		case <-t.C:
		case <-c.closing:
			return
		}
		if addr, _ := c.raft.LeaderWithID(); addr != "" || c.alone() {
			silent = 0
			continue
		}
		if silent++; silent < 2 {
			continue
		}
		var no *refused
		if err := c.askWhetherMember(); errors.As(err, &no) {
			c.fail(fmt.Errorf("controller: %w", err))
			return
		}
	}
}

// askWhetherMember asks all nodes that are known whether this one is one of them.
func (c *Controller) askWhetherMember() error {
	ctx, cancel := context.WithTimeout(c.closed, memberTime)
	defer cancel()
	_, err := askToJoin(ctx, c.peers, c.othersAt(), c.movedAsk())
	return err
}

// orFail does something that waits for others, and gives up when this node has
// failed, with the reason of that.
func (c *Controller) orFail(ctx context.Context, do func(context.Context) error) error {
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case err := <-c.failed:
			c.fail(err) // others want to know it too
			cancel(err)
		case <-done:
		}
	}()
	err := do(waiting)
	if cause := context.Cause(waiting); err != nil && cause != nil && ctx.Err() == nil {
		return cause
	}
	return err
}
