package controller

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"

	"sawlog/offsets"
)

// Quorum is who votes on the metadata, as this node sees it.
type Quorum struct {
	Leader offsets.BrokerID // NoBroker = unknown
	Term   int64
	// HighWatermark is the offset after the last committed entry, End the one
	// after the last that this node has.
	HighWatermark, End int64
	Voters, Observers  []QuorumMember
}

// QuorumMember is one node of the quorum.
type QuorumMember struct {
	ID        offsets.BrokerID
	Directory UUID
	Addr      string // where other nodes reach it
	// End is the offset after the last entry the node is known to have; only the
	// active controller knows that of others, from their beats. −1 = unknown.
	End int64
}

// Quorum tells how the metadata quorum stands.
func (c *Controller) Quorum() (Quorum, error) {
	future := c.raft.GetConfiguration()
	if err := future.Error(); err != nil {
		return Quorum{}, fmt.Errorf("metadata quorum: %w", err)
	}
	q := Quorum{
		Leader: c.Leader(), Term: int64(c.raft.CurrentTerm()),
		HighWatermark: int64(c.raft.CommitIndex()) + 1, End: int64(c.raft.LastIndex()) + 1,
	}
	for _, s := range future.Configuration().Servers {
		m, ok := parseServerID(s.ID)
		m.Addr, m.End = c.addressOf(s.ID), c.endOf(m.ID)
		switch {
		case !ok:
			continue // nothing this program named
		case s.Suffrage == raft.Voter:
			q.Voters = append(q.Voters, m)
		default:
			q.Observers = append(q.Observers, m)
		}
	}
	return q, nil
}

// Voters is how many nodes vote on the metadata, as far as this node knows.
func (c *Controller) Voters() (n int) {
	for _, s := range c.servers() {
		if s.Suffrage == raft.Voter {
			n++
		}
	}
	return n
}

// endOf is the offset after the last entry a node is known to have.
func (c *Controller) endOf(id offsets.BrokerID) int64 {
	if id == c.node {
		return int64(c.raft.LastIndex()) + 1
	}
	h := &c.beats
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions == nil || !c.leads() || h.term != c.led.Load() {
		return -1
	}
	if applied, ok := h.sessions.applied(id); ok {
		return int64(applied) + 1
	}
	return -1
}

// parseServerID reads what Open names a node in Raft: NODE.DIRECTORY.
func parseServerID(id raft.ServerID) (m QuorumMember, ok bool) {
	node, directory, _ := strings.Cut(string(id), ".")
	n, err := strconv.ParseInt(node, 10, 32)
	raw, errDirectory := hex.DecodeString(directory)
	if err != nil || errDirectory != nil || len(raw) != len(m.Directory) {
		return m, false
	}
	m.ID = offsets.BrokerID(n)
	copy(m.Directory[:], raw)
	return m, true
}
