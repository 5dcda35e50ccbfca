package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
	"sawlog/offsets"
)

// DescribeProducers, version 0 (KIP-664): the producers whose state a
// partition's leader keeps. There are no transactions, so none is ever open.

func (b *Broker) describeProducers(r *kmsg.DescribeProducersRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.DescribeProducersResponse)
	var room budget
	for i := range r.Topics {
		out := kmsg.NewDescribeProducersResponseTopic()
		out.Topic = r.Topics[i].Topic
		t := b.topics.name([]byte(out.Topic))
		for _, partition := range r.Topics[i].Partitions {
			part := kmsg.NewDescribeProducersResponseTopicPartition()
			part.Partition = partition
			err := controller.CheckTopicName(out.Topic)
			switch {
			case err != nil:
			case t == nil:
				err = kerr.UnknownTopicOrPartition
			case !room.take(0):
				err = errAnswerTooLarge()
			}
			part.ErrorCode, part.ErrorMessage = codeAndText(err)
			if err == nil {
				part.ErrorCode = describedProducers(t, &part)
				room.take(sizeOfProducer * len(part.ActiveProducers))
			}
			out.Partitions = append(out.Partitions, part)
		}
		m.Topics = append(m.Topics, out)
	}
	return m
}

// sizeOfProducer is about what a producer takes in an answer and before it is
// one.
const sizeOfProducer = 64

func describedProducers(t *topic, part *kmsg.DescribeProducersResponseTopicPartition) int16 {
	p, err := hosted(t, part.Partition)
	if err == nil {
		_, err = p.Check(offsets.NoEpoch)
	}
	if err != nil {
		return codeOf(err)
	}
	for _, known := range p.Log().Producers() {
		active := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		active.ProducerID, active.ProducerEpoch = known.ID, int32(known.Epoch)
		active.LastSequence, active.LastTimestamp = known.LastSequence, known.LastTimestamp
		active.CoordinatorEpoch, active.CurrentTxnStartOffset = -1, int64(known.TxnStart) // no coordinator ever wrote
		part.ActiveProducers = append(part.ActiveProducers, active)
	}
	return 0
}
