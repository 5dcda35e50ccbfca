package controller

import (
	"time"

	"github.com/hashicorp/raft"

	"sawlog/offsets"
)

const (
	// planEvery is how often the active controller looks whether other nodes
	// should vote: as long as one alone votes, its disk is all there is of the
	// metadata that counts.
	planEvery = 100 * time.Millisecond
	// planRest is the pause after a change of the quorum that failed, and
	// between two looks at who leads what.
	planRest = time.Second
)

const (
	voterReplacementKey = "controller.voter.replacement.ms"
	voterReplacement    = 10 * 60 * 1000 // ms
)

// watchVoters gives votes to nodes and takes them, and moves leaders back to
// where they belong, while this node is the active controller.
func (c *Controller) watchVoters() {
	t := time.NewTicker(planEvery)
	defer t.Stop()
	// Who holds the image of a while ago is caught up: old is at least planRest
	// of age, young becomes old next.
	old, young := c.Image(), c.Image()
	taken, steady := time.Now(), time.Now()
	var resting time.Time
	for {
		select {
		case <-t.C:
		case <-c.closing:
			return
		}
		im, now := c.Image(), time.Now()
		c.learnAddresses(im)
		if c.leads() && len(c.servers()) > 1 && now.After(resting) {
			if err := c.changeServers(old, im); err != nil {
				c.logger.Warn("the metadata quorum is not changed", "error", err)
				resting = time.Now().Add(planRest)
			}
		}
		if now.Sub(taken) < planRest {
			continue
		}
		if !c.leads() || !sameBrokers(young, im) {
			steady = now
		} else {
			c.balance(im, steady)
		}
		old, young, taken = young, im, now
	}
}

// changeServers makes one change of who votes. Who holds the image old is caught up.
func (c *Controller) changeServers(old, im *Image) error {
	select {
	case c.membership <- struct{}{}:
		defer func() { <-c.membership }()
	default:
		return nil // a node comes or goes
	}
	all := c.servers()
	servers := make([]quorumServer, len(all))
	for i, s := range all {
		m, _ := parseServerID(s.ID)
		servers[i] = quorumServer{m.ID, s.Suffrage == raft.Voter, s.ID == c.self}
	}
	change, ok := c.planVoters(servers, old, im)
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

func (c *Controller) planVoters(servers []quorumServer, old, im *Image) (quorumChange, bool) {
	h := &c.beats
	patience := int64(c.settings.number(im, nil, voterReplacementKey, voterReplacement))
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions == nil || h.term != c.led.Load() {
		return quorumChange{}, false
	}
	return planVoters(servers,
		func(id offsets.BrokerID) bool { return h.sessions.caughtUp(id, im, old.Index) },
		func(id offsets.BrokerID) bool { return h.sessions.fencedFor(id, h.now()) > patience })
}
