package api

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/brokertest"
	"sawlog/consumer"
	"sawlog/consumer/admin"
)

// TestOverKafka asks a broker for all that the routes of the cluster tell.
func TestOverKafka(t *testing.T) {
	b := brokertest.Start(t, nil)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "keys", 2, 1
	topic.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "cleanup.policy", Value: new("compact,delete")}}
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), 5000
	if made, err := req.RequestWith(t.Context(), client); err != nil || made.Topics[0].ErrorCode != 0 {
		t.Fatalf("%+v %v", made, err)
	}
	for range 3 {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "keys", Partition: 1, Key: []byte("k"), Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	source := consumer.Config{Brokers: []string{b.Addr()}, ClientID: "api-test", Timeout: 10 * time.Second}
	cluster, err := consumer.Dial(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	keys, err := admin.Topics(t.Context(), cluster, "keys")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Commit(t.Context(), cluster, "g", &keys[0], map[int32]int64{1: 1}); err != nil {
		t.Fatal(err)
	}

	link := consumer.NewLink(source)
	t.Cleanup(func() { _ = link.Close() })
	c := OverKafka(link)
	info, err := c.Info(t.Context())
	if err != nil || info.ID == "" || info.Controller != 1 || len(info.Brokers) != 1 || info.Brokers[0].Addr != b.Addr() {
		t.Errorf("cluster %+v %v", info, err)
	}
	topics, err := c.Topics(t.Context())
	if err != nil || len(topics) != 1 {
		t.Fatalf("topics %+v %v", topics, err)
	}
	got := topics[0]
	if p := got.Partitions[1]; got.Name != "keys" || !got.Compact || got.Records != 3 || got.Bytes <= 0 || p.HighWatermark != 3 || p.LastStable != 3 || p.LogStart != 0 || p.Leader != 1 || len(p.ISR) != 1 || p.Bytes <= 0 {
		t.Errorf("topic %+v", got)
	}
	groups, err := c.Groups(t.Context(), false)
	if err != nil || len(groups) != 1 || groups[0].Lag != -1 {
		t.Errorf("groups %+v %v", groups, err)
	}
	groups, err = c.Groups(t.Context(), true)
	if err != nil || len(groups) != 1 || groups[0].Lag != 2 || groups[0].State != "Empty" || len(groups[0].Offsets) != 1 || groups[0].Offsets[0] != (GroupOffset{"keys", 1, 1, 3, 2}) {
		t.Errorf("groups with offsets %+v %v", groups, err)
	}
}
