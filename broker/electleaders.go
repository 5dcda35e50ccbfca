package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
	"sawlog/offsets"
)

// ElectLeaders, versions 0–2 (KIP-183, KIP-460): gives leadership back to the
// preferred replicas, or, since version 1, lets any live replica lead where none
// does. Null topics are all partitions; of these only the ones that needed it
// are answered for.

func (b *Broker) electLeaders(r *kmsg.ElectLeadersRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.ElectLeadersResponse)
	m.Default()
	m.Version = r.Version
	kind, err := electionKind(r.ElectionType)
	m.ErrorCode = codeOf(err)
	ctx, cancel := b.adminContext(r.TimeoutMillis)
	defer cancel()
	elect := func(out *kmsg.ElectLeadersResponseTopic, partition int32) {
		failed := err
		if failed == nil {
			_, failed = b.controller.ElectLeader(ctx, kind, offsets.TopicPartition{Topic: out.Topic, Partition: partition})
		}
		if r.Topics == nil && errors.Is(failed, controller.ErrElectionNotNeeded) {
			return
		}
		part := kmsg.NewElectLeadersResponseTopicPartition()
		part.Partition = partition
		part.ErrorCode, part.ErrorMessage = codeAndText(failed)
		if kind == controller.Preferred && part.ErrorCode == kerr.EligibleLeadersNotAvailable.Code {
			part.ErrorCode = kerr.PreferredLeaderNotAvailable.Code
		}
		out.Partitions = append(out.Partitions, part)
	}
	for i := range r.Topics {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = r.Topics[i].Topic
		for _, partition := range r.Topics[i].Partitions {
			elect(&out, partition)
		}
		m.Topics = append(m.Topics, out)
	}
	if r.Topics != nil || err != nil {
		return m
	}
	for _, t := range b.controller.Image().Topics() {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = t.Name
		for i := range t.Partitions {
			if p := &t.Partitions[i]; p.Leader != p.Replicas[0] {
				elect(&out, p.Index)
			}
		}
		m.Topics = append(m.Topics, out)
	}
	return m
}

func electionKind(kind int8) (controller.ElectionKind, error) {
	switch kind {
	case 0:
		return controller.Preferred, nil
	case 1:
		return controller.Unclean, nil
	}
	return 0, refuse(kerr.InvalidRequest, "Unknown election type %d", kind)
}
