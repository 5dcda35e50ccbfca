package broker_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/brokertest"
	"sawlog/broker/wire"
)

// newTopicAsk asks for a topic, by numbers or by an assignment.
func newTopicAsk(name string, partitions int32, factor int16, assignment ...[]int32) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, factor
	for i, replicas := range assignment {
		t.ReplicaAssignment = append(t.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: int32(i), Replicas: replicas})
	}
	return t
}

// TestCreateTopicsAnswers: codes and words are Kafka 4.4's.
func TestCreateTopicsAnswers(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "a.b", 1)
	gap := newTopicAsk("x", -1, -1, []int32{1}, []int32{1})
	gap.ReplicaAssignment[1].Partition = 2
	null := newTopicAsk("x", 1, 1)
	null.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms"}}
	for _, tc := range []struct {
		ask     kmsg.CreateTopicsRequestTopic
		code    int16
		message string
	}{
		{newTopicAsk("a.b", 1, 1), 36, "Topic 'a.b' already exists."},
		{newTopicAsk("a_b", 1, 1), 17, "Topic 'a_b' collides with existing topic: a.b"},
		{newTopicAsk("", 1, 1), 17, "Topic name is invalid: the empty string is not allowed"},
		{newTopicAsk(".", 1, 1), 17, "Topic name is invalid: '.' is not allowed"},
		{newTopicAsk("a b", 1, 1), 17, "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"},
		{newTopicAsk(strings.Repeat("x", 250), 1, 1), 17, "Topic name is invalid: the length of '" + strings.Repeat("x", 250) + "' is longer than the max allowed length 249"},
		{newTopicAsk("x", 0, 1), 37, "Number of partitions was set to an invalid non-positive value."},
		{newTopicAsk("x", -2, 1), 37, "Number of partitions was set to an invalid non-positive value."},
		{newTopicAsk("x", 1, 0), 38, "Replication factor must be larger than 0, or -1 to use the default value."},
		{newTopicAsk("x", 1, 2), 38, "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because only 1 broker(s) are registered."},
		{newTopicAsk("x", 1, -1, []int32{1}), 42, "A manual partition assignment was specified, but numPartitions was not set to -1."},
		{newTopicAsk("x", 1, 1, []int32{1}), 42, "A manual partition assignment was specified, but replication factor was not set to -1."},
		{newTopicAsk("x", -1, -1, []int32{9}), 39, "The manual partition assignment includes broker 9, but no such broker is registered."},
		{newTopicAsk("x", -1, -1, []int32{1, 1}), 39, "The manual partition assignment includes the broker 1 more than once."},
		{newTopicAsk("x", -1, -1, []int32{}), 39, "The manual partition assignment includes an empty replica list."},
		{gap, 39, "partitions should be a consecutive 0-based integer sequence"},
		{null, 40, "Null value not supported for topic configs: retention.ms"},
		{newTopicAsk("__cluster_metadata", 1, 1), 42, "Creation of internal topic __cluster_metadata is prohibited."},
	} {
		for version := int16(2); version <= 7; version++ {
			r := kmsg.NewPtrCreateTopicsRequest()
			r.Topics = []kmsg.CreateTopicsRequestTopic{tc.ask}
			got := askAt[*kmsg.CreateTopicsResponse](t, c, version, r).Topics[0]
			if got.ErrorCode != tc.code || deref(got.ErrorMessage) != tc.message {
				t.Errorf("version %d: %+v: %d %s", version, tc.ask, got.ErrorCode, deref(got.ErrorMessage))
			}
			if version >= 5 && (got.NumPartitions != -1 || got.ReplicationFactor != -1 || len(got.Configs) != 0) {
				t.Errorf("version %d: refused, and yet %+v", version, got)
			}
		}
	}
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Topics = []kmsg.CreateTopicsRequestTopic{newTopicAsk("w", 1, 1), newTopicAsk("w", 1, 1), newTopicAsk("v", -1, -1, []int32{1}, []int32{1})}
	got := ask[*kmsg.CreateTopicsResponse](t, c, r).Topics
	if len(got) != 2 || got[0].ErrorCode != 42 || deref(got[0].ErrorMessage) != "Duplicate topic name." || got[1].ErrorCode != 0 || got[1].NumPartitions != 2 {
		t.Errorf("twice: %+v", got)
	}
	if got := topicNames(t, c); got != "a.b v" {
		t.Errorf("topics %q", got)
	}
}

func TestDeleteTopicsAnswers(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	ids := map[string][16]byte{}
	for _, name := range []string{"a", "b", "both", "d"} {
		ids[name] = createTopic(t, c, name, 1)
	}
	named := func(name string) kmsg.DeleteTopicsRequestTopic { return kmsg.DeleteTopicsRequestTopic{Topic: &name} }
	r := kmsg.NewPtrDeleteTopicsRequest()
	both := named("d")
	both.TopicID = ids["d"]
	r.Topics = []kmsg.DeleteTopicsRequestTopic{
		named("a"), named("twice"), named("twice"), named("absent"),
		{TopicID: ids["b"]},
		{TopicID: [16]byte{5}},
		{},
		both, named("both"),
		{TopicID: ids["both"]},
	}
	var answers []string
	for _, got := range ask[*kmsg.DeleteTopicsResponse](t, c, r).Topics {
		answers = append(answers, fmt.Sprint(deref(got.Topic), " ", got.TopicID == [16]byte{}, " ", got.ErrorCode, " ", deref(got.ErrorMessage)))
	}
	want := []string{
		"a false 0 <nil>",
		"twice true 42 Duplicate topic name.",
		"absent true 3 This server does not host this topic-partition.",
		"b false 0 <nil>",
		"<nil> false 100 This server does not host this topic ID.",
		"<nil> true 42 Neither topic name nor id were specified.",
		"d false 42 You may not specify both topic name and topic id.",
		"both false 42 The provided topic name maps to an ID that was already supplied.",
	}
	if !slices.Equal(answers, want) {
		t.Errorf("answers %q\nwant    %q", answers, want)
	}
	if got := topicNames(t, c); got != "both d" {
		t.Errorf("left: %q", got)
	}
}

func TestCreatePartitionsAnswers(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	for _, name := range []string{"a", "b", "c"} {
		createTopic(t, c, name, 2)
	}
	type assignment = []kmsg.CreatePartitionsRequestTopicAssignment
	for _, tc := range []struct {
		topic      string
		count      int32
		assignment assignment
		code       int16
		message    string
	}{
		{"a", 3, nil, 0, "<nil>"},
		{"b", 4, assignment{{Replicas: []int32{1}}, {Replicas: []int32{1}}}, 0, "<nil>"},
		{"c", 2, nil, 37, "Topic already has 2 partition(s)."},
		{"c", 1, nil, 37, "The topic c currently has 2 partition(s); 1 would not be an increase."},
		{"c", 4, assignment{{Replicas: []int32{1}}}, 39, "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."},
		{"c", 3, assignment{{Replicas: []int32{7}}}, 39, "The manual partition assignment includes broker 7, but no such broker is registered."},
		{"absent", 3, nil, 3, "<nil>"},
		{"__consumer_offsets", 60, nil, 42, "__consumer_offsets is the broker's own"},
	} {
		for _, dry := range []bool{true, false} {
			r := kmsg.NewPtrCreatePartitionsRequest()
			r.ValidateOnly = dry
			r.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: tc.topic, Count: tc.count, Assignment: tc.assignment}}
			got := ask[*kmsg.CreatePartitionsResponse](t, c, r).Topics[0]
			if got.ErrorCode != tc.code || deref(got.ErrorMessage) != tc.message {
				t.Errorf("%s to %d, dry %v: %d %s", tc.topic, tc.count, dry, got.ErrorCode, deref(got.ErrorMessage))
			}
		}
	}
	r := kmsg.NewPtrCreatePartitionsRequest()
	r.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "c", Count: 5}, {Topic: "c", Count: 6}}
	if got := ask[*kmsg.CreatePartitionsResponse](t, c, r).Topics; len(got) != 1 || got[0].ErrorCode != 42 || deref(got[0].ErrorMessage) != "Duplicate topic name." {
		t.Errorf("twice: %+v", got)
	}
}

// TestMetadataAsksOnce: a topic named twice is answered once, names that can't
// be are told from those that aren't, and ids count from version 12 on.
func TestMetadataAsksOnce(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	id := createTopic(t, c, "t", 1)
	metadata := func(c *wire.Conn, version int16, topics ...kmsg.MetadataRequestTopic) *kmsg.MetadataResponse {
		r := kmsg.NewPtrMetadataRequest()
		r.Topics = topics
		return askAt[*kmsg.MetadataResponse](t, c, version, r)
	}
	name := func(s string) kmsg.MetadataRequestTopic { return kmsg.MetadataRequestTopic{Topic: &s} }
	for version := int16(4); version <= 13; version++ {
		got := metadata(c, version, name("t"), name("absent"), name("t"), name("not a name"), name("__cluster_metadata")).Topics
		if len(got) != 4 || got[0].ErrorCode != 0 || got[1].ErrorCode != kerr.UnknownTopicOrPartition.Code || got[2].ErrorCode != kerr.InvalidTopicException.Code || got[3].ErrorCode != kerr.InvalidTopicException.Code {
			t.Errorf("version %d: %+v", version, got)
		}
	}
	for version := int16(10); version <= 13; version++ {
		m := metadata(c, version, kmsg.MetadataRequestTopic{TopicID: id, Topic: func() *string { s := ""; return &s }()})
		refused := m.Topics[0].ErrorCode == kerr.InvalidRequest.Code && len(m.Brokers) == 0 && m.ControllerID == -1
		if refused != (version < 12) {
			t.Errorf("version %d, by id: %+v", version, m)
		}
	}
}
