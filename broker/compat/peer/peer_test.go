package peer

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Both brokers start, answer, keep a topic over both kinds of death, and say
// what they use.
func TestServersLive(t *testing.T) {
	for name, start := range map[string]func(testing.TB, Options) *Server{"Sawlog": Sawlog, "Kafka": Kafka} {
		t.Run(name, func(t *testing.T) {
			s := start(t, Options{Topics: map[string]string{"retention.ms": "123456789"}})
			addr := s.Addr
			conn, err := Dial(t.Context(), addr)
			if err != nil {
				t.Fatal(err)
			}
			create := kmsg.NewPtrCreateTopicsRequest()
			create.Version, create.TimeoutMillis = 7, 30_000
			create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "kept", NumPartitions: 3, ReplicationFactor: 1}}
			resp, err := conn.Ask(create, patience)
			if err != nil {
				t.Fatal(err)
			}
			if code := resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code != 0 {
				t.Fatalf("create: error %d", code)
			}
			first := s.PID
			s.Kill()
			s.Restart()
			s.Stop()
			s.Restart()
			if s.Addr != addr || s.PID == first {
				t.Errorf("restarted at %s as %d, was %s as %d", s.Addr, s.PID, addr, first)
			}
			if parts, retention := topic(t, s, "kept"); parts != 3 || retention != "123456789" {
				t.Errorf("after restarts: %d partitions, retention.ms %s", parts, retention)
			}
			u := s.Usage()
			for i := 0; u.CPU == 0 && i < 5000; i++ { // its unit is 10 ms
				topic(t, s, "kept")
				u = s.Usage()
			}
			if u.CPU <= 0 || u.RSS < 1<<20 || u.Anon <= 0 || u.Anon > u.RSS {
				t.Errorf("usage %+v", u)
			}
			t.Logf("%s: %+v", s.Name, u)
		})
	}
}

// topic is the partition count and retention of a topic.
func topic(t *testing.T, s *Server, name string) (int, string) {
	t.Helper()
	conn, err := Dial(t.Context(), s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // only read from
	meta := kmsg.NewPtrMetadataRequest()
	meta.Version = 8
	meta.Topics = []kmsg.MetadataRequestTopic{{Topic: new(name)}}
	m, err := conn.Ask(meta, patience)
	if err != nil {
		t.Fatal(err)
	}
	describe := kmsg.NewPtrDescribeConfigsRequest()
	describe.Version = 1
	describe.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name, ConfigNames: []string{"retention.ms"}}}
	d, err := conn.Ask(describe, patience)
	if err != nil {
		t.Fatal(err)
	}
	value := ""
	for _, c := range d.(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
		value = *c.Value
	}
	return len(m.(*kmsg.MetadataResponse).Topics[0].Partitions), value
}

// Three brokers of either kind come to know each other, and again after one was
// killed, one was stopped in its tracks and one was restarted.
func TestClustersLive(t *testing.T) {
	for name, start := range map[string]func(testing.TB, int, Options) *Cluster{"Sawlog": SawlogCluster, "Kafka": KafkaCluster} {
		t.Run(name, func(t *testing.T) {
			c := start(t, 3, Options{})
			c.Node(1).Kill()
			c.Node(1).Restart()
			c.Node(2).Restart()
			c.Node(3).Pause()
			conn, err := Dial(t.Context(), c.Node(3).Addr)
			if err == nil {
				_, err = conn.Ask(kmsg.NewPtrApiVersionsRequest(), 100*time.Millisecond)
				_ = conn.Close()
			}
			if err == nil {
				t.Error("a node answers that was stopped in its tracks")
			}
			c.Node(3).Resume()
			c.Await()
		})
	}
}
