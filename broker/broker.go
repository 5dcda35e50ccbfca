// Package broker is one server process: it speaks Kafka's protocol to clients
// and joins the rooms below it — wire, log, replica, controller and group.
//
// One file holds one request kind, named after it; versions.go is the one table
// of what is spoken. Kafka's error codes are made here (errors.go) and in group,
// nowhere else.
//
// The broker itself persists nothing but what it hands to the rooms below: the
// log room's meta.properties, the controller's log, and offsets.db.
package broker

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"sawlog/broker/controller"
	"sawlog/broker/group"
	"sawlog/broker/log"
	"sawlog/broker/peer"
	"sawlog/broker/replica"
	"sawlog/broker/vfs"
	"sawlog/broker/wire"
	"sawlog/offsets"
)

// Broker is a running broker.
type Broker struct {
	config    Config
	nodeID    offsets.BrokerID
	clusterID string
	host      string // advertised
	port      int32
	bound     string
	epoch     atomic.Int64 // of this registration; 0 before it
	// Beside others, see members.go.
	incarnation controller.UUID
	directory   controller.UUID
	again       again
	self        atomic.Pointer[peer.Identity]
	peers       *peer.Peers // nil = alone
	peerAddr    string      // told to the others
	peerServer  *wire.Server
	founder     bool               // of the nodes it is told to join, itself among them, the one to found the cluster
	founded     bool               // the cluster, in this run
	foreign     chan peer.Identity // a node of another cluster
	fetchers    *replica.Fetchers
	keeper      *replica.Keeper
	leaving     *leaving
	complete    atomic.Bool // all replicas here have been in sync once
	contact     contact
	throttles   throttles
	batch       batchClass
	beating     context.Context // ends when heartbeats do
	stopBeating context.CancelFunc

	disk       *log.Disk
	controller *controller.Controller
	groups     *group.Coordinator
	store      *offsets.Store
	server     *wire.Server
	topics     *topicSet
	producers  *producerIDs
	advances   *advances
	metrics    metrics
	produces   sync.Pool // of *produceState
	fetches    sync.Pool // of *fetchState
	sessions   *fetchSessions
	following  *fetchSessions // of other brokers

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	failed   chan error
	failOnce sync.Once
	broken   chan struct{}
	close    sync.Once
	closed   error
}

// Open starts a broker and returns when it serves. On an error everything begun
// is undone.
func Open(ctx context.Context, c Config) (*Broker, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, &ConfigError{err}
	}
	b := &Broker{
		config:    c,
		sessions:  newFetchSessions(),
		following: newFetchSessions(),
		failed:    make(chan error, 1),
		broken:    make(chan struct{}),
		leaving:   newLeaving(),
		foreign:   make(chan peer.Identity, 1),
	}
	b.batch.setRate(layers{static: c.Defaults}.batchRate())
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.beating, b.stopBeating = context.WithCancel(context.Background())
	if err := b.open(ctx); err != nil {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return nil, errors.Join(err, b.Close(closing))
	}
	return b, nil
}

// open runs the steps of a start, in an order in which each finds what it
// needs: the port is taken first, since a second server must fail before it
// touches anything; nothing is accepted on it before the metadata is known to
// be the present ones.
func (b *Broker) open(ctx context.Context) error {
	listener := b.config.Listener
	if listener == nil {
		var err error
		if listener, err = net.Listen("tcp", b.config.Listen); err != nil {
			return err
		}
	}
	serving := false
	defer func() {
		if !serving {
			_ = listener.Close() // the start failed already
		}
	}()
	b.bound = listener.Addr().String()
	var err error
	if b.host, b.port, err = b.config.advertised(listener.Addr()); err != nil {
		return err
	}
	b.stage("it reads its logs in " + b.config.Dir)
	if err := b.openDisk(); err != nil {
		return err
	}
	if err := b.openPeers(); err != nil {
		return err
	}
	if err := b.enter(ctx); err != nil {
		return err
	}
	if err := b.openGroups(); err != nil {
		return err
	}
	b.openReplication()
	b.stage("it waits for the active controller")
	if err := b.openController(ctx); err != nil {
		return err
	}
	if err := b.strays(); err != nil {
		return err
	}
	b.judgeBuckets()
	select {
	case err := <-b.failed:
		return err
	default:
	}
	b.server = wire.NewServer(wire.Config{
		Handler:     b,
		Rules:       rules,
		Logger:      b.config.Logger,
		QueuedBytes: b.config.QueuedBytes,
	})
	b.server.Serve(listener)
	serving = true
	b.servePeers()
	b.startReplication()
	b.wg.Add(2)
	go b.tick()
	go b.watch()
	if b.peers != nil {
		b.wg.Add(2)
		go b.beats()
		go b.keepContact()
	}
	b.config.Logger.Info("broker is serving", "listen", b.bound, "advertised", b.Advertised(), "cluster", b.clusterID, "node", b.nodeID)
	return nil
}

// openController starts the node's part of the metadata quorum, registers the
// broker, and returns when its image holds all that was committed before.
func (b *Broker) openController(ctx context.Context) error {
	var err error
	b.controller, err = controller.Open(ctx, controller.Config{
		FS:           vfs.Relieved(b.config.FS, b.disk.Relieve),
		Dir:          b.config.Dir,
		NodeID:       b.nodeID,
		Directory:    b.directory,
		ClusterID:    b.clusterID,
		Established:  b.disk.Meta().Entered || len(b.topics.found) > 0,
		Peers:        b.peers,
		PeerAddr:     b.peerAddr,
		Joined:       b.disk.Meta().Joined,
		Join:         b.config.Join,
		FormatLevel:  b.config.FormatLevel,
		Defaults:     b.config.Defaults,
		CheckConfigs: checkConfigs,
		Logger:       b.config.Logger,
		OnChange:     b.onChange,
	})
	if err != nil {
		return err
	}
	if err := b.entered(); err != nil {
		return err
	}
	b.producers = newProducerIDs(b.controller.ProducerIDs)
	if err := b.register(ctx); err != nil {
		return err
	}
	return b.controller.Barrier(ctx)
}

func (b *Broker) openGroups() error {
	var path string
	if b.config.FS == vfs.OS { // bbolt keeps to real files; elsewhere the topic is applied anew
		path = filepath.Join(b.config.Dir, "offsets.db")
	}
	store, err := offsets.OpenStore(offsets.StoreConfig{Path: path, Logger: b.config.Logger})
	if err != nil {
		return err
	}
	b.store = store
	b.groups, err = group.New(b.groupConfig())
	if err != nil {
		return err
	}
	b.advances = newAdvances(b.groups.Advance)
	return nil
}

// tickEvery is how often the disk is asked to do what is due, and roomEvery how
// often a full one is asked whether it has room again.
const (
	tickEvery = 30 * time.Second
	roomEvery = time.Second
)

// tick lets the disk do what time asks for: retention and checkpoints.
func (b *Broker) tick() {
	defer b.wg.Done()
	t, room := time.NewTicker(tickEvery), time.NewTicker(roomEvery)
	defer t.Stop()
	defer room.Stop()
	for {
		select {
		case <-room.C:
			b.disk.Roomy()
		case now := <-t.C:
			if err := b.disk.Tick(now); err != nil {
				b.config.Logger.Error("housekeeping", "error", err)
			}
			b.trimmed()
			b.completeTopics()
		case <-b.ctx.Done():
			return
		}
	}
}

// trimmed lets the replicas notice what retention deleted.
func (b *Broker) trimmed() {
	for _, t := range b.topics.all() {
		for _, p := range t.partitions {
			if p != nil && p.Log().Start() != p.View().LogStart {
				p.Trimmed()
			}
		}
	}
}

// watch waits for the rooms below to fail, and for strangers.
func (b *Broker) watch() {
	defer b.wg.Done()
	for {
		select {
		case err := <-b.disk.Failed():
			b.fail(err)
			return
		case err := <-b.controller.Failed():
			b.fail(err)
			return
		case other := <-b.foreign:
			b.stranger(other)
		case <-b.ctx.Done():
			return
		}
	}
}

// fail records the error that must end the process: the first one counts, and
// nothing is acknowledged any more.
func (b *Broker) fail(err error) {
	b.failOnce.Do(func() {
		b.config.Logger.Error("the broker must stop", "error", err)
		b.failed <- err
		close(b.broken)
	})
}

func (b *Broker) failing() bool {
	select {
	case <-b.broken:
		return true
	default:
		return false
	}
}

// Failed yields the error after which the process must exit, once.
func (b *Broker) Failed() <-chan error { return b.failed }

// ID is the id of the broker in its cluster.
func (b *Broker) ID() offsets.BrokerID { return b.nodeID }

// Addr is the address the listener is bound to.
func (b *Broker) Addr() string { return b.bound }

// Advertised is the address clients are told.
func (b *Broker) Advertised() string { return net.JoinHostPort(b.host, fmt.Sprint(b.port)) }

// ClusterID names the cluster.
func (b *Broker) ClusterID() string { return b.clusterID }

// Close answers what is in flight, flushes everything and stops. A second call
// returns what the first did.
func (b *Broker) Close(ctx context.Context) error {
	b.close.Do(func() { b.closed = b.shut(ctx) })
	return b.closed
}

func (b *Broker) shut(ctx context.Context) error {
	var errs []error
	if b.server != nil && !b.leaving.asked() {
		draining, cancel := context.WithTimeout(ctx, drainTime)
		if err := b.Drain(draining); err != nil {
			b.config.Logger.Warn("leaving the cluster without handing over", "error", err)
		}
		cancel()
	}
	b.cancel()
	if b.groups != nil {
		errs = append(errs, b.groups.Close())
	}
	if b.server != nil {
		draining, cancel := context.WithTimeout(ctx, time.Second)
		errs = append(errs, b.server.Close(draining))
		cancel()
	}
	b.stopBeating()
	if b.peerServer != nil {
		closing, cancel := context.WithTimeout(ctx, time.Second)
		errs = append(errs, b.peerServer.Close(closing))
		cancel()
	}
	b.wg.Wait()
	b.endReplication()
	if b.advances != nil {
		b.advances.close()
	}
	if b.controller != nil {
		errs = append(errs, b.controller.Close())
	}
	if b.peers != nil {
		errs = append(errs, b.peers.Close())
	}
	if b.store != nil {
		errs = append(errs, b.store.Close())
	}
	if b.disk != nil {
		errs = append(errs, b.disk.Close())
	}
	return errors.Join(errs...)
}

// randomID is 16 random bytes as Kafka prints ids.
func randomID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(id[:])
}

func parseUUID(s string) (controller.UUID, error) {
	id, err := offsets.ParseTopicID(s)
	return controller.UUID(id), err
}

// committed is the offset below which a log's records may be compacted: they
// are committed, and in no open transaction.
func (b *Broker) committed(l *log.Log) offsets.Offset {
	if t := b.topics.id(l.TopicID()); t != nil {
		if p := t.partition(l.TopicPartition().Partition); p != nil {
			return p.View().LastStable
		}
	}
	return 0
}

// hold is the offset from which on retention must keep a log's records.
func (b *Broker) hold(l *log.Log) offsets.Offset {
	t := b.topics.id(l.TopicID())
	if t == nil {
		return log.NoHold
	}
	hold := t.config.hold(l, time.Now())
	if p := t.partition(l.TopicPartition().Partition); p != nil {
		hold = min(hold, p.View().HighWatermark) // what isn't committed isn't old
	}
	return hold
}
