package broker

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
	"sawlog/offsets"
)

// CreatePartitions, versions 0–3 (KIP-195): grows a topic; the number given is
// that of all partitions.

func (b *Broker) createPartitions(r *kmsg.CreatePartitionsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.CreatePartitionsResponse)
	m.Default()
	m.Version = r.Version
	ctx, cancel := b.adminContext(r.TimeoutMillis)
	defer cancel()
	for i := range r.Topics {
		ask := &r.Topics[i]
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = ask.Topic
		var assignment [][]offsets.BrokerID
		for _, a := range ask.Assignment {
			assignment = append(assignment, brokerIDs(a.Replicas))
		}
		twice := slices.ContainsFunc(r.Topics[:i], func(t kmsg.CreatePartitionsRequestTopic) bool { return t.Topic == ask.Topic })
		err := error(kerr.InvalidRequest)
		if !twice {
			_, err = b.controller.CreatePartitions(ctx, ask.Topic, ask.Count, assignment, r.ValidateOnly)
		}
		out.ErrorCode, out.ErrorMessage = codeAndText(err)
		if errors.Is(err, controller.ErrInvalidTopic) {
			out.ErrorCode = kerr.UnknownTopicOrPartition.Code
		}
		m.Topics = append(m.Topics, out)
	}
	return m
}
