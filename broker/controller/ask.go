package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"sawlog/broker/peer"
)

// What peers call each other for.
const (
	askMethod  peer.Method = 1
	beatMethod peer.Method = 2
	joinMethod peer.Method = 3
)

// askPause is how long to wait before a wish is brought again to a controller
// that didn't take it, unless another one is heard of before.
const askPause = 20 * time.Millisecond

// ask brings a wish to the active controller, wherever that is, and returns
// when this node's image holds what came of it. A wish that met no active
// controller is brought again until ctx ends, and also one whose answer was
// lost when that does no harm.
func (c *Controller) ask(ctx context.Context, a ask) (answer, error) {
	var lost error
	for {
		changed := c.leaders.changed()
		o := c.askOnce(ctx, a, changed)
		notTaken, uncertain := errors.Is(o.err, ErrNotController), errors.Is(o.err, ErrUncertain)
		switch {
		case c.alone(), !notTaken && !uncertain:
			if o.index > 0 {
				o.err = errors.Join(o.err, c.machine.wait(ctx, o.index, c.closing))
			}
			return o.answer, o.err
		case uncertain && !a.repeatable():
			return o.answer, o.err
		case uncertain:
			lost = o.err
		}
		select {
		case <-changed:
		case <-time.After(askPause):
		case <-ctx.Done():
			if lost != nil {
				return o.answer, lost
			}
			return o.answer, fmt.Errorf("%w: %w", o.err, ctx.Err())
		case <-c.closing:
			return o.answer, ErrClosed
		}
	}
}

// askOnce brings a wish to the node that leads as far as this one knows. It
// gives up when another is heard of.
func (c *Controller) askOnce(ctx context.Context, a ask, changed <-chan struct{}) outcome {
	select {
	case <-c.closing:
		return outcome{err: ErrClosed}
	default:
	}
	if c.raft.State() == raft.Leader {
		return c.carryOut(ctx, a)
	}
	body, err := c.callLeader(ctx, changed, askMethod, encodeAsk(a))
	if err != nil {
		return outcome{err: err}
	}
	index, answer, refusal, err := decodeAnswer(body)
	if err != nil {
		return outcome{err: fmt.Errorf("%w: the answer can't be read: %w", ErrUncertain, err)}
	}
	return outcome{index, answer, refusal}
}

// callLeader calls the active controller on another node.
func (c *Controller) callLeader(ctx context.Context, changed <-chan struct{}, m peer.Method, body []byte) ([]byte, error) {
	addr, id := c.raft.LeaderWithID()
	if addr == "" || id == c.self || c.peers == nil {
		return nil, fmt.Errorf("%w: no node is known to be", ErrNotController)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(c.closed, cancel)
	defer stop()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-changed:
			cancel()
		case <-ended:
		}
	}()
	answer, err := c.peers.Call(ctx, string(addr), m, body)
	var remote *peer.RemoteError
	switch {
	case errors.Is(err, peer.ErrNotSent), errors.As(err, &remote):
		return nil, fmt.Errorf("%w: controller at %s: %w", ErrNotController, addr, err)
	case err != nil:
		return nil, fmt.Errorf("%w: controller at %s: %w", ErrUncertain, addr, err)
	}
	return answer, nil
}

// serveAsk answers another node's wish.
func (c *Controller) serveAsk(ctx context.Context, _ peer.Identity, body []byte) ([]byte, error) {
	a, err := decodeAsk(body)
	if err != nil {
		return nil, err // nothing was done
	}
	o := c.carryOut(ctx, a)
	if !errors.Is(o.err, ErrUncertain) && (errors.Is(o.err, ErrClosed) || errors.Is(o.err, context.Canceled) || errors.Is(o.err, context.DeadlineExceeded)) {
		o.err = fmt.Errorf("%w: %w", ErrNotController, o.err)
	}
	return encodeAnswer(o.index, o.answer, o.err), nil
}

// serve answers other nodes.
func (c *Controller) serve() {
	c.peers.Serve(askMethod, c.serveAsk)
	c.peers.Serve(beatMethod, c.serveBeat)
	c.peers.Serve(joinMethod, c.serveJoin)
	c.peers.OnClosed(c.closedBy)
}
