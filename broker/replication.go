package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sawlog/broker/controller"
	"sawlog/broker/replica"
	"sawlog/broker/wire"
	"sawlog/offsets"
)

// Replication: followers fetch over connections between brokers, which reach a
// server of their own. It knows who is at the other end and serves Fetch alone;
// what a client claims to be on the client listener moves nothing.

// openReplication makes ready to follow. It comes before the controller, whose
// first image has replicas in it; nothing is fetched or asked for before
// startReplication.
func (b *Broker) openReplication() {
	b.fetchers = replica.NewFetchers(replica.FetchersConfig{
		Self:        b.nodeID,
		BrokerEpoch: b.epoch.Load,
		Dial:        b.dialPeer,
		Logger:      b.config.Logger,
	})
	b.keeper = replica.NewKeeper(replica.KeeperConfig{
		ChangeISRs: b.changeISRs,
		Usable:     b.usable,
		Led:        b.replicas,
		LagMax:     b.config.lagMax(),
	})
}

// startReplication begins to follow, and to keep the ISRs of what is led here.
// It comes once the broker is registered: what it fetched under its registration
// before would say nothing of what it holds now.
func (b *Broker) startReplication() {
	b.fetchers.Start()
	b.keeper.Start()
}

// endReplication ends it: after it nothing is written to the logs of followers.
func (b *Broker) endReplication() {
	if b.fetchers != nil {
		b.fetchers.Close()
	}
	if b.keeper != nil {
		b.keeper.Close()
	}
}

// peerHandler serves the brokers of the cluster.
type peerHandler struct{ broker *Broker }

// Serve runs one request.
func (h peerHandler) Serve(e *wire.Exchange) {
	if h.broker.failing() || e.Key != keyFetch {
		e.Fail(fmt.Errorf("key %d from a broker: it is not served", e.Key))
		return
	}
	h.broker.contact.hear(e.Client.Peer)
	h.broker.fetch(e)
}

func peerRules(key int16) (wire.Rule, bool) {
	if key != keyFetch {
		return wire.Rule{}, false
	}
	return rules(key)
}

// usable is the epoch of a broker that may be in an ISR.
func (b *Broker) usable(id offsets.BrokerID) (int64, bool) {
	br, ok := b.controller.Image().Broker(id)
	if !ok || br.Fenced || br.ShuttingDown || br.Full && id != b.nodeID {
		return 0, false
	}
	return br.Epoch, true
}

// replicas lists the replicas on this broker.
func (b *Broker) replicas(yield func(*replica.Partition) bool) {
	for _, t := range b.topics.all() {
		for _, p := range t.partitions {
			if p != nil && !yield(p) {
				return
			}
		}
	}
}

// wantISR has the ISR of a partition looked at.
func (b *Broker) wantISR(p *replica.Partition) { b.keeper.Want(p) }

// keepISRs has all ISRs looked at when a broker came, went or changed.
func (b *Broker) keepISRs(old, now *controller.Image) {
	same := func(x, y controller.Broker) bool {
		return x.ID == y.ID && x.Epoch == y.Epoch && x.Fenced == y.Fenced && x.ShuttingDown == y.ShuttingDown && x.Full == y.Full
	}
	if !slices.EqualFunc(old.Brokers, now.Brokers, same) {
		b.keeper.WantAll()
	}
}

// isrTime bounds one request to change ISRs.
const isrTime = 5 * time.Second

// changeISRs asks the controller for ISRs.
func (b *Broker) changeISRs(ctx context.Context, asks []replica.ISRAsk) []replica.Outcome {
	ctx, cancel := context.WithTimeout(ctx, isrTime)
	defer cancel()
	changes := make([]controller.ISRChange, len(asks))
	for i, a := range asks {
		c := controller.ISRChange{
			Topic: a.Topic, Partition: a.Partition, Broker: b.nodeID,
			LeaderEpoch: a.LeaderEpoch, PartitionEpoch: a.PartitionEpoch, Recovering: a.Recovering,
		}
		for _, m := range a.ISR {
			c.ISR = append(c.ISR, controller.Member{ID: m.ID, Epoch: m.Epoch})
			if m.ID == b.nodeID {
				c.BrokerEpoch = m.Epoch
			}
		}
		changes[i] = c
	}
	outcomes := make([]replica.Outcome, len(asks))
	results, err := b.controller.ChangeISRs(ctx, changes)
	for i := range outcomes {
		if err != nil {
			outcomes[i] = replica.Lost
			continue
		}
		outcomes[i] = outcomeOf(results[i].Err)
	}
	return outcomes
}

// outcomeOf says what an answer means for the leader that asked.
func outcomeOf(err error) replica.Outcome {
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
	switch {
	case err == nil:
		return replica.Granted
	case is(controller.ErrStalePartition, controller.ErrFencedEpoch, controller.ErrStaleBrokerEpoch):
		return replica.Overtaken
	case is(controller.ErrUncertain, controller.ErrAheadOfController, controller.ErrNotController):
		return replica.Lost
	default:
		return replica.Refused
	}
}
