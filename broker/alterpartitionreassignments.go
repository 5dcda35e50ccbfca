package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
)

// AlterPartitionReassignments, versions 0–1 (KIP-455; since 1 a client may
// forbid another replication factor): moves partitions to other replicas, or
// ends a move that is under way by null ones. The answer tells that it has
// begun; ListPartitionReassignments tells when it is done.

func (b *Broker) alterPartitionReassignments(r *kmsg.AlterPartitionAssignmentsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	m.AllowReplicationFactorChange = r.AllowReplicationFactorChange
	if len(r.Topics) == 0 {
		m.ErrorMessage = new("")
		return m
	}
	type place struct{ topic, partition int }
	var asks []controller.Reassignment
	var places []place // of the answers to them
	im := b.controller.Image()
	for i := range r.Topics {
		out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		out.Topic = r.Topics[i].Topic
		for j, ask := range r.Topics[i].Partitions {
			part := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			part.Partition = ask.Partition
			err := checkFactor(im, out.Topic, &ask, r.AllowReplicationFactorChange)
			if err == nil {
				to := controller.Reassignment{Topic: out.Topic, Partition: ask.Partition}
				if ask.Replicas != nil {
					to.Replicas = brokerIDs(ask.Replicas)
				}
				asks, places = append(asks, to), append(places, place{i, j})
			}
			part.ErrorCode, part.ErrorMessage = codeAndText(err)
			out.Partitions = append(out.Partitions, part)
		}
		m.Topics = append(m.Topics, out)
	}
	if len(asks) == 0 {
		return m
	}
	ctx, cancel := b.adminContext(r.TimeoutMillis)
	defer cancel()
	refusals, err := b.controller.Reassign(ctx, asks)
	for i, at := range places {
		part := &m.Topics[at.topic].Partitions[at.partition]
		failed := err
		if failed == nil && i < len(refusals) {
			failed = refusals[i]
		}
		part.ErrorCode, part.ErrorMessage = codeAndText(failed)
		if part.ErrorCode == kerr.NoReassignmentInProgress.Code {
			part.ErrorMessage = nil
		}
	}
	return m
}

// checkFactor refuses another replication factor where the client does.
func checkFactor(im *controller.Image, topic string, ask *kmsg.AlterPartitionAssignmentsRequestTopicPartition, change bool) error {
	t, ok := im.TopicByName(topic)
	if change || ask.Replicas == nil || !ok || ask.Partition < 0 || int(ask.Partition) >= len(t.Partitions) {
		return nil // allowed, or refused by the controller
	}
	p := &t.Partitions[ask.Partition]
	if have := len(p.Replicas) - len(p.Removing); have != len(ask.Replicas) {
		return refuse(kerr.InvalidReplicationFactor, "The replication factor is changed from %d to %d", have, len(ask.Replicas))
	}
	return nil
}
