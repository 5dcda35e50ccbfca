package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/offsets"
)

// FindCoordinator, versions 0–6: the broker that coordinates a group, one key
// before version 4, many since (KIP-699). The first call makes
// __consumer_offsets. For a transactional id it is this broker, where
// InitProducerId refuses it and DescribeTransactions doesn't know it; share
// groups are refused with INVALID_REQUEST.

const (
	groupCoordinator       = 0
	transactionCoordinator = 1
)

func (b *Broker) findCoordinator(r *kmsg.FindCoordinatorRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.FindCoordinatorResponse)
	if r.Version < 4 {
		c := b.coordinatorOf(r.CoordinatorType, r.CoordinatorKey)
		m.ErrorCode, m.ErrorMessage = c.ErrorCode, c.ErrorMessage
		m.NodeID, m.Host, m.Port = c.NodeID, c.Host, c.Port
		if m.ErrorCode == 0 {
			m.ErrorMessage = new("NONE") // as Kafka says it
		}
		return m
	}
	for _, key := range r.CoordinatorKeys {
		m.Coordinators = append(m.Coordinators, b.coordinatorOf(r.CoordinatorType, key))
	}
	return m
}

func (b *Broker) coordinatorOf(kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	c := kmsg.NewFindCoordinatorResponseCoordinator()
	c.Key, c.NodeID, c.Port = key, -1, -1
	var err error
	switch kind {
	case groupCoordinator:
		err = b.findGroup(key, &c)
	case transactionCoordinator:
		c.NodeID, c.Host, c.Port = int32(b.nodeID), b.host, b.port
	default:
		err = kerr.InvalidRequest
	}
	if c.ErrorMessage = new(""); err != nil {
		c.ErrorCode, c.ErrorMessage = codeAndText(err)
	}
	return c
}

func (b *Broker) findGroup(key string, c *kmsg.FindCoordinatorResponseCoordinator) error {
	ctx, cancel := b.adminContext(0)
	defer cancel()
	t, err := b.ensureTopic(ctx, internalTopic(offsetsTopic))
	if err != nil {
		b.config.Logger.Warn("can't make the offsets topic", "error", err)
		return errors.Join(kerr.CoordinatorNotAvailable, err)
	}
	im := b.controller.Image()
	if meta, ok := im.TopicByID(t.meta.ID); ok {
		leader := meta.Partitions[b.groups.PartitionFor(key)].Leader
		if br, ok := im.Broker(leader); ok && leader != offsets.NoBroker {
			if host, port, ok := b.endpoint(br); ok {
				c.NodeID, c.Host, c.Port = int32(leader), host, port
				return nil
			}
		}
	}
	return kerr.CoordinatorNotAvailable
}
