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
