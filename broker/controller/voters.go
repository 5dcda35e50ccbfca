package controller

import (
	"time"

	"github.com/hashicorp/raft"

	"sawlog/offsets"
)

// planEvery is how often the active controller looks whether other nodes should vote.
const planEvery = time.Second

const (
	voterReplacementKey = "controller.voter.replacement.ms"
	voterReplacement    = 10 * 60 * 1000 // ms
)

// watchVoters gives votes to nodes and takes them, and moves leaders back to
// where they belong, while this node is the active controller.
func (c *Controller) watchVoters() {
	t := time.NewTicker(planEvery)
	defer t.Stop()
	before, steady := c.Image(), time.Now()
	for {
		select {
		case <-t.C:
		case <-c.closing:
			return
		}
		im := c.Image()
		if c.leads() && len(c.servers()) > 1 {
			if err := c.changeServers(before, im); err != nil {
				c.logger.Warn("the metadata quorum is not changed", "error", err)
			}
		}
		if !c.leads() || !sameBrokers(before, im) {
			steady = time.Now()
		} else {
			c.balance(im, steady)
		}
		before = im
	}
}

// changeServers makes one change. before is the image of a while ago: who holds
// that is caught up, and a broker that was registered then and isn't any more
// has left the cluster.
func (c *Controller) changeServers(before, im *Image) error {
	select {
	case c.membership <- struct{}{}:
		defer func() { <-c.membership }()
	default:
		return nil // a node is joining
	}
	all := c.servers()
	servers := make([]quorumServer, len(all))
	for i, s := range all {
		m, _ := parseServerID(s.ID)
		servers[i] = quorumServer{m.ID, s.Suffrage == raft.Voter, s.ID == c.self.ID}
		_, was := before.Broker(m.ID)
		if _, is := im.Broker(m.ID); was && !is && !servers[i].Self {
			c.logger.Info("a node leaves the metadata quorum", "node", m.ID)
			return raftDone(c.raft.RemoveServer(s.ID, 0, 0))
		}
	}
	change, ok := c.planVoters(servers, before, im)
	if !ok {
		return nil
	}
	s := all[change.Server]
	c.logger.Info("the metadata quorum changes", "node", servers[change.Server].ID, "votes", change.Promote)
	if change.Promote {
		return raftDone(c.raft.AddVoter(s.ID, s.Address, 0, 0))
	}
	return raftDone(c.raft.DemoteVoter(s.ID, 0, 0))
}

func (c *Controller) planVoters(servers []quorumServer, before, im *Image) (quorumChange, bool) {
	h := &c.beats
	patience := int64(c.settings.number(im, nil, voterReplacementKey, voterReplacement))
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions == nil || h.term != c.led.Load() {
		return quorumChange{}, false
	}
	return planVoters(servers,
		func(id offsets.BrokerID) bool { return h.sessions.caughtUp(id, im, before.Index) },
		func(id offsets.BrokerID) bool { return h.sessions.fencedFor(id, h.now()) > patience })
}
