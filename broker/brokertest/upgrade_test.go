package brokertest_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/offsets"
)

// TestRollingUpgrade: three brokers of a release are replaced one by one by the
// next, while records are written. Until all are, what that one brought and the
// raise of the format level are refused; then both are done, and a broker of the
// older release doesn't start any more.
func TestRollingUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokertest.NewCluster(t, 3)
		older := map[offsets.BrokerID]bool{1: true, 2: true, 3: true}
		c.Change = func(b *broker.Config) {
			if older[b.NodeID] {
				b.FormatLevel = 1
			}
		}
		c.StartAll()
		cl := c.Client("client", kgo.DefaultProduceTopic("t"))
		defer cl.Close()
		create(t, cl, "t", 1, 3, "min.insync.replicas", "2")
		for _, n := range []*brokertest.Node{c.Nodes[2], c.Nodes[1], c.Nodes[0]} {
			if code := moveTo(t, cl, 1, 2); code != kerr.UnsupportedVersion.Code {
				t.Errorf("a reassignment is answered %d", code)
			}
			if code, text := raise(t, cl, 2); code != kerr.InvalidUpdateVersion.Code || !strings.Contains(text, "only supports versions 1-1") {
				t.Errorf("a raise is answered %d %s", code, text)
			}
			n.Stop()
			delete(older, n.ID)
			n.Start()
			c.Settle()
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Value: []byte(n.Host)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if code, text := raise(t, cl, 2); code != 0 {
			t.Fatalf("all are new, and a raise is answered %d %s", code, text)
		}
		if code := moveTo(t, cl, 1, 2); code != 0 {
			t.Errorf("at the new level a reassignment is answered %d", code)
		}
		n := c.Nodes[2]
		n.Stop()
		older[n.ID] = true
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := n.Open(ctx); err == nil || !strings.Contains(err.Error(), "The cluster is at format level 2, this build knows 1 to 1") {
			t.Errorf("a broker of the older release starts: %v", err)
		}
		delete(older, n.ID)
		n.Start()
		c.Settle()
	})
}

// moveTo moves the partition of topic t, and returns the code of the answer.
func moveTo(t *testing.T, cl *kgo.Client, replicas ...int32) int16 {
	t.Helper()
	r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	r.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "t", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: replicas}}}}
	m, err := r.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	return m.Topics[0].Partitions[0].ErrorCode
}

// raise asks for a format level.
func raise(t *testing.T, cl *kgo.Client, level int16) (code int16, text string) {
	t.Helper()
	r := kmsg.NewPtrUpdateFeaturesRequest()
	r.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: "sawlog.format.level", MaxVersionLevel: level, UpgradeType: 1}}
	m, err := r.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	if m.ErrorMessage != nil {
		text = *m.ErrorMessage
	}
	return m.ErrorCode, text
}
