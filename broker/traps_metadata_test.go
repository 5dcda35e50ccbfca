package broker_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/compat/peer"
	"sawlog/broker/record"
	"sawlog/broker/wire"
)

// metadataOf asks for topics by name.
func metadataOf(t *testing.T, c *wire.Conn, version int16, create bool, names ...string) *kmsg.MetadataResponse {
	t.Helper()
	r := kmsg.NewPtrMetadataRequest()
	r.AllowAutoTopicCreation = create
	for _, name := range names {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = &name
		r.Topics = append(r.Topics, rt)
	}
	return askAt[*kmsg.MetadataResponse](t, c, version, r)
}

// 11: a topic that was made on first use, or by CreateTopics, can be written and
// read at once: the answer waits for it, so that no client must ask twice.
func TestTrap11AutoCreation(t *testing.T) {
	b := brokertest.Start(t, nil)
	c := wireClient(t, b)
	for version := int16(0); version <= 13; version++ {
		for _, allowed := range []bool{false, true} {
			name := fmt.Sprintf("auto-%d-%v", version, allowed)
			got := metadataOf(t, c, version, allowed, name).Topics[0]
			made := allowed || version < 4 // who can't forbid it allows it
			switch {
			case made && (got.ErrorCode != 0 || len(got.Partitions) != 1 || got.Partitions[0].Leader != 1 || version >= 10 && got.TopicID == [16]byte{}):
				t.Errorf("%s: %+v", name, got)
			case !made && (got.ErrorCode != kerr.UnknownTopicOrPartition.Code || len(got.Partitions) != 0):
				t.Errorf("%s: %+v", name, got)
			case made:
				if got := put(t, c, name, batchOf(t, record.None, now(), "x")); got.ErrorCode != 0 {
					t.Errorf("produce to %s: code %d", name, got.ErrorCode)
				}
			}
		}
	}
	other := wireClient(t, b)
	for i := range 20 {
		name := fmt.Sprintf("made-%d", i)
		createTopic(t, c, name, 2)
		if got := put(t, other, name, batchOf(t, record.None, now(), "x")); got.ErrorCode != 0 {
			t.Errorf("produce to %s: code %d", name, got.ErrorCode)
		}
		if got := get(t, c, name, 0); got.ErrorCode != 0 || got.HighWatermark != 1 {
			t.Errorf("fetch of %s: %+v", name, got)
		}
	}
	metadataOf(t, c, 9, true, "dots.and.dots")
	for _, bad := range []string{"dots_and.dots", "dots_and_dots", "bad/name", "", "..", string(make([]byte, 250))} {
		if got := metadataOf(t, c, 9, true, bad).Topics[0]; got.ErrorCode != kerr.InvalidTopicException.Code {
			t.Errorf("%.20q: code %d", bad, got.ErrorCode)
		}
	}
}

// 12: leader epochs never go back, nor do ids and addresses change, over restarts.
func TestTrap12LeaderEpochs(t *testing.T) {
	dir, addr := t.TempDir(), peer.Address(t)
	var before *kmsg.MetadataResponse
	for restart := range 4 {
		b := brokertest.Start(t, func(c *broker.Config) { c.Dir, c.Listen = dir, addr })
		c := wireClient(t, b)
		if before == nil {
			createTopic(t, c, "t", 2)
		}
		m := metadataOf(t, c, 9, false, "t")
		for i := range m.Topics[0].Partitions {
			epoch := m.Topics[0].Partitions[i].LeaderEpoch
			if before != nil && epoch < before.Topics[0].Partitions[i].LeaderEpoch {
				t.Errorf("restart %d: epoch %d after %d", restart, epoch, before.Topics[0].Partitions[i].LeaderEpoch)
			}
			if got := listed(t, c, "t", -1); got.LeaderEpoch != m.Topics[0].Partitions[0].LeaderEpoch {
				t.Errorf("restart %d: ListOffsets says epoch %d, metadata %d", restart, got.LeaderEpoch, m.Topics[0].Partitions[0].LeaderEpoch)
			}
		}
		if before != nil && fmt.Sprint(m.Brokers) != fmt.Sprint(before.Brokers) {
			t.Errorf("restart %d: brokers %v, before %v", restart, m.Brokers, before.Brokers)
		}
		before = m
		brokertest.Stop(t, b)
	}
}

// 13: versions that name topics by id only: no id, one that never was, one that is
// no more; and ranges in which every client finds itself.
func TestTrap13TopicIDs(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	old := createTopic(t, c, "t", 1)
	deleteTopic(t, c, "t")
	id := createTopic(t, c, "t", 1)
	if id == old {
		t.Error("a topic made again has the id of the one before")
	}
	for _, tc := range []struct {
		id   [16]byte
		want int16
	}{{id, 0}, {old, kerr.UnknownTopicID.Code}, {[16]byte{}, kerr.UnknownTopicID.Code}, {[16]byte{9}, kerr.UnknownTopicID.Code}} {
		for version := int16(13); version <= 18; version++ {
			r := fetchFrom("", 0, 0)
			r.Topics[0].TopicID = tc.id
			if got := askAt[*kmsg.FetchResponse](t, c, version, r).Topics[0]; got.Partitions[0].ErrorCode != tc.want || got.TopicID != tc.id {
				t.Errorf("fetch version %d of %x: %+v", version, tc.id, got)
			}
		}
		r := produceTo("", 0, 1, batchOf(t, record.None, now(), "x"))
		r.Topics[0].TopicID = tc.id
		if got := askAt[*kmsg.ProduceResponse](t, c, 13, r).Topics[0]; got.Partitions[0].ErrorCode != tc.want || got.TopicID != tc.id {
			t.Errorf("produce to %x: %+v", tc.id, got)
		}
		if tc.id == ([16]byte{}) {
			continue
		}
		for version := int16(12); version <= 13; version++ {
			m := kmsg.NewPtrMetadataRequest()
			m.Topics = []kmsg.MetadataRequestTopic{{TopicID: tc.id}}
			if got := askAt[*kmsg.MetadataResponse](t, c, version, m).Topics[0]; got.ErrorCode != tc.want {
				t.Errorf("metadata version %d of %x: code %d", version, tc.id, got.ErrorCode)
			}
		}
	}
	ranges := map[int16][2]int16{}
	for _, k := range askAt[*kmsg.ApiVersionsResponse](t, c, 2, kmsg.NewPtrApiVersionsRequest()).ApiKeys {
		ranges[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	for key, want := range map[int16][2]int16{0: {0, 13}, 1: {4, 18}, 2: {1, 11}, 3: {0, 13}, 21: {0, 2}, 22: {0, 5}, 23: {2, 4}} {
		if ranges[key] != want {
			t.Errorf("key %d: versions %v, want %v", key, ranges[key], want)
		}
	}
}
