package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/offsets"
)

// AlterPartitionReassignments, versions 0–1 (KIP-455; since 1 a client may
// forbid another replication factor). With one broker a partition can only be
// asked to stay where it is, which is done; nothing is ever under way, so there
// is nothing to cancel.

func (b *Broker) alterPartitionReassignments(r *kmsg.AlterPartitionAssignmentsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	m.Default()
	m.Version = r.Version
	m.AllowReplicationFactorChange = r.AllowReplicationFactorChange
	if len(r.Topics) == 0 {
		m.ErrorMessage = new("")
	}
	for i := range r.Topics {
		out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		out.Topic = r.Topics[i].Topic
		for _, ask := range r.Topics[i].Partitions {
			part := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			part.Partition = ask.Partition
			part.ErrorCode, part.ErrorMessage = codeAndText(b.reassign(out.Topic, &ask, r.AllowReplicationFactorChange))
			if ask.Replicas == nil && part.ErrorCode == kerr.NoReassignmentInProgress.Code {
				part.ErrorMessage = nil
			}
			out.Partitions = append(out.Partitions, part)
		}
		m.Topics = append(m.Topics, out)
	}
	return m
}

// reassign tells what becomes of one partition's wish.
func (b *Broker) reassign(topic string, ask *kmsg.AlterPartitionAssignmentsRequestTopicPartition, resize bool) error {
	im := b.controller.Image()
	t, ok := im.TopicByName(topic)
	if !ok {
		return refuse(kerr.UnknownTopicOrPartition, "Unable to find a topic named %s.", topic)
	}
	p, ok := im.Partition(t.ID, ask.Partition)
	if !ok {
		return refuse(kerr.UnknownTopicOrPartition, "Unable to find partition %s:%d.", topic, ask.Partition)
	}
	if ask.Replicas == nil {
		return kerr.NoReassignmentInProgress
	}
	want := brokerIDs(ask.Replicas)
	if err := im.CheckReplicas(want); err != nil {
		return err
	}
	if !resize && len(want) != len(p.Replicas) {
		return refuse(kerr.InvalidReplicationFactor, "The replication factor is changed from %d to %d", len(p.Replicas), len(want))
	}
	moves := slices.ContainsFunc(want, func(id offsets.BrokerID) bool { return !slices.Contains(p.Replicas, id) })
	if moves || len(want) != len(p.Replicas) {
		return refuse(kerr.InvalidReplicaAssignment, "Partition %s-%d can't be moved: replicas stay where they were placed.", topic, ask.Partition)
	}
	return nil
}
