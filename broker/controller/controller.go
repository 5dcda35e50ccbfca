package controller

import (
	"context"
	"crypto/rand"
	"errors"
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
	_, err := c.ask(ctx, barrierAsk{})
	return err
}

// try decides on a wish by this node's image, without consequences, and returns
// the image it would lead to.
func (c *Controller) try(a ask) (*Image, error) {
	im := c.Image()
	d, _, err := a.decide(im, c.settings)
	if err != nil {
		return nil, err
	}
	return im.apply(im.Index+1, d.records)
}

// change asks for a change, or with dry only whether it could be made, and
// returns the image it leads to.
func (c *Controller) change(ctx context.Context, dry bool, a ask) (*Image, error) {
	if dry {
		return c.try(a)
	}
	_, err := c.ask(ctx, a)
	return c.Image(), err
}

// CreateTopic makes a topic and returns it as it was created, or with
// ValidateOnly as it would be.
func (c *Controller) CreateTopic(ctx context.Context, t NewTopic) (*Topic, error) {
	id := newTopicID()
	im, err := c.change(ctx, t.ValidateOnly, createTopicAsk{Topic: t, ID: id})
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

// DeleteTopic deletes a topic.
func (c *Controller) DeleteTopic(ctx context.Context, id offsets.TopicID) error {
	_, err := c.ask(ctx, deleteTopicAsk{ID: id})
	return err
}

// CreatePartitions grows a topic to total partitions; assignment is nil or the
// replicas of the new ones.
func (c *Controller) CreatePartitions(ctx context.Context, topic string, total int32, assignment [][]offsets.BrokerID, validateOnly bool) (*Topic, error) {
	im, err := c.change(ctx, validateOnly, createPartitionsAsk{Topic: topic, Total: total, Assignment: assignment})
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
	_, err := c.change(ctx, change.ValidateOnly, alterConfigsAsk{Change: change})
	return err
}

// RegisterBroker registers a broker that starts and returns its epoch.
func (c *Controller) RegisterBroker(ctx context.Context, r Registration) (epoch int64, err error) {
	r.Levels = c.settings.levels
	if _, err := c.ask(ctx, registerAsk{Registration: r}); err != nil {
		return 0, err
	}
	if b, ok := c.Image().Broker(r.ID); ok && b.Incarnation == r.Incarnation {
		return b.Epoch, nil
	}
	return 0, ErrDuplicateBroker
}

// Levels are the format levels this node knows.
func (c *Controller) Levels() Levels { return c.settings.levels }

// RaiseFormat raises the format level, which all brokers must know.
func (c *Controller) RaiseFormat(ctx context.Context, level int16, validateOnly bool) error {
	_, err := c.change(ctx, validateOnly, raiseFormatAsk{level})
	return err
}

// ChangeBroker takes a broker in or out of service and moves leadership as that
// demands.
func (c *Controller) ChangeBroker(ctx context.Context, change BrokerChange) error {
	a, err := c.ask(ctx, changeBrokersAsk{Changes: []BrokerChange{change}})
	return errors.Join(err, errors.Join(a.refusals...))
}

// UnregisterBroker forgets a broker whose process has ended and that holds no
// replica, and its node's part in the quorum.
func (c *Controller) UnregisterBroker(ctx context.Context, id offsets.BrokerID) error {
	_, err := c.ask(ctx, unregisterAsk{ID: id})
	return err
}

// ChangeISRs lets a leader change the ISRs of partitions, each for itself, and
// returns the partitions after that.
func (c *Controller) ChangeISRs(ctx context.Context, changes []ISRChange) ([]ISRResult, error) {
	a, err := c.ask(ctx, changeISRsAsk{Changes: changes})
	if err != nil {
		return nil, err
	}
	im := c.Image()
	results := make([]ISRResult, len(changes))
	for i, change := range changes {
		results[i].Err = a.refusal(i)
		if p, ok := im.Partition(change.Topic, change.Partition); ok {
			results[i].Partition = *p
		} else if results[i].Err == nil {
			results[i].Err = ErrUnknownTopic
		}
	}
	return results, nil
}

// ElectLeaders elects the leaders of partitions, each for itself, and returns
// the partitions after that.
func (c *Controller) ElectLeaders(ctx context.Context, kind ElectionKind, tps []offsets.TopicPartition) ([]ElectResult, error) {
	a, err := c.ask(ctx, electLeadersAsk{Kind: kind, Partitions: tps})
	if err != nil {
		return nil, err
	}
	im := c.Image()
	results := make([]ElectResult, len(tps))
	for i, tp := range tps {
		results[i].Err = a.refusal(i)
		if t, ok := im.TopicByName(tp.Topic); ok && tp.Partition >= 0 && int(tp.Partition) < len(t.Partitions) {
			results[i].Partition = t.Partitions[tp.Partition]
		} else if results[i].Err == nil {
			results[i].Err = ErrUnknownTopic
		}
	}
	return results, nil
}

// Reassign begins to move partitions to other replicas, or with none takes that
// back, and returns what was refused of it.
func (c *Controller) Reassign(ctx context.Context, rs []Reassignment) ([]error, error) {
	a, err := c.ask(ctx, reassignAsk{rs})
	return a.refusals, err
}

// ProducerIDs takes a block of producer ids for this node: first to
// first+count-1.
func (c *Controller) ProducerIDs(ctx context.Context) (first int64, count int, err error) {
	a, err := c.ask(ctx, producerIDsAsk{Broker: c.node})
	if err != nil {
		return 0, 0, err
	}
	return a.number, producerIDBlock, nil
}

// NodeID takes the next free node id for a broker that joins.
func (c *Controller) NodeID(ctx context.Context) (offsets.BrokerID, error) {
	a, err := c.ask(ctx, nodeIDAsk{})
	if err != nil {
		return offsets.NoBroker, err
	}
	return offsets.BrokerID(a.number), nil
}
