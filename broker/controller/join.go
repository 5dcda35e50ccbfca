package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"sawlog/broker/peer"
	"sawlog/offsets"
)

// JoinRequest is what a node says of itself that wants to join a cluster.
type JoinRequest struct {
	Node      offsets.BrokerID // NoBroker = give me an id
	Directory UUID
	PeerAddr  string // where the others reach it
	Levels    Levels // format levels it knows
}

// Joined is what the cluster says to a node that joined it.
type Joined struct {
	ClusterID string
	Node      offsets.BrokerID
}

// joinPause is how long a node waits before it asks to join again.
const joinPause = 200 * time.Millisecond

// Join makes a node with an empty data directory a member of the cluster some
// of whose nodes are reached at addrs: one that takes part in the metadata
// without a vote. It tries until ctx ends, unless it is refused. Asked again
// for the same directory it gives the same answer.
func Join(ctx context.Context, p *peer.Peers, addrs []string, j JoinRequest) (Joined, error) {
	return askToJoin(ctx, p, addrs, joinAsk{JoinRequest: j})
}

// joinAsk is a JoinRequest on the way.
type joinAsk struct {
	JoinRequest
	forwarded bool // by a node that isn't the active controller
	moved     bool // a member that has its metadata and tells its new address
}

func (j joinAsk) encode() []byte {
	var flags uint8
	if j.forwarded {
		flags |= 1
	}
	if j.moved {
		flags |= 2
	}
	dst := appendInt32(nil, int32(j.Node))
	dst = append(append(dst, j.Directory[:]...), flags)
	return appendInt16(appendInt16(appendString(dst, j.PeerAddr), j.Levels.Min), j.Levels.Max)
}

func decodeJoinAsk(src []byte) (joinAsk, error) {
	r := &reader{src: src}
	var j joinAsk
	j.Node = offsets.BrokerID(r.int32())
	copy(j.Directory[:], r.bytes(uint64(len(j.Directory))))
	flags := r.uint8()
	j.forwarded, j.moved = flags&1 != 0, flags&2 != 0
	j.PeerAddr = r.string()
	j.Levels = Levels{r.int16(), r.int16()}
	return j, r.done()
}

func askToJoin(ctx context.Context, p *peer.Peers, addrs []string, j joinAsk) (Joined, error) {
	if len(addrs) == 0 {
		return Joined{}, errors.New("join: no address of a node of the cluster")
	}
	var last error
	for i := 0; ; i++ {
		addr := addrs[i%len(addrs)]
		to, err := callJoin(ctx, p, addr, j)
		switch {
		case err == nil:
			return to, nil
		case errors.As(err, new(*refused)):
			return Joined{}, fmt.Errorf("join at %s: %w", addr, err)
		}
		if last == nil || ctx.Err() == nil {
			last = fmt.Errorf("join at %s: %w", addr, err)
		}
		select {
		case <-time.After(joinPause):
		case <-ctx.Done():
			return Joined{}, errors.Join(ctx.Err(), last)
		}
	}
}

// callJoin asks one node. A *refused is final.
func callJoin(ctx context.Context, p *peer.Peers, addr string, j joinAsk) (Joined, error) {
	body, err := p.Call(ctx, addr, joinMethod, j.encode())
	if err != nil {
		return Joined{}, err
	}
	r := &reader{src: body}
	to := Joined{Node: offsets.BrokerID(r.int32()), ClusterID: r.string()}
	refusal := r.string()
	if err := r.done(); err != nil {
		return Joined{}, err
	}
	if refusal != "" {
		return to, refuse(ErrDuplicateBroker, "%s", refusal)
	}
	return to, nil
}

func (to Joined) encode(refusal string) []byte {
	return appendString(appendString(appendInt32(nil, int32(to.Node)), to.ClusterID), refusal)
}

// rejoin asks whether a node without metadata may begin with none: not one
// whose vote counts, which it may have given.
func (c *Controller) rejoin(ctx context.Context, config Config) error {
	if len(config.Join) == 0 {
		return errors.New("node has joined a cluster and has no metadata yet: start it with --join and the address of another node")
	}
	j := JoinRequest{config.NodeID, config.Directory, config.PeerAddr, c.settings.levels}
	to, err := Join(ctx, config.Peers, config.Join, j)
	if err != nil {
		return err
	}
	if to.ClusterID != config.ClusterID || to.Node != config.NodeID {
		return fmt.Errorf("joined cluster %q as node %d, this is node %d of %q", to.ClusterID, to.Node, config.NodeID, config.ClusterID)
	}
	return nil
}

// serveJoin answers a node that wants to join.
func (c *Controller) serveJoin(ctx context.Context, _ peer.Identity, body []byte) ([]byte, error) {
	j, err := decodeJoinAsk(body)
	if err != nil {
		return nil, err
	}
	if j.moved {
		c.noteMoved(j)
	}
	if c.raft.State() != raft.Leader {
		if j.forwarded {
			return nil, ErrNotController
		}
		j.forwarded = true
		return c.callLeader(ctx, c.leaders.changed(), joinMethod, j.encode())
	}
	to, err := c.admit(ctx, j)
	var no *refused
	if errors.As(err, &no) {
		return to.encode(no.Error()), nil
	}
	return to.encode(""), err
}

// admit makes a node a member, on the active controller.
func (c *Controller) admit(ctx context.Context, j joinAsk) (Joined, error) {
	select {
	case c.membership <- struct{}{}:
	case <-ctx.Done():
		return Joined{}, ctx.Err()
	}
	defer func() { <-c.membership }()
	if o := c.propose(ctx, barrierAsk{}); o.err != nil {
		return Joined{}, o.err
	}
	if j.Directory.IsZero() || j.PeerAddr == "" || c.addr == "" {
		return Joined{}, refuse(ErrUnknownBroker, "A node without a data directory or an address can't join, nor can one join a node without.")
	}
	if err := j.Levels.check(c.Image().FormatLevel); err != nil {
		return Joined{}, err
	}
	known, err := c.knownAs(j)
	if err != nil {
		return Joined{}, err
	}
	to := Joined{c.Image().ClusterID, j.Node}
	if known != nil {
		m, _ := parseServerID(known.ID)
		to.Node = m.ID
		return to, c.heardOf(known.ID, j.PeerAddr)
	}
	if j.moved {
		return Joined{}, refuse(ErrUnknownBroker, "Node %d with this data directory is not a member of the cluster: it was forgotten, or another data directory has its place. Whatever it holds is held by others: start it on an empty data directory, and let that join.", j.Node)
	}
	if to.Node == offsets.NoBroker {
		if to.Node, err = c.freeNode(ctx); err != nil {
			return Joined{}, err
		}
	}
	if err := c.replaceNode(ctx, to.Node); err != nil {
		return Joined{}, err
	}
	c.logger.Info("a node joins", "node", to.Node, "address", j.PeerAddr)
	id := serverID(to.Node, j.Directory)
	if err := c.heardOf(id, j.PeerAddr); err != nil {
		return Joined{}, err
	}
	return to, raftDone(c.raft.AddNonvoter(id, raft.ServerAddress(id), 0, 0))
}

// knownAs finds the member a node is already, by its data directory.
func (c *Controller) knownAs(j joinAsk) (*raft.Server, error) {
	servers := c.servers()
	for i, s := range servers {
		m, ok := parseServerID(s.ID)
		if !ok || m.Directory != j.Directory {
			continue
		}
		switch {
		case j.Node != offsets.NoBroker && j.Node != m.ID:
			return nil, refuse(ErrDuplicateBroker, "The data directory is that of node %d, not of %d.", m.ID, j.Node)
		case s.Suffrage == raft.Voter && !j.moved:
			return nil, refuse(ErrDuplicateBroker, "Node %d votes on the metadata and has lost its own: what it voted for is not known any more. Let it join with an empty data directory.", m.ID)
		}
		return &servers[i], nil
	}
	return nil, nil
}

// freeNode takes a node id nobody has.
func (c *Controller) freeNode(ctx context.Context) (offsets.BrokerID, error) {
	for {
		o := c.propose(ctx, nodeIDAsk{})
		if o.err != nil {
			return offsets.NoBroker, o.err
		}
		id := offsets.BrokerID(o.answer.number)
		_, taken := c.Image().Broker(id)
		if !taken && c.serverOf(id) == nil {
			return id, nil
		}
	}
}

// serverOf finds the member with a node id.
func (c *Controller) serverOf(id offsets.BrokerID) *raft.Server {
	servers := c.servers()
	i := slices.IndexFunc(servers, func(s raft.Server) bool {
		m, ok := parseServerID(s.ID)
		return ok && m.ID == id
	})
	if i < 0 {
		return nil
	}
	return &servers[i]
}

// replaceNode removes the member that had a node id with another data
// directory, whose disk was wiped: it must be out of service.
func (c *Controller) replaceNode(ctx context.Context, id offsets.BrokerID) error {
	if !c.outOfService(ctx, id) {
		return refuse(ErrDuplicateBroker, "Node %d is in service with another data directory.", id)
	}
	old := c.serverOf(id)
	switch {
	case old == nil:
		return nil
	case old.ID == c.self:
		return refuse(ErrDuplicateBroker, "Node %d is in service with another data directory.", id)
	}
	c.logger.Info("a node's data directory is replaced", "node", id, "was", old.ID)
	return raftDone(c.raft.RemoveServer(old.ID, 0, 0))
}

// outOfService waits until a broker that may just have ended is out of service,
// for two sessions, and tells whether it is.
func (c *Controller) outOfService(ctx context.Context, id offsets.BrokerID) bool {
	patience := time.After(time.Duration(2*c.sessionTimeout()) * time.Millisecond)
	for {
		b, ok := c.Image().Broker(id)
		if !ok || b.Fenced {
			return true
		}
		select {
		case <-time.After(lookEvery):
		case <-patience:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// raftDone waits for Raft.
func raftDone(f raft.Future) error {
	if err := f.Error(); err != nil {
		return raftError(err)
	}
	return nil
}
