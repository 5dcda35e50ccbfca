package broker_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

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
