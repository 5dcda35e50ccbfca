package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
	"sawlog/offsets"
)

// CreateTopics, versions 2–7. −1 partitions or replicas mean the broker's
// defaults (KIP-464); the reply tells partitions, replication factor and
// configurations since version 5 (KIP-525), the topic's id since 7. It is sent
// when the topic can be used on this broker. Names of the broker's own topics
// are refused.

func (b *Broker) createTopics(r *kmsg.CreateTopicsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.CreateTopicsResponse)
	ctx, cancel := b.adminContext(r.TimeoutMillis)
	defer cancel()
	count := map[string]int{}
	for i := range r.Topics {
		count[r.Topics[i].Topic]++
	}
	var room budget
	for i := range r.Topics {
		ask := &r.Topics[i]
		var err error
		switch n := count[ask.Topic]; {
		case n == answered:
			continue
		case n > 1:
			count[ask.Topic] = answered
			err = refuse(kerr.InvalidRequest, "Duplicate topic name.")
		case !room.take(0):
			err = errAnswerTooLarge()
		}
		out := b.createTopic(ctx, ask, r.ValidateOnly, err)
		room.take(sizeOfCreated * len(out.Configs))
		m.Topics = append(m.Topics, out)
	}
	return m
}

// sizeOfCreated is about what a configuration takes in the answer and before it
// is one.
const sizeOfCreated = 64

// answered marks a name that comes more than once and has had its one answer.
const answered = -1

// createTopic makes one topic, unless the request is refused already.
func (b *Broker) createTopic(ctx context.Context, ask *kmsg.CreateTopicsRequestTopic, validateOnly bool, err error) kmsg.CreateTopicsResponseTopic {
	out := kmsg.NewCreateTopicsResponseTopic()
	out.Topic, out.NumPartitions, out.ReplicationFactor = ask.Topic, -1, -1
	out.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
	var want controller.NewTopic
	if err == nil {
		want, err = newTopic(ask, validateOnly)
	}
	var made *controller.Topic
	if err == nil {
		made, err = b.controller.CreateTopic(ctx, want)
	}
	if err != nil {
		out.ErrorCode, out.ErrorMessage = codeAndText(err)
		return out
	}
	out.NumPartitions = int32(len(made.Partitions))
	out.ReplicationFactor = int16(len(made.Partitions[0].Replicas))
	out.TopicID = made.ID
	out.Configs = b.createdConfigs(made)
	return out
}

// newTopic turns a request's topic into what the controller makes.
func newTopic(ask *kmsg.CreateTopicsRequestTopic, validateOnly bool) (controller.NewTopic, error) {
	want := controller.NewTopic{
		Name:              ask.Topic,
		Partitions:        ask.NumPartitions,
		ReplicationFactor: ask.ReplicationFactor,
		Configs:           map[string]string{},
		ValidateOnly:      validateOnly,
	}
	if isInternal(ask.Topic) || ask.Topic == metadataTopic {
		return want, refuse(kerr.InvalidRequest, "Creation of internal topic %s is prohibited.", ask.Topic)
	}
	for _, c := range ask.Configs {
		if c.Value == nil {
			return want, refuse(kerr.InvalidConfig, "Null value not supported for topic configs: %s", c.Name)
		}
		want.Configs[c.Name] = *c.Value
	}
	if len(ask.ReplicaAssignment) == 0 {
		return want, nil
	}
	switch {
	case ask.ReplicationFactor != -1:
		return want, refuse(kerr.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	case ask.NumPartitions != -1:
		return want, refuse(kerr.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	want.Assignment = make([][]offsets.BrokerID, len(ask.ReplicaAssignment))
	for _, a := range ask.ReplicaAssignment {
		if a.Partition < 0 || int(a.Partition) >= len(want.Assignment) || want.Assignment[a.Partition] != nil {
			return want, refuse(kerr.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
		want.Assignment[a.Partition] = brokerIDs(a.Replicas)
	}
	return want, nil
}

func brokerIDs(in []int32) []offsets.BrokerID {
	out := make([]offsets.BrokerID, len(in))
	for i, id := range in {
		out[i] = offsets.BrokerID(id)
	}
	return out
}

// createdConfigs is what a made topic is configured with.
func (b *Broker) createdConfigs(t *controller.Topic) []kmsg.CreateTopicsResponseTopicConfig {
	l := b.layers(t, b.controller.Image())
	out := make([]kmsg.CreateTopicsResponseTopicConfig, 0, len(topicSettings))
	for i := range topicSettings {
		v, source := l.find(&topicSettings[i])
		out = append(out, kmsg.CreateTopicsResponseTopicConfig{Name: topicSettings[i].name, Value: &v, Source: int8(source)})
	}
	return out
}
