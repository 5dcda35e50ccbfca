package model

import (
	"errors"
	"fmt"
	"slices"

	"sawlog/broker/controller"
	"sawlog/broker/replica"
	"sawlog/offsets"
)

// check holds the world to what replication promises, by the names the
// properties have in Kafka's formal specifications.
func (w *world) check() error {
	for _, n := range w.nodes {
		if n.up && n.state != nil {
			if err := w.promise(n); err != nil {
				return err
			}
		}
	}
	if w.illegal {
		return fmt.Errorf("an unclean election where the topic doesn't allow them: %v", partitionText(w.latest().partition))
	}
	if w.cutShort {
		return errors.New("a follower cut its log below its high watermark")
	}
	for _, n := range w.nodes {
		if err := w.checkNode(n); err != nil {
			return err
		}
	}
	if err := w.logMatching(); err != nil {
		return err
	}
	return w.candidateCompleteness()
}

// promise takes note of what a leader shows to readers and tells producers. What
// was shown once must be shown for ever (read consistency).
func (w *world) promise(n *node) error {
	s := n.state
	to := s.HighWatermark()
	epoch := s.Assigned().Epoch
	if !s.Leads() {
		return nil
	}
	n.tickets = slices.DeleteFunc(n.tickets, func(t ticket) bool {
		ok, err := s.Committed(t.epoch, t.end)
		if ok {
			w.events["ack"]++
			to = max(to, t.end)
		}
		return ok || err != nil
	})
	if epoch < w.base {
		return nil
	}
	if len(w.committed) == 0 {
		w.from = n.log.start
	}
	known := w.from + offsets.Offset(len(w.committed))
	if n.log.start > known {
		return fmt.Errorf("leader %d begins at %d, only %d was committed", n.id, n.log.start, known)
	}
	for o := max(n.log.start, w.from); o < to; o++ {
		switch r := n.log.at(o); {
		case o >= known:
			w.committed, w.promisedIn = append(w.committed, r), append(w.promisedIn, epoch)
		case r != w.committed[o-w.from]:
			return fmt.Errorf("read consistency: leader %d in epoch %d shows %v at %d, once it was %v", n.id, epoch, r, o, w.committed[o-w.from])
		}
	}
	return nil
}

func (w *world) checkNode(n *node) error {
	if n.log.start > w.trimmed {
		return fmt.Errorf("the log of %d begins at %d, nobody trimmed beyond %d", n.id, n.log.start, w.trimmed)
	}
	if !n.up || n.state == nil {
		return nil
	}
	s := n.state
	if s.LogStart() != n.log.start || s.LogEnd() != n.log.end() {
		return fmt.Errorf("state of %d says [%d, %d), its log is [%d, %d)", n.id, s.LogStart(), s.LogEnd(), n.log.start, n.log.end())
	}
	if s.LogStart() > s.LastStable() || s.LastStable() > s.HighWatermark() || s.HighWatermark() > s.LogEnd() {
		return fmt.Errorf("offsets of %d: %d ≤ %d ≤ %d ≤ %d doesn't hold", n.id, s.LogStart(), s.LastStable(), s.HighWatermark(), s.LogEnd())
	}
	if w.base < 0 {
		for o := max(n.log.start, w.from); o < s.HighWatermark(); o++ {
			if i := int(o - w.from); i >= len(w.committed) || w.committed[i] != n.log.at(o) {
				return fmt.Errorf("read consistency: %d shows %v at %d, which no leader committed", n.id, n.log.at(o), o)
			}
		}
	}
	if !s.Leads() {
		return nil
	}
	epoch := s.Assigned().Epoch
	is := [2]int{int(n.id), n.boot}
	if was, ok := w.leaders[epoch]; ok && was != is {
		return fmt.Errorf("two leaders in epoch %d: %v and %v (broker and start)", epoch, was, is)
	}
	w.leaders[epoch] = is
	if o, missing := w.missing(n, epoch); missing {
		return fmt.Errorf("leader completeness: leader %d in epoch %d hasn't what was committed at %d", n.id, epoch, o)
	}
	if p := w.latest().partition; p.Epoch == epoch {
		for _, id := range p.ISR {
			if !s.Counts(id) {
				return fmt.Errorf("replication quorum superset: leader %d doesn't wait for %d, which is in the ISR %v", n.id, id, p.ISR)
			}
		}
	}
	return nil
}

// missing finds a committed record that a log should hold, of those promised in
// an epoch up to the given one.
func (w *world) missing(n *node, epoch offsets.Epoch) (offsets.Offset, bool) {
	if epoch < w.base {
		return 0, false
	}
	for i, r := range w.committed {
		o := w.from + offsets.Offset(i)
		if o >= n.log.start && w.promisedIn[i] <= epoch && (!n.log.holds(o) || n.log.at(o) != r) {
			return o, true
		}
	}
	return 0, false
}

// candidateCompleteness: whoever may be elected holds all that was committed,
// unless a disk took it from him; and somebody does (no global loss).
func (w *world) candidateCompleteness() error {
	p := w.latest().partition
	if p.Epoch < w.base {
		return nil
	}
	complete := 0
	for _, id := range w.candidates() {
		n := w.node(id)
		if n.dirty {
			continue
		}
		complete++
		if o, missing := w.missing(n, nobody); missing {
			return fmt.Errorf("leader candidate completeness: %d in ISR %v, ELR %v hasn't what was committed at %d", id, p.ISR, p.ELR, o)
		}
	}
	if complete == 0 && len(w.committed) > 0 && w.base < nobody {
		return fmt.Errorf("no global loss: nobody in ISR %v, ELR %v holds what was committed", p.ISR, p.ELR)
	}
	if p.Leader != offsets.NoBroker {
		if b, ok := w.latest().image.Broker(p.Leader); !ok || b.Fenced || b.ShuttingDown {
			return fmt.Errorf("leader %d is not in service", p.Leader)
		}
	}
	return nil
}

// logMatching: two logs that agree on the epoch at an offset agree on all
// before it.
func (w *world) logMatching() error {
	for i, a := range w.nodes {
		for _, b := range w.nodes[:i] {
			from, to := max(a.log.start, b.log.start), min(a.log.end(), b.log.end())
			agree := false
			for o := to - 1; o >= from; o-- {
				x, y := a.log.at(o), b.log.at(o)
				agree = agree || x.epoch == y.epoch
				if agree && x != y {
					return fmt.Errorf("log matching: %d and %d differ at %d: %v and %v", a.id, b.id, o, x, y)
				}
			}
		}
	}
	return nil
}

// heal ends all faults and tells what isn't well after that: all replicas must
// come to be in sync and equal, and everything be committed.
func (w *world) heal() error {
	w.soup = nil
	for _, n := range w.nodes {
		if n.asked != nil {
			n.state.Answered(n.asked.as, replica.Lost)
			n.asked = nil
		}
	}
	for range 80 {
		w.now += 10
		for _, n := range w.nodes {
			if !n.up {
				w.changeBroker(n, true, false, false) // its session ends
			}
			w.startNode(n)
			if n.up {
				if b, ok := w.model.Image().Broker(n.id); ok && (b.Fenced || b.ShuttingDown || b.Full) {
					w.changeBroker(n, false, false, false)
				}
			}
			w.decided()
		}
		for _, n := range w.nodes {
			if !n.up {
				continue
			}
			n.learn(w, len(w.moments)-1)
			if n.state == nil {
				continue
			}
			if n.state.Leads() {
				w.sendProposal(n)
			} else if n.state.Assigned().Leader != offsets.NoBroker {
				w.sendFetch(n)
			}
		}
		for len(w.soup) > 0 {
			m := w.soup[0]
			w.soup = w.soup[1:]
			w.receive(m, 4)
			if err := w.check(); err != nil {
				return fmt.Errorf("while healing: %w", err)
			}
		}
		if w.well() == nil {
			return nil
		}
	}
	return w.well()
}

func (w *world) well() error {
	p := w.latest().partition
	if p.Leader == offsets.NoBroker {
		return fmt.Errorf("healed, but without a leader: %v", partitionText(p))
	}
	l := w.node(p.Leader)
	if !l.up || l.state == nil || !l.state.Leads() || !l.state.Trusted() || l.state.HighWatermark() != l.log.end() {
		return fmt.Errorf("healed, but leader %s isn't all committed", l.describe())
	}
	if p.Reassigning() {
		return fmt.Errorf("healed, but still being reassigned: %v", partitionText(p))
	}
	for _, id := range p.Replicas {
		n := w.node(id)
		if n.state == nil || !slices.Contains(p.ISR, id) || n.log.end() != l.log.end() || n.state.HighWatermark() != l.log.end() {
			return fmt.Errorf("healed, but %s is behind in %v", n.describe(), partitionText(p))
		}
	}
	return nil
}

func partitionText(p *controller.Partition) string {
	return fmt.Sprintf("leader %d epoch %d.%d replicas %v isr %v elr %v adding %v removing %v recovering %v",
		p.Leader, p.Epoch, p.PartitionEpoch, p.Replicas, p.ISR, p.ELR, p.Adding, p.Removing, p.Recovering)
}
