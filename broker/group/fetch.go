package group

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/offsets"
)

// sizeOfOffset is about what an offset takes in an answer and before it is one.
const sizeOfOffset = 128

// OffsetFetch serves versions 1–10: from 2 null topics ask for all and errors
// have a place of their own, from 7 with require_stable, from 8 for several
// groups, from 10 with topic ids. What a group has not committed is offset -1
// and no error, also for a group nobody knows.
//
// No transactional offsets are staged here yet, so every offset is stable.
func (c *Coordinator) OffsetFetch(_ context.Context, _ Client, r *kmsg.OffsetFetchRequest, done func(*kmsg.OffsetFetchResponse)) {
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.Version = r.Version
	if r.Version >= 8 {
		rows := 0
		for i := range r.Groups {
			if rows > maxAnswer/sizeOfOffset {
				g := kmsg.NewOffsetFetchResponseGroup()
				g.Group, g.ErrorCode = strings.Clone(r.Groups[i].Group), kerr.InvalidRequest.Code
				resp.Groups = append(resp.Groups, g)
				continue
			}
			g := c.fetchGroup(&r.Groups[i], r.Version)
			for _, t := range g.Topics {
				rows += len(t.Partitions)
			}
			resp.Groups = append(resp.Groups, g)
		}
		done(resp)
		return
	}
	ask := kmsg.NewOffsetFetchRequestGroup()
	ask.Group = r.Group
	if r.Topics != nil {
		ask.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(r.Topics))
	}
	for _, t := range r.Topics {
		o := kmsg.NewOffsetFetchRequestGroupTopic()
		o.Topic, o.Partitions = t.Topic, t.Partitions
		ask.Topics = append(ask.Topics, o)
	}
	got := c.fetchGroup(&ask, r.Version)
	resp.ErrorCode = got.ErrorCode
	if got.ErrorCode != 0 && r.Version < 2 {
		got.Topics = failedTopics(ask.Topics, got.ErrorCode)
	}
	for _, t := range got.Topics {
		o := kmsg.NewOffsetFetchResponseTopic()
		o.Topic = t.Topic
		for _, p := range t.Partitions {
			q := kmsg.NewOffsetFetchResponseTopicPartition()
			q.Partition, q.Offset, q.LeaderEpoch = p.Partition, p.Offset, p.LeaderEpoch
			q.Metadata, q.ErrorCode = p.Metadata, p.ErrorCode
			o.Partitions = append(o.Partitions, q)
		}
		resp.Topics = append(resp.Topics, o)
	}
	done(resp)
}

func failedTopics(topics []kmsg.OffsetFetchRequestGroupTopic, code int16) (out []kmsg.OffsetFetchResponseGroupTopic) {
	for _, t := range topics {
		o := kmsg.NewOffsetFetchResponseGroupTopic()
		o.Topic, o.TopicID = strings.Clone(t.Topic), t.TopicID
		for _, p := range t.Partitions {
			o.Partitions = append(o.Partitions, fetched(p, offsets.Committed{}, false, code))
		}
		out = append(out, o)
	}
	return out
}

func fetched(partition int32, c offsets.Committed, found bool, code int16) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.ErrorCode = partition, code
	p.Offset, p.LeaderEpoch = -1, -1
	metadata := ""
	if found {
		p.Offset, p.LeaderEpoch, metadata = int64(c.Offset), int32(c.LeaderEpoch), c.Metadata
	}
	p.Metadata = &metadata
	return p
}

func (c *Coordinator) fetchGroup(ask *kmsg.OffsetFetchRequestGroup, version int16) kmsg.OffsetFetchResponseGroup {
	resp := kmsg.NewOffsetFetchResponseGroup()
	resp.Group = strings.Clone(ask.Group)
	s := c.shard(ask.Group)
	s.mu.Lock()
	resp.ErrorCode = s.unavailable()
	term := s.term
	s.unlock()
	if resp.ErrorCode != 0 {
		return resp
	}
	var err error
	if ask.Topics == nil && version >= 2 {
		resp.Topics, err = c.fetchAll(s.partition, resp.Group, version)
	} else {
		resp.Topics, err = c.fetchSome(s.partition, resp.Group, ask.Topics, version)
	}
	if err != nil {
		c.config.Logger.Error("fetch offsets", "group", ask.Group, "error", err)
		resp.Topics, resp.ErrorCode = nil, kerr.CoordinatorNotAvailable.Code
		return resp
	}
	if resp.ErrorCode = s.still(term); resp.ErrorCode != 0 {
		resp.Topics = nil
	}
	return resp
}

// current tells whether an offset belongs to the topic that has the name now,
// and not to one deleted before.
func (c *Coordinator) current(topic string, stored offsets.TopicID) bool {
	if stored.IsZero() {
		return true
	}
	id, ok := c.config.TopicID(topic)
	return !ok || id == stored
}

func (c *Coordinator) fetchSome(partition int32, group string, topics []kmsg.OffsetFetchRequestGroupTopic, version int16) (out []kmsg.OffsetFetchResponseGroupTopic, err error) {
	for _, t := range topics {
		o := kmsg.NewOffsetFetchResponseGroupTopic()
		o.Topic, o.TopicID = strings.Clone(t.Topic), t.TopicID
		name, code := o.Topic, int16(0)
		if version >= 10 {
			known := false
			if name, known = c.config.TopicName(t.TopicID); !known {
				code = kerr.UnknownTopicID.Code
			}
		}
		for _, p := range t.Partitions {
			var have offsets.Committed
			found := false
			if code == 0 {
				have, found, err = c.config.Store.Offset(partition, group, offsets.TopicPartition{Topic: name, Partition: p})
				if err != nil {
					return nil, err
				}
			}
			o.Partitions = append(o.Partitions, fetched(p, have, found && c.current(name, have.TopicID), code))
		}
		out = append(out, o)
	}
	return out, nil
}

func (c *Coordinator) fetchAll(partition int32, group string, version int16) (out []kmsg.OffsetFetchResponseGroupTopic, err error) {
	type row struct {
		tp   offsets.TopicPartition
		have offsets.Committed
	}
	var rows []row
	err = c.config.Store.Offsets(partition, group, func(tp offsets.TopicPartition, have offsets.Committed) {
		if c.current(tp.Topic, have.TopicID) {
			rows = append(rows, row{tp, have})
		}
	})
	slices.SortFunc(rows, func(a, b row) int { return a.tp.Compare(b.tp) })
	last := ""
	for _, r := range rows {
		if len(out) == 0 || r.tp.Topic != last {
			o := kmsg.NewOffsetFetchResponseGroupTopic()
			o.Topic, last = r.tp.Topic, r.tp.Topic
			id, ok := c.config.TopicID(r.tp.Topic)
			if version >= 10 && !ok {
				last = ""
				continue // a topic that is gone cannot be named by an id
			}
			o.TopicID = id
			out = append(out, o)
		}
		t := &out[len(out)-1]
		t.Partitions = append(t.Partitions, fetched(r.tp.Partition, r.have, true, 0))
	}
	return out, err
}
