package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
	"sawlog/offsets"
)

// DeleteTopics, versions 1–6: by name, and by id since version 6 (KIP-516). The
// broker's own topics are refused: groups and jobs live in them.

func (b *Broker) deleteTopics(r *kmsg.DeleteTopicsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.DeleteTopicsResponse)
	ctx, cancel := b.adminContext(r.TimeoutMillis)
	defer cancel()
	asked := r.Topics
	for i := range r.TopicNames {
		asked = append(asked, kmsg.DeleteTopicsRequestTopic{Topic: &r.TopicNames[i]})
	}
	named, ids := map[string]int{}, map[offsets.TopicID]int{}
	for i := range asked {
		if asked[i].Topic != nil {
			named[*asked[i].Topic]++
		} else {
			ids[asked[i].TopicID]++
		}
	}
	b.joinNames(named, ids)
	for i := range asked {
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = asked[i].Topic, asked[i].TopicID
		var err error
		switch name, id := asked[i].Topic, offsets.TopicID(asked[i].TopicID); {
		case name != nil && named[*name] == answered, name == nil && ids[id] == answered:
			continue
		case name != nil && named[*name] == byID:
			err = b.nameTwice(&out)
		case name != nil && named[*name] > 1:
			named[*name] = answered
			err = refuse(kerr.InvalidRequest, "Duplicate topic name.")
		case name == nil && ids[id] > 1:
			ids[id] = answered
			err = refuse(kerr.InvalidRequest, "Duplicate topic id.")
		default:
			err = b.deleteTopic(ctx, &out)
		}
		out.ErrorCode, out.ErrorMessage = codeAndText(err)
		m.Topics = append(m.Topics, out)
	}
	return m
}

// byID marks a name whose topic is given by its id as well.
const byID = -2

// joinNames finds the topics that are given both ways: their names are answered
// for both.
func (b *Broker) joinNames(named map[string]int, ids map[offsets.TopicID]int) {
	im := b.controller.Image()
	for name := range named {
		if t, ok := im.TopicByName(name); ok && named[name] == 1 && ids[t.ID] > 0 {
			named[name], ids[t.ID] = byID, answered
		}
	}
}

func (b *Broker) nameTwice(out *kmsg.DeleteTopicsResponseTopic) error {
	if t, ok := b.controller.Image().TopicByName(*out.Topic); ok {
		out.TopicID = t.ID
	}
	return refuse(kerr.InvalidRequest, "The provided topic name maps to an ID that was already supplied.")
}

// deleteTopic deletes the topic that out names and fills in what it isn't told.
func (b *Broker) deleteTopic(ctx context.Context, out *kmsg.DeleteTopicsResponseTopic) error {
	t, err := b.topicToDelete(out.Topic, out.TopicID)
	if err != nil {
		return err
	}
	out.Topic, out.TopicID = &t.Name, t.ID
	return b.controller.DeleteTopic(ctx, t.ID)
}

func (b *Broker) topicToDelete(name *string, id offsets.TopicID) (*controller.Topic, error) {
	im := b.controller.Image()
	var t *controller.Topic
	var ok bool
	switch {
	case name == nil && id.IsZero():
		return nil, refuse(kerr.InvalidRequest, "Neither topic name nor id were specified.")
	case name == nil:
		if t, ok = im.TopicByID(id); !ok {
			return nil, kerr.UnknownTopicID
		}
	case !id.IsZero():
		return nil, refuse(kerr.InvalidRequest, "You may not specify both topic name and topic id.")
	default:
		if t, ok = im.TopicByName(*name); !ok {
			return nil, kerr.UnknownTopicOrPartition
		}
	}
	if t.Internal {
		return nil, refuse(kerr.InvalidRequest, "%s is the broker's own", t.Name)
	}
	return t, nil
}
