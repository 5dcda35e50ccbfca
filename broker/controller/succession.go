package controller

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
)

// successionStep is how much later each next node stands for leader when the
// leader's process has ended, so that they don't take each other's votes.
const successionStep = 100 * time.Millisecond

// parted is told when a node's connection to this one has ended.
func (c *Controller) parted(from raft.ServerID) {
	select {
	case c.partings <- from:
	default: // an election will come all the same
	}
}

// succeed stands for leader when the leader's process has ended: its
// connections have, and nobody listens at its address. Who only doesn't hear of
// the leader waits for Raft's clock.
func (c *Controller) succeed() {
	for {
		select {
		case from := <-c.partings:
			if addr, id := c.raft.LeaderWithID(); id == from && id != c.self {
				c.succeedTo(addr, id)
			}
		case <-c.closing:
			return
		}
	}
}

func (c *Controller) succeedTo(addr raft.ServerAddress, leader raft.ServerID) {
	term := c.raft.CurrentTerm()
	rank, ok := c.rankAfter(leader)
	if !ok || !c.refuses(string(addr)) {
		return
	}
	select {
	case <-time.After(time.Duration(rank) * successionStep):
	case <-c.closing:
		return
	}
	if _, now := c.raft.LeaderWithID(); now != leader || c.raft.CurrentTerm() != term || c.resting.Load() {
		return // another one has stood, or this one may not
	}
	c.logger.Info("the active controller's process has ended, this node stands for it")
	if err := c.standNow(); err != nil {
		c.logger.Warn("this node doesn't stand for active controller", "error", err)
	}
}

// rankAfter is this node's place among the voters but for the leader.
func (c *Controller) rankAfter(leader raft.ServerID) (rank int, ok bool) {
	voters := slices.DeleteFunc(slices.Clone(c.servers()), func(s raft.Server) bool { return s.Suffrage != raft.Voter || s.ID == leader })
	rank = slices.IndexFunc(voters, func(s raft.Server) bool { return s.ID == c.self })
	return rank, rank >= 0
}

// refuses tells whether nobody listens at a node's address. A process that ends
// closes one thing after the other, so it is tried more than once.
func (c *Controller) refuses(addr string) bool {
	for _, wait := range probeAfter {
		select {
		case <-time.After(wait):
		case <-c.closing:
			return false
		}
		ctx, cancel := context.WithTimeout(c.closed, electionTimeout)
		err := c.peers.Probe(ctx, addr)
		cancel()
		if errors.Is(err, syscall.ECONNREFUSED) {
			return true
		}
	}
	return false
}
