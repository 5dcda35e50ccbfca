package group

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// Client is the sender of a request, kept with the member it becomes.
type Client struct {
	ID   string // client.id of the request header
	Host string // address the connection comes from, "/127.0.0.1" in Kafka's form
}

// Config is what a coordinator is told and given. Functions may be called from
// several goroutines; none may call back into the coordinator.
type Config struct {
	// Partitions is the number of partitions of __consumer_offsets (default 50).
	Partitions int32
	// Append writes one batch to a partition of __consumer_offsets with
	// acks=all in one leader epoch, or not at all, and returns once it is
	// committed: the offset of one of its records. Errors that wrap a
	// *kerr.Error are translated as Kafka's coordinator does.
	Append func(ctx context.Context, partition int32, epoch offsets.Epoch, b record.Batch) (offsets.Offset, error)
	// View tells what may be seen of this broker's replica of a partition; false
	// when it hosts none.
	View func(partition int32) (View, bool)
	// Read returns whole batches of a hosted partition from an offset on that
	// lie below another, at least one when there is one.
	Read func(partition int32, from, below offsets.Offset, maxBytes int) ([]byte, error)
	// EpochAt is the leader epoch of an offset of a hosted partition, as the
	// log's own list of epochs has it.
	EpochAt func(partition int32, at offsets.Offset) offsets.Epoch
	// Leased tells whether no other broker can have been elected meanwhile, as
	// far as this one's own leaderships go. Nil = always.
	Leased func() bool
	// TopicExists tells whether the partition exists in the metadata image.
	TopicExists func(tp offsets.TopicPartition) bool
	// TopicID and TopicName translate by the metadata image. Nil = no ids.
	TopicID   func(name string) (offsets.TopicID, bool)
	TopicName func(id offsets.TopicID) (string, bool)
	// Store keeps the applied offsets; the coordinator is its only writer and
	// does not close it.
	Store  *offsets.Store
	Logger *slog.Logger
	// Fail is told of an error of the store that must end the process.
	Fail func(error)
	// Settings are the numbers of the server's configuration.
	Settings Settings
}

// View is one moment of a replica.
type View struct {
	Leads bool
	Epoch offsets.Epoch // of the leader
	// Settled tells that the broker leads and that the high watermark has
	// reached the start of the leader's epoch, so that everything acknowledged
	// by earlier leaders is below it.
	Settled       bool
	LogStart      offsets.Offset
	HighWatermark offsets.Offset // a follower's own
	LogEnd        offsets.Offset
}

// Settings are Kafka's group settings; a zero takes the default.
type Settings struct {
	InitialDelay  time.Duration // group.initial.rebalance.delay.ms (3 s); negative = none
	MinSession    time.Duration // group.min.session.timeout.ms (6 s)
	MaxSession    time.Duration // group.max.session.timeout.ms (30 min)
	MaxSize       int           // group.max.size, members (no limit)
	MaxMetadata   int           // offset.metadata.max.bytes (4096)
	Retention     time.Duration // offsets.retention.minutes (14 days)
	CheckInterval time.Duration // offsets.retention.check.interval.ms (10 min)
	CommitTimeout time.Duration // offsets.commit.timeout.ms (5 s)
	MaxBatch      int           // bytes of records written at once (512 KiB)
	FlushEvery    time.Duration // between applying and flushing the store (500 ms)
	FlushRows     int           // rows that cause a flush at once (5000)
}

const (
	defaultPartitions = 50
	newMemberTimeout  = 5 * time.Minute
	// maxGroupName bounds group ids, in bytes: they are part of the store's keys.
	maxGroupName = 16 << 10
)

func orDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

func (c *Config) validate() error {
	if c.Append == nil || c.View == nil || c.Read == nil || c.EpochAt == nil || c.TopicExists == nil || c.Store == nil {
		return errors.New("group coordinator: Append, View, Read, EpochAt, TopicExists and Store are needed")
	}
	if c.Partitions == 0 {
		c.Partitions = defaultPartitions
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Leased == nil {
		c.Leased = func() bool { return true }
	}
	if c.TopicID == nil {
		c.TopicID = func(string) (offsets.TopicID, bool) { return offsets.TopicID{}, false }
	}
	if c.TopicName == nil {
		c.TopicName = func(offsets.TopicID) (string, bool) { return "", false }
	}
	if c.Fail == nil {
		c.Fail = func(err error) { c.Logger.Error("group coordinator", "error", err) }
	}
	s := &c.Settings
	orDefault(&s.InitialDelay, 3*time.Second)
	s.InitialDelay = max(0, s.InitialDelay)
	orDefault(&s.MinSession, 6*time.Second)
	orDefault(&s.MaxSession, 30*time.Minute)
	orDefault(&s.MaxSize, math.MaxInt32)
	orDefault(&s.MaxMetadata, 4096)
	orDefault(&s.Retention, 14*24*time.Hour)
	orDefault(&s.CheckInterval, 10*time.Minute)
	orDefault(&s.CommitTimeout, 5*time.Second)
	orDefault(&s.MaxBatch, 512<<10)
	orDefault(&s.FlushEvery, 500*time.Millisecond)
	orDefault(&s.FlushRows, 5000)
	return nil
}

func (s *Settings) rules() Rules {
	return Rules{
		MinSession: s.MinSession.Milliseconds(), MaxSession: s.MaxSession.Milliseconds(),
		InitialDelay: s.InitialDelay.Milliseconds(), NewMemberTimeout: newMemberTimeout.Milliseconds(),
		MaxSize: s.MaxSize,
	}
}

// Coordinator serves the groups of the partitions this broker leads and applies
// every hosted partition of __consumer_offsets to the store.
//
// Locks: a shard's mu, then the store's own. Replies run outside of both.
type Coordinator struct {
	config  Config
	rules   Rules
	shards  []*shard
	metrics counters

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // every goroutine and every armed timer

	applier applier
}

// New starts a coordinator; Close ends it.
func New(c Config) (*Coordinator, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	co := &Coordinator{config: c, rules: c.Settings.rules(), ctx: ctx, cancel: cancel}
	co.applier = newApplier(co)
	for p := range c.Partitions {
		co.shards = append(co.shards, newShard(co, p))
	}
	co.wg.Go(co.applier.run)
	co.wg.Go(co.applier.flushes)
	co.wg.Go(co.expiry)
	return co, nil
}

// Close answers what is parked with NOT_COORDINATOR and waits for its
// goroutines; what was applied is flushed.
func (c *Coordinator) Close() error {
	c.cancel()
	for _, s := range c.shards {
		s.resign(true)
	}
	c.wg.Wait()
	return c.config.Store.Flush()
}

// PartitionFor is the partition of __consumer_offsets that owns a group.
func (c *Coordinator) PartitionFor(group string) int32 {
	return javaAbs(javaHash(group)) % c.config.Partitions
}

// javaHash is Java's String.hashCode, over UTF-16 units.
func javaHash(s string) int32 {
	var h int32
	for _, r := range s {
		if hi, lo := utf16.EncodeRune(r); hi != '\ufffd' {
			h = 31*(31*h+hi) + lo
			continue
		}
		h = 31*h + r
	}
	return h
}

// javaAbs is the absolute value as Kafka's Utils.abs has it.
func javaAbs(n int32) int32 {
	switch {
	case n == math.MinInt32:
		return 0
	case n < 0:
		return -n
	default:
		return n
	}
}

func (c *Coordinator) shard(group string) *shard { return c.shards[c.PartitionFor(group)] }

// Advance tells that the high watermark of a hosted partition moved.
func (c *Coordinator) Advance(partition int32, _ offsets.Offset) {
	if c.known(partition) {
		c.applier.poke(partition)
	}
}

// Elected tells that this broker leads the partition from epoch on; telling it
// again changes nothing.
func (c *Coordinator) Elected(partition int32, epoch offsets.Epoch) {
	if c.known(partition) {
		c.shards[partition].elect(epoch)
	}
}

// Resigned tells that this broker leads the partition no more; it must be
// called before the high watermark of the next epoch is made known.
func (c *Coordinator) Resigned(partition int32) {
	if c.known(partition) {
		c.shards[partition].resign(false)
	}
}

// Left tells that this broker hosts the partition no more: what is stored of it
// is dropped, for it would lack what is written meanwhile.
func (c *Coordinator) Left(partition int32) {
	if c.known(partition) {
		c.shards[partition].resign(false)
		c.applier.leave(partition)
	}
}

func (c *Coordinator) known(partition int32) bool {
	return partition >= 0 && int(partition) < len(c.shards)
}

// codeOf is the Kafka error a client gets for an append that went wrong.
func codeOf(err error) int16 {
	if err == nil {
		return 0
	}
	var k *kerr.Error
	if !errors.As(err, &k) {
		return kerr.CoordinatorNotAvailable.Code // also a context that ended
	}
	switch k.Code {
	case kerr.NotLeaderForPartition.Code, kerr.KafkaStorageError.Code, kerr.FencedLeaderEpoch.Code, kerr.NotCoordinator.Code:
		return kerr.NotCoordinator.Code
	case kerr.MessageTooLarge.Code, kerr.RecordListTooLarge.Code, kerr.InvalidFetchSize.Code:
		return kerr.UnknownServerError.Code
	default:
		return kerr.CoordinatorNotAvailable.Code
	}
}
