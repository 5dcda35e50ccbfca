package broker_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/record"
	"sawlog/broker/wire"
)

// deleteTo deletes the records below an offset.
func deleteTo(t testing.TB, c *wire.Conn, topic string, to int64) kmsg.DeleteRecordsResponseTopicPartition {
	t.Helper()
	r := kmsg.NewPtrDeleteRecordsRequest()
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Offset = to
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	return ask[*kmsg.DeleteRecordsResponse](t, c, r).Topics[0].Partitions[0]
}

// deleteTopic deletes a topic by its name.
func deleteTopic(t testing.TB, c *wire.Conn, name string) {
	t.Helper()
	if got := tryDelete(t, c, kmsg.DeleteTopicsRequestTopic{Topic: &name}); got.ErrorCode != 0 {
		t.Fatalf("delete %s: code %d %s", name, got.ErrorCode, deref(got.ErrorMessage))
	}
}

func tryDelete(t testing.TB, c *wire.Conn, which kmsg.DeleteTopicsRequestTopic) kmsg.DeleteTopicsResponseTopic {
	t.Helper()
	r := kmsg.NewPtrDeleteTopicsRequest()
	r.Topics = append(r.Topics, which)
	return ask[*kmsg.DeleteTopicsResponse](t, c, r).Topics[0]
}

func TestCreateTopics(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	id := createTopic(t, c, "first", 3, "retention.ms", "1000")
	if id == ([16]byte{}) {
		t.Error("no topic id")
	}
	cases := []struct {
		name       string
		topic      string
		partitions int32
		configs    []string
		want       *kerr.Error
	}{
		{"again", "first", 1, nil, kerr.TopicAlreadyExists},
		{"empty name", "", 1, nil, kerr.InvalidTopicException},
		{"dots", "..", 1, nil, kerr.InvalidTopicException},
		{"path", "a/../b", 1, nil, kerr.InvalidTopicException},
		{"long name", strings.Repeat("x", 250), 1, nil, kerr.InvalidTopicException},
		{"no partitions", "x", 0, nil, kerr.InvalidPartitions},
		{"unknown config", "x", 1, []string{"retention.hours", "1"}, kerr.InvalidConfig},
		{"bad value", "x", 1, []string{"retention.ms", "soon"}, kerr.InvalidConfig},
		{"bad hold", "x", 1, []string{"retention.hold.job", "0"}, kerr.InvalidConfig},
		{"bad age of a hold", "x", 1, []string{"retention.hold.job", "0:1,max.ms:-1"}, kerr.InvalidConfig},
		{"internal", "__consumer_offsets", 1, nil, kerr.InvalidRequest},
	}
	for _, tc := range cases {
		if got := tryCreate(t, c, tc.topic, tc.partitions, tc.configs...); got.ErrorCode != tc.want.Code {
			t.Errorf("%s: code %d %s, want %s", tc.name, got.ErrorCode, deref(got.ErrorMessage), tc.want.Message)
		}
	}
	twice := kmsg.NewPtrCreateTopicsRequest()
	for range 2 {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = "twice", 1, 1
		twice.Topics = append(twice.Topics, rt)
	}
	if got := ask[*kmsg.CreateTopicsResponse](t, c, twice); len(got.Topics) != 1 || got.Topics[0].ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("twice in a request: %+v", got.Topics)
	}
	dry := kmsg.NewPtrCreateTopicsRequest()
	dry.ValidateOnly = true
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = "dry", 4, -1
	dry.Topics = append(dry.Topics, rt)
	if got := ask[*kmsg.CreateTopicsResponse](t, c, dry).Topics[0]; got.ErrorCode != 0 || got.NumPartitions != 4 {
		t.Errorf("validate only: %+v", got)
	}
	if got := topicNames(t, c); got != "first" {
		t.Errorf("topics %q", got)
	}
}

// topicNames lists the topics, a space between.
func topicNames(t testing.TB, c *wire.Conn) string {
	t.Helper()
	var names []string
	for _, topic := range ask[*kmsg.MetadataResponse](t, c, kmsg.NewPtrMetadataRequest()).Topics {
		names = append(names, *topic.Topic)
	}
	return strings.Join(names, " ")
}

func TestMetadata(t *testing.T) {
	b := brokertest.Start(t, nil)
	c := wireClient(t, b)
	id := createTopic(t, c, "known", 2)
	metadata := func(version int16, create bool, topics ...kmsg.MetadataRequestTopic) *kmsg.MetadataResponse {
		r := kmsg.NewPtrMetadataRequest()
		r.AllowAutoTopicCreation = create
		r.Topics = topics
		return askAt[*kmsg.MetadataResponse](t, c, version, r)
	}
	name := func(s string) kmsg.MetadataRequestTopic { return kmsg.MetadataRequestTopic{Topic: &s} }

	m := metadata(13, false, name("known"))
	got := m.Topics[0]
	if got.ErrorCode != 0 || got.TopicID != id || len(got.Partitions) != 2 || got.Partitions[1].Leader != 1 || got.Partitions[1].ISR[0] != 1 || got.Partitions[0].LeaderEpoch < 0 {
		t.Errorf("known: %+v", got)
	}
	host, port, err := net.SplitHostPort(b.Addr())
	if err != nil || len(m.Brokers) != 1 || m.Brokers[0].Host != host || fmt.Sprint(m.Brokers[0].Port) != port || *m.ClusterID != b.ClusterID() || m.ControllerID != 1 {
		t.Errorf("brokers %+v, cluster %s, controller %d", m.Brokers, *m.ClusterID, m.ControllerID)
	}
	if got := metadata(12, false, kmsg.MetadataRequestTopic{TopicID: id}).Topics[0]; got.ErrorCode != 0 || *got.Topic != "known" {
		t.Errorf("by id: %+v", got)
	}
	if got := metadata(12, false, kmsg.MetadataRequestTopic{TopicID: [16]byte{1}}).Topics[0]; got.ErrorCode != kerr.UnknownTopicID.Code {
		t.Errorf("unknown id: code %d", got.ErrorCode)
	}
	if got := metadata(9, false, name("absent")).Topics[0]; got.ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("absent: code %d", got.ErrorCode)
	}
	if got := metadata(9, true, name("made")).Topics[0]; got.ErrorCode != 0 || len(got.Partitions) != 1 {
		t.Errorf("made on first use: %+v", got)
	}
	if got := metadata(1, false, name("old")).Topics[0]; got.ErrorCode != 0 {
		t.Errorf("made for an old client: code %d", got.ErrorCode)
	}
	if got := metadata(9, true, name("not/a/name")).Topics[0]; got.ErrorCode != kerr.InvalidTopicException.Code {
		t.Errorf("bad name: code %d", got.ErrorCode)
	}
	if got := metadata(1, false); len(got.Topics) != 3 { // null is all
		t.Errorf("all: %d topics", len(got.Topics))
	}
	none := kmsg.NewPtrMetadataRequest()
	none.Topics = []kmsg.MetadataRequestTopic{}
	if got := askAt[*kmsg.MetadataResponse](t, c, 1, none); len(got.Topics) != 0 {
		t.Errorf("none: %d topics", len(got.Topics))
	}
	if got := askAt[*kmsg.MetadataResponse](t, c, 0, none); len(got.Topics) != 3 {
		t.Errorf("version 0, empty: %d topics", len(got.Topics))
	}
}

func TestAutoCreationCanBeForbidden(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, func(c *broker.Config) {
		c.Defaults = map[string]string{"auto.create.topics.enable": "false", "num.partitions": "5"}
	}))
	r := kmsg.NewPtrMetadataRequest()
	r.AllowAutoTopicCreation = true
	name := "x"
	r.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	if got := ask[*kmsg.MetadataResponse](t, c, r).Topics[0]; got.ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("code %d", got.ErrorCode)
	}
	if got := tryCreate(t, c, "x", -1); got.ErrorCode != 0 || got.NumPartitions != 5 || got.ReplicationFactor != 1 {
		t.Errorf("created %+v", got)
	}
}

func TestRecreatedTopicIsAnotherOne(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	first := createTopic(t, c, "again", 1)
	if got := put(t, c, "again", batchOf(t, record.None, now(), "old")); got.ErrorCode != 0 {
		t.Fatal(got.ErrorCode)
	}
	if got := tryDelete(t, c, kmsg.DeleteTopicsRequestTopic{TopicID: first}); got.ErrorCode != 0 || *got.Topic != "again" {
		t.Fatalf("delete by id: %+v", got)
	}
	second := createTopic(t, c, "again", 1)
	if first == second {
		t.Error("the new topic has the old one's id")
	}
	if end := listed(t, c, "again", -1); end.Offset != 0 {
		t.Errorf("the new topic begins with %d records", end.Offset)
	}
	for id, want := range map[[16]byte]int16{first: kerr.UnknownTopicID.Code, second: 0} {
		r := produceTo("", 0, 1, batchOf(t, record.None, now(), "x"))
		r.Topics[0].TopicID = id
		if got := askAt[*kmsg.ProduceResponse](t, c, 13, r).Topics[0]; got.Partitions[0].ErrorCode != want || got.TopicID != id {
			t.Errorf("produce to %x: %+v", id, got)
		}
		f := fetchFrom("", 0, 0)
		f.Topics[0].TopicID = id
		if got := askAt[*kmsg.FetchResponse](t, c, 18, f).Topics[0]; got.Partitions[0].ErrorCode != want || got.TopicID != id {
			t.Errorf("fetch of %x: code %d", id, got.Partitions[0].ErrorCode)
		}
	}
	if got := tryDelete(t, c, kmsg.DeleteTopicsRequestTopic{TopicID: first}); got.ErrorCode != kerr.UnknownTopicID.Code {
		t.Errorf("delete of the old id: code %d", got.ErrorCode)
	}
	absent := "absent"
	if got := tryDelete(t, c, kmsg.DeleteTopicsRequestTopic{Topic: &absent}); got.ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("delete of nothing: code %d", got.ErrorCode)
	}
}

func TestCreatePartitions(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "grows", 1)
	grow := func(topic string, count int32) kmsg.CreatePartitionsResponseTopic {
		r := kmsg.NewPtrCreatePartitionsRequest()
		rt := kmsg.NewCreatePartitionsRequestTopic()
		rt.Topic, rt.Count = topic, count
		r.Topics = append(r.Topics, rt)
		return ask[*kmsg.CreatePartitionsResponse](t, c, r).Topics[0]
	}
	if got := grow("grows", 4); got.ErrorCode != 0 {
		t.Fatalf("grow: %+v", got)
	}
	r := produceTo("grows", 3, -1, batchOf(t, record.None, now(), "x"))
	if got := askAt[*kmsg.ProduceResponse](t, c, 9, r).Topics[0].Partitions[0]; got.ErrorCode != 0 {
		t.Errorf("produce to the new partition: code %d", got.ErrorCode)
	}
	if got := grow("grows", 2); got.ErrorCode != kerr.InvalidPartitions.Code {
		t.Errorf("shrink: code %d", got.ErrorCode)
	}
	if got := grow("absent", 2); got.ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("absent: code %d", got.ErrorCode)
	}
}

// described reads the configurations of a resource.
func described(t testing.TB, c *wire.Conn, kind kmsg.ConfigResourceType, name string) (map[string]kmsg.DescribeConfigsResponseResourceConfig, int16) {
	t.Helper()
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.IncludeSynonyms, r.IncludeDocumentation = true, true
	r.Resources = append(r.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kind, ResourceName: name})
	got := ask[*kmsg.DescribeConfigsResponse](t, c, r).Resources[0]
	all := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, s := range got.Configs {
		all[s.Name] = s
	}
	return all, got.ErrorCode
}

// altered changes one configuration of a topic.
func altered(t testing.TB, c *wire.Conn, topic, name string, op kmsg.IncrementalAlterConfigOp, value string) int16 {
	t.Helper()
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.Resources = append(r.Resources, kmsg.IncrementalAlterConfigsRequestResource{
		ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Op: op, Value: &value}},
	})
	return ask[*kmsg.IncrementalAlterConfigsResponse](t, c, r).Resources[0].ErrorCode
}

func TestTopicConfigs(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, func(c *broker.Config) { c.Defaults = map[string]string{"segment.bytes": "1000000"} }))
	createTopic(t, c, "c", 1, "retention.ms", "5000")
	all, code := described(t, c, kmsg.ConfigResourceTypeTopic, "c")
	if code != 0 || len(all) < 20 {
		t.Fatalf("code %d, %d configurations", code, len(all))
	}
	for name, want := range map[string]struct {
		value  string
		source kmsg.ConfigSource
		kind   kmsg.ConfigType
	}{
		"retention.ms":        {"5000", kmsg.ConfigSourceDynamicTopicConfig, kmsg.ConfigTypeLong},
		"segment.bytes":       {"1000000", kmsg.ConfigSourceStaticBrokerConfig, kmsg.ConfigTypeInt},
		"cleanup.policy":      {"delete", kmsg.ConfigSourceDefaultConfig, kmsg.ConfigTypeList},
		"min.insync.replicas": {"1", kmsg.ConfigSourceDefaultConfig, kmsg.ConfigTypeInt},
		"flush.ms":            {"1000", kmsg.ConfigSourceDefaultConfig, kmsg.ConfigTypeLong},
	} {
		s := all[name]
		if deref(s.Value) != want.value || s.Source != want.source || s.ConfigType != want.kind || deref(s.Documentation) == "<nil>" {
			t.Errorf("%s: %s from %v as %v", name, deref(s.Value), s.Source, s.ConfigType)
		}
		if len(s.ConfigSynonyms) == 0 || deref(s.ConfigSynonyms[0].Value) != want.value || s.ConfigSynonyms[0].Source != want.source {
			t.Errorf("%s: synonyms %+v", name, s.ConfigSynonyms)
		}
	}
	for _, step := range []struct {
		name  string
		op    kmsg.IncrementalAlterConfigOp
		value string
		code  int16
		want  string
	}{
		{"retention.ms", kmsg.IncrementalAlterConfigOpSet, "7000", 0, "7000"},
		{"retention.ms", kmsg.IncrementalAlterConfigOpSet, "-2", kerr.InvalidConfig.Code, "7000"},
		{"retention.ms", kmsg.IncrementalAlterConfigOpAppend, "1", kerr.InvalidConfig.Code, "7000"},
		{"retention.ms", kmsg.IncrementalAlterConfigOpDelete, "", 0, "604800000"},
		{"cleanup.policy", kmsg.IncrementalAlterConfigOpAppend, "compact", 0, "delete,compact"},
		{"cleanup.policy", kmsg.IncrementalAlterConfigOpSubtract, "delete", 0, "compact"},
		{"retention.hold.job", kmsg.IncrementalAlterConfigOpSet, "0:12", 0, "0:12"},
		{"nonsense", kmsg.IncrementalAlterConfigOpSet, "1", kerr.InvalidConfig.Code, "<nil>"},
	} {
		if got := altered(t, c, "c", step.name, step.op, step.value); got != step.code {
			t.Errorf("%v %s %s: code %d", step.op, step.name, step.value, got)
		}
		all, _ := described(t, c, kmsg.ConfigResourceTypeTopic, "c")
		if got := deref(all[step.name].Value); got != step.want {
			t.Errorf("%v %s %s: now %s, want %s", step.op, step.name, step.value, got, step.want)
		}
	}
	if got := altered(t, c, "absent", "retention.ms", kmsg.IncrementalAlterConfigOpSet, "1"); got != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("absent topic: code %d", got)
	}
	// The topic is compacted now, and its configurations act at once.
	w := record.NewBuilder(record.None, 0)
	w.Append(record.Record{Timestamp: now(), Value: []byte("without a key")})
	batch, err := w.Batch()
	if err != nil {
		t.Fatal(err)
	}
	if got := put(t, c, "c", batch); got.ErrorCode != kerr.InvalidRecord.Code {
		t.Errorf("a record without a key: code %d", got.ErrorCode)
	}
	if got := deleteTo(t, c, "c", -1); got.ErrorCode != kerr.PolicyViolation.Code {
		t.Errorf("delete records of a compacted topic: code %d", got.ErrorCode)
	}
	// AlterConfigs replaces all.
	value := "9"
	r := kmsg.NewPtrAlterConfigsRequest()
	r.Resources = append(r.Resources, kmsg.AlterConfigsRequestResource{
		ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "c",
		Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "segment.ms", Value: &value}},
	})
	if got := ask[*kmsg.AlterConfigsResponse](t, c, r).Resources[0]; got.ErrorCode != 0 {
		t.Fatalf("alter: %+v", got)
	}
	all, _ = described(t, c, kmsg.ConfigResourceTypeTopic, "c")
	if deref(all["segment.ms"].Value) != "9" || deref(all["cleanup.policy"].Value) != "delete" {
		t.Errorf("after replacing: segment.ms %s, cleanup.policy %s", deref(all["segment.ms"].Value), deref(all["cleanup.policy"].Value))
	}
}

func TestBrokerConfigs(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "c", 1)
	all, code := described(t, c, kmsg.ConfigResourceTypeBroker, "1")
	if code != 0 || deref(all["node.id"].Value) != "1" || !all["node.id"].ReadOnly || deref(all["log.retention.ms"].Value) != "604800000" {
		t.Errorf("code %d, node.id %+v, log.retention.ms %s", code, all["node.id"], deref(all["log.retention.ms"].Value))
	}
	if _, code := described(t, c, kmsg.ConfigResourceTypeBroker, "2"); code != kerr.InvalidRequest.Code {
		t.Errorf("another broker's: code %d", code)
	}
	value := "60000"
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.Resources = append(r.Resources, kmsg.IncrementalAlterConfigsRequestResource{
		ResourceType: kmsg.ConfigResourceTypeBroker,
		Configs:      []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "log.retention.ms", Value: &value}},
	})
	if got := ask[*kmsg.IncrementalAlterConfigsResponse](t, c, r).Resources[0]; got.ErrorCode != 0 {
		t.Fatalf("alter: %d %s", got.ErrorCode, deref(got.ErrorMessage))
	}
	all, _ = described(t, c, kmsg.ConfigResourceTypeTopic, "c")
	if s := all["retention.ms"]; deref(s.Value) != value || s.Source != kmsg.ConfigSourceDynamicDefaultBrokerConfig {
		t.Errorf("the topic has %s from %v", deref(s.Value), s.Source)
	}
}

func TestDescribeClusterAndDirs(t *testing.T) {
	b := brokertest.Start(t, func(c *broker.Config) { c.Rack = "r1" })
	c := wireClient(t, b)
	createTopic(t, c, "sized", 2)
	if got := put(t, c, "sized", batchOf(t, record.None, now(), "x")); got.ErrorCode != 0 {
		t.Fatal(got.ErrorCode)
	}
	cluster := ask[*kmsg.DescribeClusterResponse](t, c, &kmsg.DescribeClusterRequest{EndpointType: 1})
	if cluster.ErrorCode != 0 || cluster.ClusterID != b.ClusterID() || len(cluster.Brokers) != 1 || deref(cluster.Brokers[0].Rack) != "r1" {
		t.Errorf("cluster %+v", cluster)
	}
	if got := ask[*kmsg.DescribeClusterResponse](t, c, &kmsg.DescribeClusterRequest{EndpointType: 2}); got.ErrorCode != kerr.MismatchedEndpointType.Code {
		t.Errorf("controllers: code %d", got.ErrorCode)
	}
	dirs := ask[*kmsg.DescribeLogDirsResponse](t, c, kmsg.NewPtrDescribeLogDirsRequest()).Dirs
	if len(dirs) != 1 || len(dirs[0].Topics) != 1 || len(dirs[0].Topics[0].Partitions) != 2 || dirs[0].Topics[0].Partitions[0].Size == 0 || dirs[0].TotalBytes <= 0 {
		t.Errorf("dirs %+v", dirs)
	}
	page := kmsg.NewPtrDescribeTopicPartitionsRequest()
	page.ResponsePartitionLimit = 1
	first := ask[*kmsg.DescribeTopicPartitionsResponse](t, c, page)
	if len(first.Topics) != 1 || len(first.Topics[0].Partitions) != 1 || first.NextCursor == nil || first.NextCursor.Partition != 1 {
		t.Fatalf("first page %+v", first)
	}
	page.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: first.NextCursor.Topic, Partition: first.NextCursor.Partition}
	second := ask[*kmsg.DescribeTopicPartitionsResponse](t, c, page)
	if len(second.Topics) != 1 || len(second.Topics[0].Partitions) != 1 || second.Topics[0].Partitions[0].Partition != 1 || second.NextCursor != nil {
		t.Errorf("second page %+v", second)
	}
}

func TestTransactionsAreRefused(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "t", 1)
	id := "txn"
	init := kmsg.NewPtrInitProducerIDRequest()
	init.TransactionalID = &id
	if got := ask[*kmsg.InitProducerIDResponse](t, c, init); got.ErrorCode != kerr.TransactionalIDAuthorizationFailed.Code {
		t.Errorf("InitProducerId: code %d", got.ErrorCode)
	}
	r := produceTo("t", 0, -1, batchOf(t, record.None, now(), "x"))
	r.TransactionID = &id
	if got := askAt[*kmsg.ProduceResponse](t, c, 9, r).Topics[0].Partitions[0]; got.ErrorCode != kerr.TransactionalIDAuthorizationFailed.Code {
		t.Errorf("Produce: code %d", got.ErrorCode)
	}
	// The way to the refusal, and to DescribeTransactions, is open.
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorType, find.CoordinatorKeys = 1, []string{id}
	if got := ask[*kmsg.FindCoordinatorResponse](t, c, find).Coordinators[0]; got.ErrorCode != 0 || got.NodeID != 1 {
		t.Errorf("FindCoordinator: %+v", got)
	}
}
