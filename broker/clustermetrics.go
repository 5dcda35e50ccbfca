package broker

import (
	"slices"
	"sync/atomic"
	"time"

	"sawlog/broker/controller"
	"sawlog/offsets"
)

// changes counts what the metadata did to the partitions this broker leads.
type changes struct {
	isrShrinks  atomic.Int64
	isrExpands  atomic.Int64
	elections   atomic.Int64 // of this broker
	unclean     atomic.Int64 // those of them that may have lost records
	takeovers   atomic.Int64 // changes of metadata that made this broker lead something
	takeoverNow atomic.Int64 // nanoseconds they took in all
}

// count compares a topic with what it was, and tells how many of its partitions
// this broker was elected to lead. before is nil for a new one.
func (c *changes) count(self offsets.BrokerID, before, now *controller.Topic) (elected int) {
	if before == nil {
		return 0
	}
	for i := range min(len(before.Partitions), len(now.Partitions)) {
		was, is := &before.Partitions[i], &now.Partitions[i]
		if is.Leader != self {
			continue
		}
		if was.Leader != self {
			c.elections.Add(1)
			elected++
			if is.Recovering && !was.Recovering {
				c.unclean.Add(1)
			}
		}
		if missing(was.ISR, is.ISR) {
			c.isrShrinks.Add(1)
		}
		if missing(is.ISR, was.ISR) {
			c.isrExpands.Add(1)
		}
	}
	return elected
}

// missing tells whether one of a isn't in b.
func missing(a, b []offsets.BrokerID) bool {
	return slices.ContainsFunc(a, func(id offsets.BrokerID) bool { return !slices.Contains(b, id) })
}

// took notes how long a change took that made this broker lead something.
func (c *changes) took(d time.Duration) {
	c.takeovers.Add(1)
	c.takeoverNow.Add(int64(d))
}

// ClusterSnapshot is the broker's place in its cluster at one moment. Counters
// begin at the start of the process.
type ClusterSnapshot struct {
	ActiveController bool // this broker is it
	Fenced           bool // out of service
	// Brokers and FencedBrokers are those the cluster knows.
	Brokers, FencedBrokers   int64
	Term, Committed, Applied int64 // of the metadata log
	Offline                  int64 // partitions of the cluster without a leader

	// Of the partitions this broker leads.
	Leads           int64
	UnderReplicated int64
	UnderMinISR     int64 // take no records with acks=all
	AtMinISR        int64 // would take none if one more copy fell behind
	Reassigning     int64
	ISRShrinks      int64
	ISRExpands      int64
	Elections       int64
	Unclean         int64
	Takeovers       int64
	TakeoverTime    time.Duration
	// Lag is how many offsets a follower is behind on the partition on which it
	// is furthest behind.
	Lag map[offsets.BrokerID]int64
}

// ClusterMetrics reads the numbers.
func (b *Broker) ClusterMetrics() ClusterSnapshot {
	c := &b.metrics.changes
	s := ClusterSnapshot{
		ISRShrinks: c.isrShrinks.Load(), ISRExpands: c.isrExpands.Load(),
		Elections: c.elections.Load(), Unclean: c.unclean.Load(),
		Takeovers: c.takeovers.Load(), TakeoverTime: time.Duration(c.takeoverNow.Load()),
		Lag: map[offsets.BrokerID]int64{},
	}
	im := b.controller.Image()
	s.Applied = int64(im.Index)
	s.ActiveController = b.controller.Leader() == b.nodeID
	if q, err := b.controller.Quorum(); err == nil {
		s.Term, s.Committed = q.Term, q.HighWatermark-1
	}
	for i := range im.Brokers {
		s.Brokers++
		if im.Brokers[i].Fenced {
			s.FencedBrokers++
			s.Fenced = s.Fenced || im.Brokers[i].ID == b.nodeID
		}
	}
	for _, t := range im.Topics() {
		for i := range t.Partitions {
			if t.Partitions[i].Leader == offsets.NoBroker {
				s.Offline++
			}
		}
	}
	for _, t := range b.topics.all() {
		for i, p := range t.partitions {
			if is := &t.meta.Partitions[i]; p != nil && is.Leader == b.nodeID {
				s.lead(is, t.config.minISR)
				p.Lags(func(id offsets.BrokerID, behind int64) { s.Lag[id] = max(s.Lag[id], behind) })
			}
		}
	}
	return s
}

// lead counts one partition this broker leads.
func (s *ClusterSnapshot) lead(p *controller.Partition, minISR int) {
	s.Leads++
	should := len(p.Replicas) - len(p.Adding)
	if len(p.ISR) < should {
		s.UnderReplicated++
	}
	switch least := min(minISR, should); {
	case len(p.ISR) < least:
		s.UnderMinISR++
	case len(p.ISR) == least && least < should:
		s.AtMinISR++
	}
	if len(p.Adding)+len(p.Removing) > 0 {
		s.Reassigning++
	}
}
