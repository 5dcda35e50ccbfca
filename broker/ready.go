package broker

import (
	"errors"
	"fmt"
	"slices"

	"sawlog/broker/controller"
	"sawlog/offsets"
)

// stage tells what the start is at.
func (b *Broker) stage(at string) {
	if b.config.Stage != nil {
		b.config.Stage(at)
	}
}

// Ready tells whether the broker serves, and whether the next one may be
// stopped: it is in service, and once since its start all its replicas were in
// sync. The error says what is missing.
func (b *Broker) Ready() error {
	switch {
	case b.failing():
		return errors.New("it has failed")
	case b.ctx.Err() != nil:
		return errors.New("it is closed")
	case b.leaving.asked():
		return errors.New("it leaves: others take over what it leads")
	}
	im := b.controller.Image()
	if err := b.inService(im); err != nil {
		return err
	}
	return b.caughtUp(im)
}

// inService tells why clients should not be sent here.
func (b *Broker) inService(im *controller.Image) error {
	self, ok := im.Broker(b.nodeID)
	switch {
	case b.controller.Leader() == offsets.NoBroker:
		return fmt.Errorf("no active controller can be reached: more than half of the nodes that vote on the metadata, %d, must be up", b.controller.Voters())
	case !ok || self.Fenced:
		return errors.New("it is out of service: the active controller has not let it in yet, or no longer hears from it")
	case !b.controller.Leased():
		return errors.New("it has not reached the active controller lately")
	case len(im.Brokers) >= 3 && b.controller.Voters() == 1:
		return errors.New("metadata is kept by one voter only: the cluster would not survive its end")
	}
	return nil
}

// caughtUp tells how many replicas have yet to get what they missed. Later ones
// that fall behind are no reason not to be ready; metrics tell of them.
func (b *Broker) caughtUp(im *controller.Image) error {
	if b.complete.Load() {
		return nil
	}
	behind, all := 0, 0
	for _, t := range im.Topics() {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if p.Leader == offsets.NoBroker || !slices.Contains(p.Replicas, b.nodeID) || slices.Contains(p.Adding, b.nodeID) {
				continue
			}
			if all++; !slices.Contains(p.ISR, b.nodeID) {
				behind++
			}
		}
	}
	if behind > 0 {
		return fmt.Errorf("it catches up: %d of %d partitions here are not in sync yet", behind, all)
	}
	b.complete.Store(true)
	return nil
}
