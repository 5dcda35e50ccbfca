package controller

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/raft"

	"sawlog/offsets"
)

// Raft's clock (guard G2). A node alone does not wait for it, see elect, nor do
// others for one whose process has ended, see succession.go: it is for nodes
// that are silent, and long enough that a busy machine is not taken for one.
const (
	// electionTimeout is after how long without a leader a node stands for it;
	// Raft draws from it to twice as much.
	electionTimeout = 600 * time.Millisecond
	// leaseTimeout is for how long a leader leads whom not enough others answer.
	// No shorter than the others wait, as nobody can take over sooner.
	leaseTimeout = electionTimeout
	// commitTimeout bounds how late a follower hears that an entry is committed.
	commitTimeout = 10 * time.Millisecond
	// rpcTimeout bounds one message and its answer, the disk of the other node
	// between them.
	rpcTimeout = 2 * time.Second
	// maxAppend bounds the entries in one message, of up to 256 KiB each.
	maxAppend = 16
	// trailingLogs stay in the log after a snapshot for followers that lag.
	trailingLogs = 1024
)

// serverID names a node in Raft: a wiped disk is another server (guard G4).
func serverID(node offsets.BrokerID, directory UUID) raft.ServerID {
	return raft.ServerID(strconv.Itoa(int(node)) + "." + hex.EncodeToString(directory[:]))
}

// startRaft starts Raft and, where a cluster is to be founded, one of this node
// alone.
func (c *Controller) startRaft(config Config, snaps *snapshots, found bool) error {
	id := serverID(config.NodeID, config.Directory)
	c.self, c.addr, c.others = id, config.PeerAddr, config.Join
	c.stream = newStream(config.Peers, id, config.PeerAddr, c.where, c.parted)
	logger := newRaftLogger(config.Logger)
	c.trans = newVouching(raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Logger: logger, Stream: c.stream, ServerAddressProvider: c.stream, MaxPool: 3, Timeout: rpcTimeout,
		// One message at a time: a pipeline gains nothing where changes share
		// entries, and one that met a stalled disk may stay wedged.
		MaxRPCsInFlight: 1,
	}))
	rc := raft.DefaultConfig()
	rc.LocalID = id
	rc.Logger = logger
	rc.HeartbeatTimeout, rc.ElectionTimeout, rc.LeaderLeaseTimeout = electionTimeout, electionTimeout, leaseTimeout
	rc.CommitTimeout = commitTimeout
	rc.MaxAppendEntries = maxAppend
	rc.BatchApplyCh = true
	rc.TrailingLogs = trailingLogs
	// Raft's own trigger is switched off: takeSnapshots counts bytes as well.
	rc.SnapshotThreshold, rc.SnapshotInterval = math.MaxUint64, 24*time.Hour
	if found {
		alone := raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: id, Address: raft.ServerAddress(id)}}}
		if err := raft.BootstrapCluster(rc, c.entries, c.stable, snaps, c.trans, alone); err != nil {
			return err
		}
	}
	c.guard = &stallGuard{entries: c.entries, stalled: c.stalled, alone: c.alone, covered: snaps.covered, fail: c.fail}
	var err error
	if c.raft, err = raft.NewRaft(rc, c.machine, c.guard, c.stable, snaps, c.trans); err != nil {
		return err
	}
	c.raft.RegisterObserver(c.leaders.observer)
	close(c.started)
	return nil
}

// servers is who takes part, as far as this node knows.
func (c *Controller) servers() []raft.Server {
	return c.raft.GetConfiguration().Configuration().Servers
}

// alone tells whether this node makes up the whole cluster.
func (c *Controller) alone() bool {
	select {
	case <-c.started:
	default:
		return true // Raft is about to start, and can't say
	}
	servers := c.servers()
	return len(servers) == 1 && servers[0].ID == c.self
}

// elect lets a node that is the only one lead at once: it need not wait for a
// silent leader, and tells itself that it is time. What the log says of the
// cluster must fit this node.
func (c *Controller) elect(ctx context.Context) error {
	if !c.alone() {
		servers := c.servers()
		member := slices.ContainsFunc(servers, func(s raft.Server) bool { return s.ID == c.self })
		if !member && (c.peers == nil || len(servers) == 1 && c.serverOf(c.node) != nil) { // nobody else could say what that means
			return fmt.Errorf("%w: the quorum in the raft log is %v, this node is %s", errFormat, servers, c.self)
		}
		if was := c.where.of(c.self); was != "" && was != c.addr && c.peers != nil {
			c.running.Go(c.tellAddress)
		}
		return nil
	}
	if err := c.standNow(); err != nil {
		return err
	}
	select {
	case <-c.raft.LeaderCh():
	case <-ctx.Done():
		return fmt.Errorf("wait for leadership: %w", ctx.Err())
	}
	return nil
}

// standNow makes this node stand for leader at once.
func (c *Controller) standNow() error {
	addr := c.trans.LocalAddr()
	now := raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(c.self), Addr: []byte(addr)}}
	return c.trans.TimeoutNow(c.self, addr, &now, new(raft.TimeoutNowResponse))
}

// stalled is told when the disk hangs: for some time this node doesn't stand
// for leader.
func (c *Controller) stalled() {
	c.logger.Warn("the disk hangs, another node must lead the metadata quorum", "limit", stallLimit)
	select {
	case c.stalls <- struct{}{}:
	default:
	}
}

// restAfterStalls keeps a node whose disk hung from standing for leader.
func (c *Controller) restAfterStalls() {
	patience := func(d time.Duration) {
		rc := c.raft.ReloadableConfig()
		rc.HeartbeatTimeout, rc.ElectionTimeout = d, d
		if err := c.raft.ReloadConfig(rc); err != nil {
			c.logger.Error("raft's clock can't be set", "error", err)
		}
	}
	var rested <-chan time.Time
	for {
		select {
		case <-c.stalls:
			c.resting.Store(true)
			patience(stallRest)
			rested = time.After(stallRest)
		case <-rested:
			c.resting.Store(false)
			patience(electionTimeout)
		case <-c.closing:
			return
		}
	}
}

// stopRaft hands leadership over, if there is somebody to take it, and ends Raft.
func (c *Controller) stopRaft() error {
	var err error
	if c.raft != nil {
		if c.raft.State() == raft.Leader && !c.alone() {
			if err := c.raft.LeadershipTransfer().Error(); err != nil {
				c.logger.Warn("leadership of the metadata quorum was not handed over", "error", err)
			}
		}
		stopped := c.raft.Shutdown()
		err = c.trans.Close() // ends what Raft waits for
		err = errors.Join(err, stopped.Error())
	} else if c.trans != nil {
		err = c.trans.Close()
	}
	if c.guard != nil {
		c.guard.close()
	}
	return err
}
