package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"sawlog/broker/log"
	"sawlog/broker/peer"
	batches "sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// Config is what a Controller needs.
type Config struct {
	FS        vfs.FS           // nil = vfs.OS
	Dir       string           // the broker's data directory; the controller keeps to Dir/controller
	NodeID    offsets.BrokerID // this node
	Directory UUID             // id of the data directory: a wiped disk is another voter
	ClusterID string           // of the cluster to make, or the one expected in the folder
	// Peers is the network between the nodes of the cluster; nil = alone.
	Peers    *peer.Peers
	PeerAddr string // where the others reach this node; "" when alone
	// Joined: this node joined a cluster that exists, and never founds one.
	Joined bool
	// Join are addresses of nodes of that cluster: a node that has joined and
	// has no metadata yet asks there whether it may begin with none.
	Join []string
	// Established: the folder has held this cluster's metadata before, so an
	// empty one is damage and refused.
	Established bool
	// Defaults are broker settings by Kafka's names that decide what a request
	// leaves open: num.partitions, default.replication.factor,
	// min.insync.replicas, unclean.leader.election.enable.
	Defaults map[string]string
	// CheckConfigs judges the configurations a resource would have; nil accepts
	// all. It must be pure.
	CheckConfigs func(r Resource, configs map[string]string) error
	Logger       *slog.Logger // nil = discard
	// FormatLevel is the newest format level this node goes by; 0 = that of this
	// build. Tests run older nodes.
	FormatLevel int16
	// OnChange is told every change in order, on the goroutine that applies
	// them and before the proposer returns; it must not call a method that
	// waits for a change. It is called once from Open with an empty old image.
	OnChange func(old, new *Image)
}

// validate fills in what may be left out and refuses what may not.
func (c *Config) validate() error {
	if c.FS == nil {
		c.FS = vfs.OS
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.OnChange == nil {
		c.OnChange = func(_, _ *Image) {}
	}
	switch {
	case c.Dir == "":
		return errors.New("no data directory")
	case c.NodeID < 0:
		return fmt.Errorf("node id %d", c.NodeID)
	case c.Directory.IsZero():
		return errors.New("no directory id")
	case c.ClusterID == "":
		return errors.New("no cluster id")
	case c.FormatLevel < 0 || c.FormatLevel > formatLevel:
		return fmt.Errorf("format level %d, this build knows %s", c.FormatLevel, LevelsTo(0))
	case c.Peers == nil && (c.Joined || c.PeerAddr != ""):
		return errors.New("a cluster of several nodes needs a network between them")
	}
	return nil
}

// Names in Dir.
const (
	controllerDir = "controller"
	stableFile    = "stable"
	snapshotsDir  = "snapshots"
	logDir        = "log"
)

// Controller is one node's part in the metadata quorum.
type Controller struct {
	node     offsets.BrokerID
	settings settings
	logger   *slog.Logger
	machine  *machine
	raft     *raft.Raft
	self     raft.ServerID
	addr     string   // where the others reach this node; "" when alone
	others   []string // addresses of nodes this one was started with
	where    *addresses
	peers    *peer.Peers
	stream   *stream
	trans    *vouching
	guard    *stallGuard
	leaders  *leaders
	stable   *stable
	entries  *entries
	disk     *log.Disk

	queue        chan *proposal
	opened       bool            // Open has succeeded
	closing      chan struct{}   // closed by Close
	closed       context.Context // ended by Close
	cancel       context.CancelFunc
	closeOnce    sync.Once
	closeErr     error
	proposerDone chan struct{} // closed when the proposer has ended
	led          atomic.Uint64 // ledTerm, for others
	ledTerm      uint64        // the term takeOver is done for; the proposer's own
	snapshotDue  chan struct{}
	stalls       chan struct{} // the disk hung
	resting      atomic.Bool   // and this node doesn't stand for leader
	partings     chan raft.ServerID
	look         chan struct{} // look at the brokers now
	suspects     chan Broker   // whose connections ended
	beats        heartbeats
	failed       chan error
	started      chan struct{} // closed when Raft can be asked
	running      sync.WaitGroup
	membership   chan struct{} // full while a server is added or removed
}

// Open starts the node and returns when its image holds all that was committed.
func Open(ctx context.Context, c Config) (*Controller, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	o := &Controller{
		node:         c.NodeID,
		settings:     settings{c.Defaults, c.CheckConfigs, LevelsTo(c.FormatLevel)},
		logger:       c.Logger,
		queue:        make(chan *proposal, maxCoalesced),
		closing:      make(chan struct{}),
		proposerDone: make(chan struct{}),
		snapshotDue:  make(chan struct{}, 1),
		stalls:       make(chan struct{}, 1),
		partings:     make(chan raft.ServerID, 16),
		membership:   make(chan struct{}, 1),
		look:         make(chan struct{}, 1),
		suspects:     make(chan Broker, 64),
		beats:        heartbeats{began: time.Now()},
		peers:        c.Peers,
		leaders:      newLeaders(c.Logger),
		failed:       make(chan error, 1),
		started:      make(chan struct{}),
	}
	o.closed, o.cancel = context.WithCancel(context.Background())
	o.machine = newMachine(c.OnChange, o.fail, o.snapshotDue, o.settings.levels)
	if err := o.start(ctx, c); err != nil {
		return nil, fmt.Errorf("controller in %s: %w", path.Join(c.Dir, controllerDir), errors.Join(err, o.stop()))
	}
	return o, nil
}

// fail reports an error that ends the process; only the first is kept.
func (c *Controller) fail(err error) {
	select {
	case c.failed <- err:
	default:
	}
}

func (c *Controller) start(ctx context.Context, config Config) error {
	dir := path.Join(config.Dir, controllerDir)
	if err := config.FS.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var err error
	if c.stable, err = openStable(config.FS, path.Join(dir, stableFile)); err != nil {
		return damagedFolder(err)
	}
	if c.where, err = openAddresses(c.stable); err != nil {
		return damagedFolder(err)
	}
	snaps, err := openSnapshots(config.FS, path.Join(dir, snapshotsDir), c.settings.levels, c.fail)
	if err != nil {
		return damagedFolder(err)
	}
	if err := c.openEntries(config, path.Join(dir, logDir)); err != nil {
		return err
	}
	for _, folder := range []string{dir, config.Dir} {
		if err := config.FS.SyncDir(folder); err != nil {
			return err
		}
	}
	fresh, err := c.inspect(snaps, config.Established)
	if err != nil {
		return damagedFolder(err)
	}
	if fresh && config.Joined {
		if err := c.rejoin(ctx, config); err != nil {
			return err
		}
	}
	if err := c.startRaft(config, snaps, fresh && !config.Joined); err != nil {
		return err
	}
	if err := c.elect(ctx); err != nil {
		return err
	}
	c.running.Go(func() { c.leaders.watch(c.closing) })
	c.running.Go(c.watchDisk)
	c.running.Go(c.takeSnapshots)
	c.running.Go(c.restAfterStalls)
	c.running.Go(c.runProposer)
	if c.peers != nil {
		c.serve()
		c.running.Go(c.watchBrokers)
		c.running.Go(c.watchVoters)
		c.running.Go(c.succeed)
		c.running.Go(c.watchMembership)
	}
	if err := c.enter(ctx, config); err != nil {
		return err
	}
	c.machine.begin()
	c.opened = true
	return nil
}

// damagedFolder tells the way out of damage.
func damagedFolder(err error) error {
	if !errors.Is(err, errFormat) && !errors.Is(err, batches.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w. Put the folder back as it was, from a copy of this very disk; or, where two other nodes of the cluster are up, move the whole data directory away and start with an empty one, --join and this node's --node-id", err)
}

// openEntries opens the Raft log.
func (c *Controller) openEntries(config Config, dir string) (err error) {
	if c.disk, err = log.OpenDisk(config.FS, dir, log.DiskConfig{Logger: config.Logger}); err != nil {
		return err
	}
	folder := path.Join(dir, fmt.Sprintf("%s-%d", raftPartition.Topic, raftPartition.Partition))
	settings := log.DefaultConfig()
	settings.SegmentBytes, settings.MaxBatchBytes = raftSegmentBytes, raftSegmentBytes
	settings.SegmentMs, settings.RetentionMs, settings.RetentionBytes = yearMs, -1, -1
	for _, l := range c.disk.Logs() {
		if l.TopicPartition() == raftPartition {
			l.SetConfig(settings)
			c.entries = &entries{log: l, path: folder, synced: c.raiseFloor, truncated: c.lowerFloor}
			return nil
		}
	}
	l, err := c.disk.Create(raftPartition, offsets.TopicID(config.Directory), settings)
	if err != nil {
		return err
	}
	c.entries = &entries{log: l, path: folder, synced: c.raiseFloor, truncated: c.lowerFloor}
	return nil
}

// raiseFloor notes that the log is synced up to an entry: it is missed when it
// is gone at the next start. A full disk has room again some time.
func (c *Controller) raiseFloor(last uint64) error {
	if err := c.stable.SetUint64([]byte(floorKey), last); err != nil && !vfs.Full(err) {
		return err
	}
	return nil
}

// lowerFloor keeps the floor at or under the last index of the log when its
// tail is about to be cut.
func (c *Controller) lowerFloor(last uint64) error {
	floor, err := c.stable.GetUint64([]byte(floorKey))
	if err != nil || floor <= last {
		return err
	}
	return c.stable.SetUint64([]byte(floorKey), last)
}

// inspect checks that the log, the snapshots and the stable store belong
// together, and tells whether there is no cluster yet. What does not add up is
// damage, and never taken for an empty cluster.
func (c *Controller) inspect(snaps *snapshots, established bool) (fresh bool, err error) {
	term, err := c.stable.GetUint64([]byte(termKey))
	if err != nil {
		return false, err
	}
	voted, err := c.stable.GetUint64([]byte(voteKey))
	if err != nil {
		return false, err
	}
	floor, err := c.stable.GetUint64([]byte(floorKey))
	if err != nil {
		return false, err
	}
	first, last := indexOf(c.entries.log.Start()), uint64(c.entries.log.End())
	newest := snaps.newest()
	var covered uint64
	if newest != nil {
		covered = newest.Index
	}
	switch {
	case c.entries.empty() && newest == nil && (voted != 0 || floor != 0 || established):
		return false, fmt.Errorf("%w: the raft log %s and all snapshots are gone from a node that was in term %d with %d entries", errFormat, c.entries.path, term, floor)
	case c.entries.empty() && newest == nil:
		return true, c.stable.clear()
	case term == 0:
		return false, fmt.Errorf("%w: stable store %s is gone beside a raft log of %d entries", errFormat, c.stable.path, last)
	case newest != nil && newest.Term > term:
		return false, fmt.Errorf("%w: stable store %s is at term %d, the newest snapshot at %d", errFormat, c.stable.path, term, newest.Term)
	case max(covered, last) < floor:
		return false, fmt.Errorf("%w: the raft log %s ends at entry %d, but held %d when the node last ran", errFormat, c.entries.path, last, floor)
	case covered < first-1:
		return false, fmt.Errorf("%w: the raft log %s begins at entry %d, and the newest snapshot ends at %d", errFormat, c.entries.path, first, covered)
	case last < covered:
		return false, c.entries.log.Reset(offsetOf(covered + 1))
	}
	return false, c.entries.verify(covered, term, c.settings.levels)
}

// enter founds the cluster where there is none yet and this node is to, waits
// until the image holds all that was committed, and refuses another cluster's.
func (c *Controller) enter(ctx context.Context, config Config) error {
	var entry ask = barrierAsk{}
	if !config.Joined && c.alone() {
		entry = foundAsk{ClusterID: config.ClusterID, Level: c.settings.levels.Max}
	}
	if err := c.orFail(ctx, func(ctx context.Context) error {
		_, err := c.ask(ctx, entry)
		return err
	}); err != nil {
		return err
	}
	if have := c.Image().ClusterID; have != config.ClusterID {
		return fmt.Errorf("the metadata is that of cluster %q, not %q", have, config.ClusterID)
	}
	return nil
}

// watchDisk reports the failure of the disk the log is on.
func (c *Controller) watchDisk() {
	select {
	case err := <-c.disk.Failed():
		c.fail(fmt.Errorf("controller: %w", err))
	case <-c.closing:
	}
}

// takeSnapshots writes snapshots when they are due.
func (c *Controller) takeSnapshots() {
	for {
		select {
		case <-c.snapshotDue:
			if err := c.raft.Snapshot().Error(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) && !errors.Is(err, raft.ErrRaftShutdown) {
				c.logger.Error("metadata snapshot", "error", err)
			}
		case <-c.closing:
			return
		}
	}
}

// Close stops the node and waits for all it started. Proposals still waiting
// get ErrClosed.
func (c *Controller) Close() error {
	c.closeOnce.Do(func() { c.closeErr = c.stop() })
	return c.closeErr
}

func (c *Controller) stop() (err error) {
	close(c.closing)
	c.cancel()
	c.running.Wait()
	err = c.stopRaft()
	if err == nil && c.opened {
		err = c.stable.SetUint64([]byte(floorKey), uint64(c.entries.log.End()))
	}
	if c.disk != nil {
		err = errors.Join(err, c.disk.Close())
	}
	return err
}
