package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sawlog/broker/controller"
	"sawlog/broker/peer"
	"sawlog/broker/wire"
	"sawlog/offsets"
)

// A broker among others: how it becomes a member of its cluster, stays one and
// leaves.

const (
	// clientListener and peerListener are the names of the listeners clients and
	// other brokers connect to.
	clientListener = "PLAINTEXT"
	peerListener   = "PEER"

	// beatEvery is how often a broker tells the active controller that it lives,
	// and beatWait how long it waits for the answer.
	beatEvery = 150 * time.Millisecond
	beatWait  = 500 * time.Millisecond

	// drainTime bounds how long a broker that stops waits for others to take
	// over what it leads.
	drainTime = 10 * time.Second
)

// identity is what this node says of itself to others.
func (b *Broker) identity() peer.Identity {
	id := b.self.Load()
	if id == nil {
		return peer.Identity{Node: offsets.NoBroker}
	}
	return *id
}

// openPeers opens the network between the brokers.
func (b *Broker) openPeers() error {
	c := b.config
	var err error
	if b.directory, err = parseUUID(b.disk.Meta().DirectoryID); err != nil {
		return fmt.Errorf("broker: directory id: %w", err)
	}
	if b.incarnation, err = parseUUID(randomID()); err != nil {
		return err
	}
	if c.Peer == "" && c.PeerListener == nil {
		return nil
	}
	// A member says so from the first connection on: whoever hears of none founds a
	// cluster.
	meta := b.disk.Meta()
	b.nodeID, b.clusterID = meta.NodeID, meta.ClusterID
	b.identify()
	b.peers, err = peer.Open(peer.Config{
		Listen: c.Peer, Listener: c.PeerListener, Dial: c.PeerDial, Key: c.ClusterKey,
		Self: b.identity, Met: b.meet, Logger: c.Logger,
	})
	if errors.Is(err, syscall.EADDRINUSE) && c.PeerOptional && len(c.Join) == 0 && !b.disk.Meta().Joined {
		c.Logger.Warn("the address for other brokers is taken: this broker serves alone", "peer", c.Peer)
		b.peers = nil
		return nil
	}
	if err != nil {
		return fmt.Errorf("broker: listen for other brokers on %s: %w", c.Peer, err)
	}
	b.peerAddr = c.PeerAdvertise
	if b.peerAddr == "" {
		b.peerAddr = b.peers.Addr()
	}
	return b.knowSelf()
}

// identify sets what identity says, as far as it is known.
func (b *Broker) identify() {
	id := &peer.Identity{Node: offsets.NoBroker, Directory: b.directory, Incarnation: b.incarnation}
	if b.clusterID != "" {
		id.Cluster, id.Node = b.clusterID, b.nodeID
	}
	b.self.Store(id)
}

// enter makes a node with a new data directory a member of a cluster: of the
// one it was told to join, or of one it founds.
func (b *Broker) enter(ctx context.Context) error {
	meta := b.disk.Meta()
	if meta.Beside != "" {
		return b.formerMember(meta.Beside)
	}
	if meta.ClusterID == "" {
		founds, err := b.founds(ctx)
		if err != nil {
			return err
		}
		if founds {
			meta.ClusterID, meta.NodeID = randomID(), max(b.config.NodeID, 1)
		} else {
			to, err := b.join(ctx)
			if err != nil {
				return err
			}
			meta.ClusterID, meta.NodeID, meta.Joined = to.ClusterID, to.Node, true
		}
		if err := b.disk.SetMeta(meta); err != nil {
			return err
		}
	}
	if b.config.NodeID != 0 && b.config.NodeID != meta.NodeID {
		return fmt.Errorf("broker: %s belongs to node %d, not %d", b.config.Dir, meta.NodeID, b.config.NodeID)
	}
	b.nodeID, b.clusterID = meta.NodeID, meta.ClusterID
	if b.peers == nil {
		return nil
	}
	b.identify()
	return nil
}

func (b *Broker) join(ctx context.Context) (controller.Joined, error) {
	want := offsets.NoBroker
	if b.config.NodeID != 0 {
		want = b.config.NodeID
	}
	b.config.Logger.Info("joining a cluster", "at", b.config.Join)
	b.stage(fmt.Sprintf("it joins the cluster at %s", strings.Join(b.config.Join, ", ")))
	return controller.Join(ctx, b.peers, b.config.Join, controller.JoinRequest{Node: want, Directory: b.directory, PeerAddr: b.peerAddr, Levels: controller.LevelsTo(b.config.FormatLevel)})
}

// among tells whether there are other brokers, up or down.
func (b *Broker) among() bool {
	if b.peers == nil {
		return false
	}
	return b.disk.Meta().Joined || slices.ContainsFunc(b.controller.Image().Brokers, func(o controller.Broker) bool { return o.ID != b.nodeID })
}

// servePeers lets other brokers fetch.
func (b *Broker) servePeers() {
	if b.peers == nil {
		return
	}
	b.peerServer = wire.NewServer(wire.Config{Handler: peerHandler{b}, Rules: peerRules, Logger: b.config.Logger, QueuedBytes: b.config.QueuedBytes})
	b.peers.Serve(quorumMethod, b.serveQuorum)
	b.peers.Accept(peer.Kafka, func(c *peer.Conn) { b.peerServer.ServePeer(c.Conn, c.Remote.Node) })
}

// dialPeer connects to another broker for Kafka frames.
func (b *Broker) dialPeer(ctx context.Context, id offsets.BrokerID) (net.Conn, error) {
	other, ok := b.controller.Image().Broker(id)
	if !ok {
		return nil, fmt.Errorf("%w: %d", controller.ErrUnknownBroker, id)
	}
	addr := endpoint(other, peerListener)
	if addr == "" || b.peers == nil {
		return nil, fmt.Errorf("broker %d told no address for other brokers", id)
	}
	c, err := b.peers.Dial(ctx, addr, peer.Kafka, id)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// beats keeps this broker in service, in a goroutine that waits for no disk.
func (b *Broker) beats() {
	defer b.wg.Done()
	t := time.NewTicker(beatEvery)
	defer t.Stop()
	for {
		b.beat()
		select {
		case <-t.C:
		case <-b.leaving.wake:
		case <-b.beating.Done():
			return
		}
	}
}

// beat sends one heartbeat and takes its answer.
func (b *Broker) beat() {
	ctx, cancel := context.WithTimeout(b.beating, beatWait)
	defer cancel()
	leaving := b.leaving.asked()
	to, err := b.controller.Heartbeat(ctx, controller.Beat{
		Broker: b.nodeID, Epoch: b.epoch.Load(), Applied: b.controller.Applied(),
		WantUnfence: !b.failing() && !leaving, WantShutdown: leaving, Full: b.disk.Full(),
	})
	switch {
	case errors.Is(err, controller.ErrUnknownBroker):
		b.fail(fmt.Errorf("broker %d was forgotten by the cluster: start it on an empty data directory, and let that join: %w", b.nodeID, err))
	case errors.Is(err, controller.ErrStaleBrokerEpoch):
		b.registerAgain()
	case err == nil && to.MayShutdown:
		b.leaving.allow()
	}
}

// Drain hands what this broker leads to others and returns when they have taken
// over, or ctx ends. Alone it returns at once.
func (b *Broker) Drain(ctx context.Context) error {
	if !b.among() || b.failing() {
		return nil
	}
	b.leaving.ask()
	select {
	case <-b.leaving.allowed:
		return nil
	case <-b.broken:
		return errors.New("broker has failed")
	case <-ctx.Done():
		return fmt.Errorf("others have not taken over yet: %w", ctx.Err())
	}
}

// leaving is a broker's wish to leave in good order, and what became of it.
type leaving struct {
	wake    chan struct{} // a heartbeat is wanted now
	allowed chan struct{} // closed when the broker may go
	want    atomic.Bool
	once    sync.Once
}

func newLeaving() *leaving {
	return &leaving{wake: make(chan struct{}, 1), allowed: make(chan struct{})}
}

func (l *leaving) ask() {
	l.want.Store(true)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *leaving) asked() bool { return l.want.Load() }

func (l *leaving) allow() { l.once.Do(func() { close(l.allowed) }) }
