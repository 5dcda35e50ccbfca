package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
)

// ListPartitionReassignments, version 0 (KIP-455): the partitions that are
// moving, of those asked for or, with null topics, of all. What isn't there
// isn't moving.

func (b *Broker) listPartitionReassignments(r *kmsg.ListPartitionReassignmentsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	im := b.controller.Image()
	list := func(t *controller.Topic, partitions []int32) {
		out := kmsg.NewListPartitionReassignmentsResponseTopic()
		out.Topic = t.Name
		for _, index := range partitions {
			if index < 0 || int(index) >= len(t.Partitions) || !t.Partitions[index].Reassigning() {
				continue
			}
			p := &t.Partitions[index]
			part := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
			part.Partition, part.Replicas = index, ids(p.Replicas)
			part.AddingReplicas, part.RemovingReplicas = ids(p.Adding), ids(p.Removing)
			out.Partitions = append(out.Partitions, part)
		}
		if len(out.Partitions) > 0 {
			m.Topics = append(m.Topics, out)
		}
	}
	if r.Topics == nil {
		for _, t := range im.Topics() {
			list(t, allPartitions(t))
		}
		return m
	}
	for i := range r.Topics {
		if t, ok := im.TopicByName(r.Topics[i].Topic); ok {
			list(t, r.Topics[i].Partitions)
		}
	}
	return m
}

func allPartitions(t *controller.Topic) []int32 {
	all := make([]int32, len(t.Partitions))
	for i := range all {
		all[i] = int32(i)
	}
	return all
}
