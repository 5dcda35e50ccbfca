package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// InitProducerId, versions 0–5 (KIP-98, KIP-360): a new id for an idempotent
// producer. Ids come in blocks from the controller, so none is given twice, also
// by another broker. A transactional id is refused with
// TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which clients don't retry: there are no
// transactions here, and half of them would be worse than none.

func (b *Broker) initProducerID(r *kmsg.InitProducerIDRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.InitProducerIDResponse)
	m.ProducerID, m.ProducerEpoch = -1, -1
	switch {
	case (r.ProducerID == -1) != (r.ProducerEpoch == -1), r.TransactionalID != nil && *r.TransactionalID == "":
		m.ErrorCode = kerr.InvalidRequest.Code
		return m
	case r.TransactionalID != nil:
		m.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
		return m
	}
	ctx, cancel := b.adminContext(0)
	defer cancel()
	id, err := b.producers.next(ctx)
	switch {
	case err == nil:
		m.ProducerID, m.ProducerEpoch = id, 0
	default:
		m.ErrorCode = kerr.CoordinatorLoadInProgress.Code // clients ask again
		b.config.Logger.Warn("no producer id", "error", err)
	}
	return m
}

// producerIDs hands out the ids of a block.
type producerIDs struct {
	take func(context.Context) (first int64, count int, err error)

	turn  chan struct{} // held by whoever takes an id; who waits for it can give up
	from  int64
	until int64
}

func newProducerIDs(take func(context.Context) (first int64, count int, err error)) *producerIDs {
	return &producerIDs{take: take, turn: make(chan struct{}, 1)}
}

func (p *producerIDs) next(ctx context.Context) (int64, error) {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return -1, ctx.Err()
	}
	defer func() { <-p.turn }()
	if p.from == p.until {
		first, count, err := p.take(ctx)
		if err != nil {
			return -1, err
		}
		p.from, p.until = first, first+int64(count)
	}
	id := p.from
	p.from++
	return id, nil
}
