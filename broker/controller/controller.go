package controller

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"

	"sawlog/offsets"
)

// Image is the present metadata.
func (c *Controller) Image() *Image { return c.machine.image.Load() }

// Applied is the index of the present metadata.
func (c *Controller) Applied() uint64 { return c.Image().Index }

// Leader is the node id of the active controller, or NoBroker.
func (c *Controller) Leader() offsets.BrokerID {
	_, server := c.raft.LeaderWithID()
	node, _, _ := strings.Cut(string(server), ".")
	id, err := strconv.ParseInt(node, 10, 32)
	if err != nil {
		return offsets.NoBroker
	}
	return offsets.BrokerID(id)
}

// Failed yields, once, the error after which this process must stop: its state
// can't follow the log, or its disk has failed.
func (c *Controller) Failed() <-chan error { return c.failed }

// Barrier returns when the image holds all that was committed before the call.
func (c *Controller) Barrier(ctx context.Context) error {
	_, err := c.propose(ctx, nil)
	return err
}

// CreateTopic makes a topic and returns it as it was created, or with
// ValidateOnly as it would be.
func (c *Controller) CreateTopic(ctx context.Context, t NewTopic) (*Topic, error) {
	id := newTopicID()
	im, err := c.change(ctx, t.ValidateOnly, func(im *Image) (decision, error) { return im.createTopic(c.settings, t, id) })
	if err != nil {
		return nil, err
	}
	return topicOf(im, id)
}

// newTopicID draws an id. Ids whose text begins with '-' look like options to
// command lines and are passed over, as Kafka does.
func newTopicID() offsets.TopicID {
	for {
		var id offsets.TopicID
		_, _ = rand.Read(id[:]) // never returns an error
		if !id.IsZero() && id.String()[0] != '-' {
			return id
		}
	}
}

// topicOf finds a topic in the image its change led to; a deletion may have
// come between.
func topicOf(im *Image, id offsets.TopicID) (*Topic, error) {
	if t, ok := im.TopicByID(id); ok {
		return t, nil
	}
	return nil, ErrUnknownTopic
}

// change decides on and, unless dry, proposes a change.
func (c *Controller) change(ctx context.Context, dry bool, decide func(*Image) (decision, error)) (*Image, error) {
	if !dry {
		return c.propose(ctx, decide)
	}
	im := c.Image()
	d, err := decide(im)
	if err != nil {
		return nil, err
	}
	return im.apply(im.Index+1, d.records)
}

// DeleteTopic deletes a topic.
func (c *Controller) DeleteTopic(ctx context.Context, id offsets.TopicID) error {
	_, err := c.propose(ctx, func(im *Image) (decision, error) { return im.deleteTopic(id) })
	return err
}

// CreatePartitions grows a topic to total partitions; assignment is nil or the
// replicas of the new ones.
func (c *Controller) CreatePartitions(ctx context.Context, topic string, total int32, assignment [][]offsets.BrokerID, validateOnly bool) (*Topic, error) {
	im, err := c.change(ctx, validateOnly, func(im *Image) (decision, error) { return im.growTopic(topic, total, assignment) })
	if err != nil {
		return nil, err
	}
	if t, ok := im.TopicByName(topic); ok {
		return t, nil
	}
	return nil, ErrUnknownTopic
}

// AlterConfigs changes the configurations of one resource.
func (c *Controller) AlterConfigs(ctx context.Context, change ConfigChange) error {
	_, err := c.change(ctx, change.ValidateOnly, func(im *Image) (decision, error) { return im.alterConfigs(c.settings, change) })
	return err
}

// RegisterBroker registers a broker that starts and returns its epoch.
func (c *Controller) RegisterBroker(ctx context.Context, r Registration) (epoch int64, err error) {
	im, err := c.propose(ctx, func(im *Image) (decision, error) { return im.register(c.settings, r) })
	if err != nil {
		return 0, err
	}
	if b, ok := im.Broker(r.ID); ok && b.Incarnation == r.Incarnation {
		return b.Epoch, nil
	}
	return 0, ErrDuplicateBroker
}

// ChangeBroker takes a broker in or out of service and moves leadership as that
// demands.
func (c *Controller) ChangeBroker(ctx context.Context, change BrokerChange) error {
	_, err := c.propose(ctx, func(im *Image) (decision, error) { return im.changeBroker(c.settings, change) })
	return err
}

// UnregisterBroker forgets a fenced broker that holds no replica.
func (c *Controller) UnregisterBroker(ctx context.Context, id offsets.BrokerID) error {
	_, err := c.propose(ctx, func(im *Image) (decision, error) { return im.unregister(id) })
	return err
}

// ChangeISR lets a leader change its ISR and returns the partition after it.
func (c *Controller) ChangeISR(ctx context.Context, change ISRChange) (Partition, error) {
	im, err := c.propose(ctx, func(im *Image) (decision, error) { return im.changeISR(c.settings, change) })
	if err != nil {
		return Partition{}, err
	}
	if p, ok := im.Partition(change.Topic, change.Partition); ok {
		return *p, nil
	}
	return Partition{}, ErrUnknownTopic
}

// ElectLeader elects one partition's leader and returns the partition after it.
func (c *Controller) ElectLeader(ctx context.Context, kind ElectionKind, tp offsets.TopicPartition) (Partition, error) {
	im, err := c.propose(ctx, func(im *Image) (decision, error) { return im.electLeader(c.settings, kind, tp) })
	if err != nil {
		return Partition{}, err
	}
	if t, ok := im.TopicByName(tp.Topic); ok && int(tp.Partition) < len(t.Partitions) {
		return t.Partitions[tp.Partition], nil
	}
	return Partition{}, ErrUnknownTopic
}

// ProducerIDs takes a block of producer ids for this node: first to
// first+count-1.
func (c *Controller) ProducerIDs(ctx context.Context) (first int64, count int, err error) {
	block := make(chan int64, 1)
	_, err = c.propose(ctx, func(im *Image) (decision, error) {
		replace(block, im.nextProducerID)
		return im.takeProducerIDs(c.node)
	})
	if err != nil {
		return 0, 0, err
	}
	return <-block, producerIDBlock, nil
}

// NodeID takes the next free node id for a broker that joins.
func (c *Controller) NodeID(ctx context.Context) (offsets.BrokerID, error) {
	taken := make(chan offsets.BrokerID, 1)
	_, err := c.propose(ctx, func(im *Image) (decision, error) {
		replace(taken, im.nextNodeID)
		return im.takeNodeID()
	})
	if err != nil {
		return offsets.NoBroker, err
	}
	return <-taken, nil
}

// replace puts v into a channel of one in place of what is there: a decision
// may be taken more than once, and only the last one counts.
func replace[T any](ch chan T, v T) {
	select {
	case <-ch:
	default:
	}
	ch <- v
}
