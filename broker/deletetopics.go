package broker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
	"sawlog/offsets"
)

// DeleteTopics, versions 1–6: by name, and by id since version 6 (KIP-516). The
// broker's own topics are refused: groups and jobs live in them.

func (b *Broker) deleteTopics(r *kmsg.DeleteTopicsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.DeleteTopicsResponse)
	m.Default()
	m.Version = r.Version
	ctx, cancel := b.adminContext(r.TimeoutMillis)
	defer cancel()
	asked := r.Topics
	for i := range r.TopicNames {
		asked = append(asked, kmsg.DeleteTopicsRequestTopic{Topic: &r.TopicNames[i]})
	}
	for i := range asked {
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = asked[i].Topic, asked[i].TopicID
		t, err := b.topicToDelete(&asked[i])
		if err == nil {
			out.Topic, out.TopicID = &t.Name, t.ID
			err = b.controller.DeleteTopic(ctx, t.ID)
		}
		out.ErrorCode, out.ErrorMessage = codeAndText(err)
		m.Topics = append(m.Topics, out)
	}
	return m
}

func (b *Broker) topicToDelete(ask *kmsg.DeleteTopicsRequestTopic) (*controller.Topic, error) {
	im := b.controller.Image()
	var t *controller.Topic
	var ok bool
	switch {
	case ask.Topic == nil:
		if t, ok = im.TopicByID(ask.TopicID); !ok {
			return nil, kerr.UnknownTopicID
		}
	case !offsets.TopicID(ask.TopicID).IsZero():
		return nil, fmt.Errorf("%w: a topic is named by its name or by its id, not by both", kerr.InvalidRequest)
	default:
		if t, ok = im.TopicByName(*ask.Topic); !ok {
			return nil, kerr.UnknownTopicOrPartition
		}
	}
	if t.Internal {
		return nil, fmt.Errorf("%w: %s is the broker's own", kerr.InvalidRequest, t.Name)
	}
	return t, nil
}
