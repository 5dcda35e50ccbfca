package broker

import (
	"sync"
	"time"

	"sawlog/broker/replica"
	"sawlog/offsets"
)

// A broker that neither reaches the active controller nor is heard by most of
// the others has been cut off from them, and will be, or is already, replaced as
// a leader. What can't be committed without them it refuses then, so that
// clients that still reach it look elsewhere instead of waiting for it. Losing
// the controller alone is no reason: another one follows.

// contactEvery is how often that is looked at.
const contactEvery = 100 * time.Millisecond

// contact is when other brokers last fetched from this one.
type contact struct {
	mu    sync.Mutex
	heard map[offsets.BrokerID]time.Time
}

func (c *contact) hear(from offsets.BrokerID) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard == nil {
		c.heard = map[offsets.BrokerID]time.Time{}
	}
	c.heard[from] = now
}

// since tells who was heard after a moment.
func (c *contact) since(then time.Time) map[offsets.BrokerID]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	recent := map[offsets.BrokerID]bool{}
	for id, at := range c.heard {
		recent[id] = at.After(then)
	}
	return recent
}

// keepContact tells the replicas when this broker is cut off, and when it no
// longer is.
func (b *Broker) keepContact() {
	defer b.wg.Done()
	t := time.NewTicker(contactEvery)
	defer t.Stop()
	looked, was := time.Now(), false
	for {
		select {
		case <-t.C:
		case <-b.beating.Done():
			return
		}
		now, session := time.Now(), b.controller.Session()
		stood := now.Sub(looked) > session/2 // then the silence may be this process's own
		if looked = now; stood {
			continue
		}
		heard := b.contact.since(now.Add(-session))
		cut := !b.controller.Leased() && !b.most(heard)
		if cut != was {
			b.config.Logger.Warn("contact with the other brokers changes", "lost", cut)
		}
		if cut {
			b.strand(func(id offsets.BrokerID) bool { return !heard[id] })
		} else if was {
			b.strand(nil)
		}
		was = cut
	}
}

// most tells whether those heard and this broker are more than half of all.
func (b *Broker) most(heard map[offsets.BrokerID]bool) bool {
	brokers := b.controller.Image().Brokers
	n := 0
	for i := range brokers {
		if id := brokers[i].ID; id == b.nodeID || heard[id] {
			n++
		}
	}
	return 2*n > len(brokers)
}

// strand tells all replicas from whom this broker is cut off.
func (b *Broker) strand(silent func(offsets.BrokerID) bool) {
	b.replicas(func(p *replica.Partition) bool {
		p.Strand(silent)
		return true
	})
}
