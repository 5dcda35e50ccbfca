package group

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// Versions of keys and values, as Kafka numbers them.
const (
	keyOffset = 1
	keyGroup  = 2

	valueOffsetExpiring = 1
	valueOffset         = 3
	valueOffsetTopicID  = 4
	valueGroup          = 3
)

var errRecord = errors.New("record of the offsets topic makes no sense")

func offsetRecordKey(group string, tp offsets.TopicPartition) []byte {
	k := kmsg.OffsetCommitKey{Version: keyOffset, Group: group, Topic: tp.Topic, Partition: tp.Partition}
	return k.AppendTo(nil)
}

func offsetRecord(now int64, group string, tp offsets.TopicPartition, c *offsets.Committed) record.Record {
	v := kmsg.NewOffsetCommitValue()
	switch {
	case c.Expires >= 0:
		v.Version, v.ExpireTimestamp = valueOffsetExpiring, c.Expires
	case c.TopicID.IsZero():
		v.Version = valueOffset
	default:
		v.Version, v.TopicID = valueOffsetTopicID, c.TopicID
	}
	v.Offset, v.LeaderEpoch = int64(c.Offset), int32(c.LeaderEpoch)
	v.Metadata, v.CommitTimestamp = c.Metadata, c.Time
	return record.Record{Timestamp: now, Key: offsetRecordKey(group, tp), Value: v.AppendTo(nil)}
}

func offsetTombstone(now int64, group string, tp offsets.TopicPartition) record.Record {
	return record.Record{Timestamp: now, Key: offsetRecordKey(group, tp)}
}

func groupRecordKey(group string) []byte {
	k := kmsg.GroupMetadataKey{Version: keyGroup, Group: group}
	return k.AppendTo(nil)
}

func groupRecord(now int64, group string, s Snapshot) record.Record {
	return record.Record{Timestamp: now, Key: groupRecordKey(group), Value: encodeSnapshot(s)}
}

func groupTombstone(now int64, group string) record.Record {
	return record.Record{Timestamp: now, Key: groupRecordKey(group)}
}

// orNil is the null a protocol has for "none".
func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func encodeSnapshot(s Snapshot) []byte {
	v := kmsg.NewGroupMetadataValue()
	v.Version = valueGroup
	v.ProtocolType, v.Generation = s.ProtocolType, s.Generation
	v.Protocol, v.Leader = orNil(s.Protocol), orNil(s.Leader)
	v.CurrentStateTimestamp = s.Since
	for _, m := range s.Members {
		o := kmsg.NewGroupMetadataValueMember()
		o.MemberID, o.InstanceID = m.ID, orNil(m.Instance)
		o.ClientID, o.ClientHost = m.ClientID, m.ClientHost
		o.RebalanceTimeoutMillis, o.SessionTimeoutMillis = int32(m.Rebalance), int32(m.Session)
		o.Subscription, o.Assignment = m.Subscription, m.Assignment
		v.Members = append(v.Members, o)
	}
	return v.AppendTo(nil)
}

func decodeSnapshot(b []byte) (Snapshot, error) {
	version, err := valueVersion(b, 4)
	if err != nil {
		return Snapshot{}, err
	}
	v := kmsg.NewGroupMetadataValue()
	if err := v.ReadFrom(b); err != nil {
		return Snapshot{}, fmt.Errorf("group metadata version %d: %w", version, err)
	}
	s := Snapshot{
		ProtocolType: v.ProtocolType, Generation: v.Generation,
		Protocol: deref(v.Protocol), Leader: deref(v.Leader), Since: -1,
	}
	if version >= 2 {
		s.Since = v.CurrentStateTimestamp
	}
	for _, m := range v.Members {
		o := SnapshotMember{
			m.MemberID, deref(m.InstanceID), m.ClientID, m.ClientHost,
			int64(m.RebalanceTimeoutMillis), int64(m.SessionTimeoutMillis),
			bytes.Clone(m.Subscription), bytes.Clone(m.Assignment),
		}
		if version == 0 {
			o.Rebalance = o.Session
		}
		s.Members = append(s.Members, o)
	}
	return s, nil
}

func valueVersion(b []byte, newest int16) (int16, error) {
	if len(b) < 2 {
		return 0, fmt.Errorf("value of %d bytes: %w", len(b), errRecord)
	}
	version := int16(binary.BigEndian.Uint16(b))
	if version < 0 || version > newest {
		return 0, fmt.Errorf("value version %d: %w", version, errRecord)
	}
	return version, nil
}

// decodeRecord gives the change a record makes; ok is false for records of
// other kinds.
func decodeRecord(r *record.Record) (c offsets.Change, ok bool, err error) {
	if len(r.Key) < 2 {
		return c, false, fmt.Errorf("key of %d bytes: %w", len(r.Key), errRecord)
	}
	switch version := int16(binary.BigEndian.Uint16(r.Key)); version {
	case 0, keyOffset:
		var k kmsg.OffsetCommitKey
		if err := k.ReadFrom(r.Key); err != nil {
			return c, false, fmt.Errorf("offset key: %w", err)
		}
		if k.Topic == "" {
			return c, false, fmt.Errorf("offset key without a topic: %w", errRecord)
		}
		c = offsets.Change{Group: k.Group, Topic: k.Topic, Partition: k.Partition}
		if r.Value != nil {
			c.Commit, err = decodeOffset(r.Value)
		}
		return c, err == nil, err
	case keyGroup:
		var k kmsg.GroupMetadataKey
		if err := k.ReadFrom(r.Key); err != nil {
			return c, false, fmt.Errorf("group key: %w", err)
		}
		c = offsets.Change{Group: k.Group}
		if r.Value != nil {
			if _, err := decodeSnapshot(r.Value); err != nil {
				return c, false, err
			}
			c.Meta = bytes.Clone(r.Value)
		}
		return c, true, nil
	default:
		return c, false, nil
	}
}

func decodeOffset(b []byte) (*offsets.Committed, error) {
	version, err := valueVersion(b, valueOffsetTopicID)
	if err != nil {
		return nil, err
	}
	v := kmsg.NewOffsetCommitValue()
	if err := v.ReadFrom(b); err != nil {
		return nil, fmt.Errorf("offset version %d: %w", version, err)
	}
	c := &offsets.Committed{
		Offset: offsets.Offset(v.Offset), LeaderEpoch: offsets.NoEpoch, Metadata: v.Metadata,
		Time: v.CommitTimestamp, Expires: -1, TopicID: v.TopicID,
	}
	if version >= 3 {
		c.LeaderEpoch = offsets.Epoch(v.LeaderEpoch)
	}
	if version == valueOffsetExpiring {
		c.Expires = v.ExpireTimestamp
	}
	return c, nil
}
