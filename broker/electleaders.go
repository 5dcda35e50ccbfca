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
// are answered for. All are elected in one step of the controller.

func (b *Broker) electLeaders(r *kmsg.ElectLeadersRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.ElectLeadersResponse)
	kind, err := electionKind(r.ElectionType)
	m.ErrorCode = codeOf(err)
	if r.Topics == nil && err != nil {
		return m
	}
	asks, at := b.askedElections(r, m)
	var results []controller.ElectResult
	if err == nil && len(asks) > 0 {
		ctx, cancel := b.adminContext(r.TimeoutMillis)
		defer cancel()
		results, err = b.controller.ElectLeaders(ctx, kind, asks)
	}
	for i, tp := range asks {
		failed := err
		if failed == nil {
			failed = results[i].Err
		}
		if r.Topics == nil && errors.Is(failed, controller.ErrElectionNotNeeded) {
			continue
		}
		part := kmsg.NewElectLeadersResponseTopicPartition()
		part.Partition = tp.Partition
		part.ErrorCode, part.ErrorMessage = codeAndText(failed)
		if kind == controller.Preferred && part.ErrorCode == kerr.EligibleLeadersNotAvailable.Code {
			part.ErrorCode = kerr.PreferredLeaderNotAvailable.Code
		}
		out := &m.Topics[at[i]]
		out.Partitions = append(out.Partitions, part)
	}
	return m
}

// askedElections are the partitions of a request: those it names, or all that
// aren't led by whom they should be. The answer gets their topics; at tells
// which of these is whose.
func (b *Broker) askedElections(r *kmsg.ElectLeadersRequest, m *kmsg.ElectLeadersResponse) (asks []offsets.TopicPartition, at []int) {
	ask := func(topic string, partition int32) {
		asks, at = append(asks, offsets.TopicPartition{Topic: topic, Partition: partition}), append(at, len(m.Topics))
	}
	answer := func(topic string) {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = topic
		m.Topics = append(m.Topics, out)
	}
	for i := range r.Topics {
		for _, partition := range r.Topics[i].Partitions {
			ask(r.Topics[i].Topic, partition)
		}
		answer(r.Topics[i].Topic)
	}
	if r.Topics != nil {
		return asks, at
	}
	for _, t := range b.controller.Image().Topics() {
		for i := range t.Partitions {
			if p := &t.Partitions[i]; p.Leader != p.Replicas[0] {
				ask(t.Name, p.Index)
			}
		}
		answer(t.Name)
	}
	return asks, at
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
