package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// addresses is where the nodes of the quorum are reached. Raft itself knows them
// by their ids alone: an address in its configuration could be changed by its
// leader only, and where most of the voters moved at once there would never be
// one.
//
// A node that moved tells all others it can reach, leader or not, and registers
// its broker anew: a registration is newer than what was told before it, and
// what is told is newer than the registration it came after. It is kept in the
// stable store, as a node that starts must find the others before it knows what
// is committed.
type addresses struct {
	stable *stable

	mu    sync.Mutex
	known map[raft.ServerID]address
}

// address is where a node is reached.
type address struct {
	epoch int64 // of the last registration that was looked at; 0 = none
	at    string
}

func openAddresses(s *stable) (*addresses, error) {
	a := &addresses{stable: s, known: map[raft.ServerID]address{}}
	src, err := s.Get([]byte(addressesKey))
	if err != nil || src == nil {
		return a, err
	}
	r := &reader{src: src}
	for range r.arrayLen(3) {
		id := raft.ServerID(r.string())
		a.known[id] = address{r.int64(), r.string()}
	}
	if err := r.done(); err != nil {
		return nil, fmt.Errorf("stable store %s: addresses: %w", s.path, err)
	}
	return a, nil
}

// of is where a node is reached, "" when that isn't known.
func (a *addresses) of(id raft.ServerID) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known[id].at
}

// told takes what a node says of itself, and tells whether that is news. It is
// on disk when told returns.
func (a *addresses) told(id raft.ServerID, at string) (news bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.known[id]
	if was.at == at {
		return false, nil
	}
	return true, a.keep(map[raft.ServerID]address{id: {was.epoch, at}}, nil)
}

// learn takes what the brokers registered since it was last called, forgets
// nodes that are in nobody's quorum, and returns those that have moved.
func (a *addresses) learn(servers []raft.Server, im *Image) (moved []raft.ServerID, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	newer := map[raft.ServerID]address{}
	for i := range im.Brokers {
		b := &im.Brokers[i]
		id := serverID(b.ID, b.Directory)
		at, ok := b.peerAddr()
		if was := a.known[id]; ok && b.Epoch > was.epoch {
			newer[id] = address{b.Epoch, at}
			if was.at != "" && was.at != at {
				moved = append(moved, id)
			}
		}
	}
	var gone []raft.ServerID
	for id, is := range a.known {
		m, _ := parseServerID(id)
		b, registered := im.Broker(m.ID)
		member := slices.ContainsFunc(servers, func(s raft.Server) bool { return s.ID == id })
		// Who joins is told of before it is a member.
		if !member && is.epoch > 0 && !(registered && b.Directory == m.Directory) {
			gone = append(gone, id)
		}
	}
	if len(newer) == 0 && len(gone) == 0 {
		return nil, nil
	}
	return moved, a.keep(newer, gone)
}

// keep changes the addresses, on disk first. The lock is held.
func (a *addresses) keep(newer map[raft.ServerID]address, gone []raft.ServerID) error {
	next := make(map[raft.ServerID]address, len(a.known)+len(newer))
	for id, is := range a.known {
		if !slices.Contains(gone, id) {
			next[id] = is
		}
	}
	maps.Copy(next, newer)
	dst := appendUvarint(nil, uint64(len(next))+1)
	for id, is := range next {
		dst = appendString(appendInt64(appendString(dst, string(id)), is.epoch), is.at)
	}
	if err := a.stable.Set([]byte(addressesKey), dst); err != nil {
		return err
	}
	a.known = next
	return nil
}

// addressOf is where a node of the quorum is reached, "" when that isn't known.
func (c *Controller) addressOf(id raft.ServerID) string {
	if id == c.self {
		return c.addr
	}
	return c.where.of(id)
}

// othersAt is where other nodes of the cluster are, or were when this one was
// started.
func (c *Controller) othersAt() []string {
	addrs := slices.Clone(c.others)
	for _, s := range c.servers() {
		if at := c.where.of(s.ID); s.ID != c.self && at != "" && !slices.Contains(addrs, at) {
			addrs = append(addrs, at)
		}
	}
	return addrs
}

// learnAddresses follows what the brokers register.
func (c *Controller) learnAddresses(im *Image) {
	moved, err := c.where.learn(c.servers(), im)
	if err != nil {
		c.logger.Warn("where the other nodes are is not kept for the next start", "error", err)
	}
	for _, id := range moved {
		c.stream.hangUp(id)
	}
}

// heardOf takes what a member says of where it is.
func (c *Controller) heardOf(id raft.ServerID, at string) error {
	if id == c.self {
		return nil
	}
	news, err := c.where.told(id, at)
	if news && err == nil {
		c.stream.hangUp(id)
	}
	return err
}

// noteMoved takes where a member says it is now, also on a node that doesn't lead.
func (c *Controller) noteMoved(j joinAsk) {
	id := serverID(j.Node, j.Directory)
	if j.PeerAddr == "" || !slices.ContainsFunc(c.servers(), func(s raft.Server) bool { return s.ID == id }) {
		return
	}
	if err := c.heardOf(id, j.PeerAddr); err != nil {
		c.logger.Warn("a node's new address is not kept", "node", j.Node, "address", j.PeerAddr, "error", err)
	}
}

// movedAsk is what a member says that has its metadata and may have moved.
func (c *Controller) movedAsk() joinAsk {
	m, _ := parseServerID(c.self)
	return joinAsk{JoinRequest: JoinRequest{m.ID, m.Directory, c.addr, c.settings.levels}, moved: true}
}

// tellAddress tells each of the others where this node is now, until its broker
// has registered from there.
func (c *Controller) tellAddress() {
	for {
		if b, ok := c.Image().Broker(c.node); ok {
			if at, _ := b.peerAddr(); at == c.addr {
				return
			}
		}
		for _, at := range c.othersAt() {
			ctx, cancel := context.WithTimeout(c.closed, time.Second)
			_, err := callJoin(ctx, c.peers, at, c.movedAsk())
			cancel()
			if err != nil {
				c.logger.Warn("another node may not know where this one is now", "other", at, "address", c.addr, "error", err)
			}
		}
		select {
		case <-time.After(joinPause):
		case <-c.closing:
			return
		}
	}
}
