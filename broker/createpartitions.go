package broker

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
	"sawlog/offsets"
)

// CreatePartitions, versions 0–3 (KIP-195): grows a topic; the number given is
// that of all partitions. The broker's own topics are refused: where a group's
// offsets are follows from how many partitions there are.

func (b *Broker) createPartitions(r *kmsg.CreatePartitionsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.CreatePartitionsResponse)
	ctx, cancel := b.adminContext(r.TimeoutMillis)
	defer cancel()
	count := map[string]int{}
	for i := range r.Topics {
		count[r.Topics[i].Topic]++
	}
	for i := range r.Topics {
		ask := &r.Topics[i]
		var err error
		switch n := count[ask.Topic]; {
		case n == answered:
			continue
		case n > 1:
			count[ask.Topic] = answered
			err = refuse(kerr.InvalidRequest, "Duplicate topic name.")
		default:
			err = b.growTopic(ctx, ask, r.ValidateOnly)
		}
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = ask.Topic
		out.ErrorCode, out.ErrorMessage = codeAndText(err)
		if errors.Is(err, controller.ErrUnknownTopic) {
			out.ErrorMessage = nil
		}
		m.Topics = append(m.Topics, out)
	}
	return m
}

func (b *Broker) growTopic(ctx context.Context, ask *kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	if isInternal(ask.Topic) {
		return refuse(kerr.InvalidRequest, "%s is the broker's own", ask.Topic)
	}
	var assignment [][]offsets.BrokerID
	if ask.Assignment != nil { // an empty one is wrong, as in Kafka
		assignment = [][]offsets.BrokerID{}
	}
	for _, a := range ask.Assignment {
		assignment = append(assignment, brokerIDs(a.Replicas))
	}
	_, err := b.controller.CreatePartitions(ctx, ask.Topic, ask.Count, assignment, validateOnly)
	return err
}
