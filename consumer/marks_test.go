package consumer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/brokertest"
	"sawlog/offsets"
)

// TestMarksThroughHarm: what a job has marked as loaded, by the offsets of its
// group and by what the brokers are to keep, is there however the coordinator, the
// controller and other brokers end, and never goes back.
func TestMarksThroughHarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(5, 5))
		r := &ride{t: t, c: brokertest.NewCluster(t, 3)}
		r.c.StartAll()
		r.create()
		r.whole()
		k := r.reach("driver", "")
		defer k.Close()
		topics, _, err := Describe(t.Context(), k, []string{views.Topic}, "")
		if err != nil {
			t.Fatal(err)
		}
		const job = "hourly"
		if told, err := Commit(t.Context(), k, "sawlog."+job, topics, map[offsets.TopicPartition]offsets.Offset{views: 0}); err != nil || told[views] != nil {
			t.Fatal(told, err)
		}
		time.Sleep(10 * time.Second) // the offsets' own topic has replicas
		for at := offsets.Offset(1); at <= 24; at++ {
			n := r.c.Nodes[rnd.IntN(3)]
			if at%3 == 0 {
				n = r.c.Nodes[coordinator(t, k, "sawlog."+job)-1]
			}
			switch rnd.IntN(4) {
			case 0:
				n.Kill()
			case 1:
				n.PowerOff(rnd)
			case 2:
				n.Stop()
			case 3:
				r.c.Isolate(n, "driver")
			}
			marks := map[offsets.TopicPartition]offsets.Offset{views: at}
			if told, err := Commit(t.Context(), k, "sawlog."+job, topics, marks); err != nil || told[views] != nil {
				t.Errorf("commit %d: %v, %v", at, told, err)
			}
			if err := Hold(t.Context(), k, job, topics, marks, time.Hour); err != nil {
				t.Errorf("hold %d: %v", at, err)
			}
			have, err := Committed(t.Context(), k, "sawlog."+job, topics)
			if err != nil || have[views] != at {
				t.Errorf("committed %d, then it is %v: %v", at, have, err)
			}
			r.c.Fabric.Heal()
			if n.Broker == nil {
				n.Start()
			}
			r.c.Settle()
			r.whole()
			for _, n := range r.c.Nodes {
				if held := holdAt(t, n, job); held != fmt.Sprintf("0:%d,max.ms:3600000", at) {
					t.Errorf("node %d keeps records from %s for the job, marked was %d", n.ID, held, at)
				}
			}
			if have, err := Committed(t.Context(), k, "sawlog."+job, topics); err != nil || have[views] != at {
				t.Errorf("committed %d, later it is %v: %v", at, have, err)
			}
		}
	})
}

// coordinator is the broker of a group.
func coordinator(t *testing.T, k *KafkaCluster, group string) int32 {
	t.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
	m, err := k.Request(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return m.(*kmsg.FindCoordinatorResponse).Coordinators[0].NodeID
}

// holdAt is retention.hold of a job, as a node knows it.
func holdAt(t *testing.T, n *brokertest.Node, job string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	conn, err := n.Conn(ctx, "asker")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // it has answered
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: views.Topic, ConfigNames: []string{"retention.hold." + job}}}
	m, err := conn.Request(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range m.(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
		return deref(c.Value)
	}
	return ""
}
