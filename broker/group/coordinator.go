package group

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kmsg"

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
	// acks=all and returns once it is committed: the batch's first (or last)
	// offset and the leader epoch it was stamped with. Errors that wrap a
	// *kerr.Error are translated as Kafka's coordinator does.
	Append func(ctx context.Context, partition int32, b record.Batch) (offsets.Offset, offsets.Epoch, error)
	// Read returns whole batches of [from, high watermark) of a hosted
	// partition, at least one when there is one, and the bounds of its log.
	Read func(partition int32, from offsets.Offset, maxBytes int) (b []byte, logStart, highWatermark offsets.Offset, err error)
	// Leader tells whether this broker leads the partition, and its epoch.
	Leader func(partition int32) (offsets.Epoch, bool)
	// Settled tells whether the high watermark of a led partition has reached
	// the start of the leader's epoch, so that everything acknowledged by
	// earlier leaders is below it. Nil = always.
	Settled func(partition int32) bool
	// TopicExists tells whether the partition exists in the metadata image.
	TopicExists func(tp offsets.TopicPartition) bool
	// TopicID and TopicName translate by the metadata image. Nil = no ids.
	TopicID   func(name string) (offsets.TopicID, bool)
	TopicName func(id offsets.TopicID) (string, bool)
	// Store keeps the applied offsets; the coordinator is its only writer and
	// does not close it.
	Store  *offsets.Store
	Logger *slog.Logger
	// Fail is told of an I/O error of the store that must end the process.
	Fail func(error)
	// Settings are the numbers of the server's configuration.
	Settings Settings
}

// Coordinator serves the groups of the partitions this broker leads and applies
// every hosted partition of __consumer_offsets to the store.
type Coordinator struct{}

// Settings are Kafka's group settings; a zero takes the default.
type Settings struct{}

// New starts a coordinator; Close ends it.
func New(c Config) (*Coordinator, error) { panic("unwritten") }

// Close answers what is parked with NOT_COORDINATOR and waits for its goroutines.
func (c *Coordinator) Close() error { panic("unwritten") }

// PartitionFor is the partition of __consumer_offsets that owns a group.
func (c *Coordinator) PartitionFor(group string) int32 { panic("unwritten") }

// Advance tells that the high watermark of a hosted partition moved.
func (c *Coordinator) Advance(partition int32, highWatermark offsets.Offset) { panic("unwritten") }

// Elected tells that this broker leads the partition from epoch on.
func (c *Coordinator) Elected(partition int32, epoch offsets.Epoch) { panic("unwritten") }

// Resigned tells that this broker leads the partition no more; it must be
// called before the high watermark of the next epoch is made known.
func (c *Coordinator) Resigned(partition int32) { panic("unwritten") }

// TopicDeleted drops the offsets of a topic by tombstones.
func (c *Coordinator) TopicDeleted(topic string) { panic("unwritten") }

func (c *Coordinator) JoinGroup(ctx context.Context, from Client, r *kmsg.JoinGroupRequest, done func(*kmsg.JoinGroupResponse)) {
	panic("unwritten")
}

func (c *Coordinator) SyncGroup(ctx context.Context, from Client, r *kmsg.SyncGroupRequest, done func(*kmsg.SyncGroupResponse)) {
	panic("unwritten")
}

func (c *Coordinator) Heartbeat(ctx context.Context, from Client, r *kmsg.HeartbeatRequest, done func(*kmsg.HeartbeatResponse)) {
	panic("unwritten")
}

func (c *Coordinator) LeaveGroup(ctx context.Context, from Client, r *kmsg.LeaveGroupRequest, done func(*kmsg.LeaveGroupResponse)) {
	panic("unwritten")
}

func (c *Coordinator) OffsetCommit(ctx context.Context, from Client, r *kmsg.OffsetCommitRequest, done func(*kmsg.OffsetCommitResponse)) {
	panic("unwritten")
}

func (c *Coordinator) OffsetFetch(ctx context.Context, from Client, r *kmsg.OffsetFetchRequest, done func(*kmsg.OffsetFetchResponse)) {
	panic("unwritten")
}

func (c *Coordinator) OffsetDelete(ctx context.Context, from Client, r *kmsg.OffsetDeleteRequest, done func(*kmsg.OffsetDeleteResponse)) {
	panic("unwritten")
}

func (c *Coordinator) ListGroups(ctx context.Context, from Client, r *kmsg.ListGroupsRequest, done func(*kmsg.ListGroupsResponse)) {
	panic("unwritten")
}

func (c *Coordinator) DescribeGroups(ctx context.Context, from Client, r *kmsg.DescribeGroupsRequest, done func(*kmsg.DescribeGroupsResponse)) {
	panic("unwritten")
}

func (c *Coordinator) DeleteGroups(ctx context.Context, from Client, r *kmsg.DeleteGroupsRequest, done func(*kmsg.DeleteGroupsResponse)) {
	panic("unwritten")
}
