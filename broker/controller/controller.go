package controller

import (
	"context"
	"log/slog"

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
	// OnChange is told every change in order, on the goroutine that applies
	// them and before the proposer returns; it must not call a method that
	// waits for a change. It is called once from Open with an empty old image.
	OnChange func(old, new *Image)
}

// Controller is one node's part in the metadata quorum.
type Controller struct{}

// Open starts the node and returns when its image holds all that was committed.
func Open(ctx context.Context, c Config) (*Controller, error) { panic("unwritten") }

// Image is the present metadata.
func (c *Controller) Image() *Image { panic("unwritten") }

// Leader is the active controller, or NoBroker.
func (c *Controller) Leader() offsets.BrokerID { panic("unwritten") }

// Failed yields the error after which this process must stop.
func (c *Controller) Failed() <-chan error { panic("unwritten") }

// Close stops the node and writes all it owes to disk.
func (c *Controller) Close() error { panic("unwritten") }

// Barrier returns when the image holds all that was committed before the call.
func (c *Controller) Barrier(ctx context.Context) error { panic("unwritten") }

// CreateTopic makes a topic and returns it as created (or as it would be).
func (c *Controller) CreateTopic(ctx context.Context, t NewTopic) (*Topic, error) {
	panic("unwritten")
}

// DeleteTopic deletes a topic.
func (c *Controller) DeleteTopic(ctx context.Context, id offsets.TopicID) error { panic("unwritten") }

// CreatePartitions grows a topic to total partitions.
func (c *Controller) CreatePartitions(ctx context.Context, topic string, total int32, assignment [][]offsets.BrokerID, validateOnly bool) (*Topic, error) {
	panic("unwritten")
}

// AlterConfigs changes the configurations of one resource.
func (c *Controller) AlterConfigs(ctx context.Context, change ConfigChange) error {
	panic("unwritten")
}

// RegisterBroker registers a broker and returns its epoch.
func (c *Controller) RegisterBroker(ctx context.Context, r Registration) (epoch int64, err error) {
	panic("unwritten")
}

// ChangeBroker takes a broker in or out of service.
func (c *Controller) ChangeBroker(ctx context.Context, change BrokerChange) error {
	panic("unwritten")
}

// UnregisterBroker forgets a fenced broker that holds no replica.
func (c *Controller) UnregisterBroker(ctx context.Context, id offsets.BrokerID) error {
	panic("unwritten")
}

// ChangeISR lets a leader change its ISR and returns the partition after it.
func (c *Controller) ChangeISR(ctx context.Context, change ISRChange) (Partition, error) {
	panic("unwritten")
}

// ElectLeader elects one partition's leader and returns the partition after it.
func (c *Controller) ElectLeader(ctx context.Context, kind ElectionKind, tp offsets.TopicPartition) (Partition, error) {
	panic("unwritten")
}

// ProducerIDs takes a block of producer ids: first to first+count-1.
func (c *Controller) ProducerIDs(ctx context.Context) (first int64, count int, err error) {
	panic("unwritten")
}

// NodeID takes the next free node id.
func (c *Controller) NodeID(ctx context.Context) (offsets.BrokerID, error) { panic("unwritten") }
