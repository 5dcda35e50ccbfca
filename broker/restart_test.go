package broker_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/offsets"
)

func TestRestartKeepsEverything(t *testing.T) {
	t.Parallel() // it waits for a group, or for kcat
	dir := t.TempDir()
	in := func(c *broker.Config) { c.Dir = dir }
	b := brokertest.Start(t, in)
	cluster := b.ClusterID()
	c := client(t, b)
	for i := range 100 {
		if err := c.ProduceSync(within(t), &kgo.Record{Topic: "kept", Value: fmt.Appendf(nil, "%d", i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	member := client(t, b, kgo.ConsumeTopics("kept"), kgo.ConsumerGroup("g"), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	got := member.PollRecords(within(t), 40).Records()
	for len(got) < 40 {
		got = append(got, member.PollRecords(within(t), 40-len(got)).Records()...)
	}
	if err := member.CommitRecords(within(t), got[39]); err != nil {
		t.Fatal(err)
	}
	member.Close()
	began := time.Now()
	brokertest.Stop(t, b)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("close took %v", took)
	}

	b = brokertest.Start(t, in)
	if b.ClusterID() != cluster {
		t.Errorf("cluster id %s, was %s", b.ClusterID(), cluster)
	}
	for i, r := range consume(t, b, "kept", 100) {
		if r.Offset != int64(i) || string(r.Value) != fmt.Sprint(i) {
			t.Fatalf("record %d: offset %d, %q", i, r.Offset, r.Value)
		}
	}
	rest := consume(t, b, "kept", 60, kgo.ConsumerGroup("g"))
	if rest[0].Offset != 40 {
		t.Errorf("the group goes on at %d", rest[0].Offset)
	}
	c = client(t, b)
	r, err := c.ProduceSync(within(t), &kgo.Record{Topic: "kept", Value: []byte("more")}).First()
	if err != nil || r.Offset != 100 {
		t.Errorf("appended at %d, %v", r.Offset, err)
	}
}

func TestSecondBrokerOnTheDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	b := brokertest.Start(t, func(c *broker.Config) { c.Dir = dir })
	if err := b.Ready(); err != nil {
		t.Fatal(err)
	}
	second, err := broker.Open(t.Context(), broker.Config{Dir: dir, Listen: "127.0.0.1:0"})
	if err == nil {
		brokertest.Stop(t, second)
		t.Fatal("two brokers share a directory")
	}
	if !strings.Contains(err.Error(), "lock") {
		t.Errorf("error %v", err)
	}
	third, err := broker.Open(t.Context(), broker.Config{Dir: t.TempDir(), Listen: b.Addr()})
	if err == nil {
		brokertest.Stop(t, third)
		t.Fatal("two brokers share a port")
	}
	if err := b.Ready(); err != nil {
		t.Errorf("the first broker: %v", err)
	}
}

func TestConfigIsJudged(t *testing.T) {
	cases := []struct {
		name   string
		config broker.Config
		want   string
	}{
		{"no directory", broker.Config{}, "no data directory"},
		{"no port", broker.Config{Dir: "x", Listen: "127.0.0.1"}, "listen address"},
		{"open to others", broker.Config{Dir: "x", Listen: "0.0.0.0:9092"}, "--insecure"},
		{"all addresses, none advertised", broker.Config{Dir: "x", Listen: "0.0.0.0:9092", Insecure: true}, "--advertise"},
		{"no host, none advertised", broker.Config{Dir: "x", Listen: ":9092", Insecure: true}, "--advertise"},
		{"advertised without a port", broker.Config{Dir: "x", Advertise: "host"}, "advertised address"},
		{"unknown default", broker.Config{Dir: "x", Defaults: map[string]string{"retention": "1"}}, "Unknown topic config"},
		{"bad default", broker.Config{Dir: "x", Defaults: map[string]string{"retention.ms": "week"}}, "Not a number"},
		{"bad partitions", broker.Config{Dir: "x", Defaults: map[string]string{"num.partitions": "0"}}, "num.partitions"},
		{"negative node", broker.Config{Dir: "x", NodeID: -3}, "negative"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b, err := broker.Open(t.Context(), c.config)
			if err == nil {
				brokertest.Stop(t, b)
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q, want %q in it", err, c.want)
			}
		})
	}
}

func TestAdvertisedAddress(t *testing.T) {
	b := brokertest.Start(t, func(c *broker.Config) { c.Listen, c.Advertise, c.Insecure = "0.0.0.0:0", "logs.example:4711", true })
	if b.Advertised() != "logs.example:4711" {
		t.Errorf("advertised %s", b.Advertised())
	}
	local := brokertest.Start(t, func(c *broker.Config) { c.Listen = "localhost:0" })
	host, _, err := net.SplitHostPort(local.Advertised())
	if err != nil || host != "localhost" {
		t.Errorf("advertised %s, %v", local.Advertised(), err)
	}
}

func TestNodeIDBelongsToTheDirectory(t *testing.T) {
	dir := t.TempDir()
	b := brokertest.Start(t, func(c *broker.Config) { c.Dir, c.NodeID = dir, 7 })
	brokertest.Stop(t, b)
	_, err := broker.Open(t.Context(), broker.Config{Dir: dir, Listen: "127.0.0.1:0", NodeID: 8})
	if err == nil || !strings.Contains(err.Error(), "node 7") {
		t.Errorf("error %v", err)
	}
}

func TestJournal(t *testing.T) {
	dir := t.TempDir()
	in := func(c *broker.Config) { c.Dir = dir }
	b := brokertest.Start(t, in)
	j, err := b.Journal(t.Context(), "__sawlog_jobs")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []struct{ key, value string }{{"a", "1"}, {"b", "2"}, {"a", "3"}} {
		if err := j.Append(t.Context(), []byte(e.key), []byte(e.value)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Append(t.Context(), []byte("b"), nil); err != nil {
		t.Fatal(err)
	}
	replay := func(j *broker.Journal) (got []string) {
		t.Helper()
		err := j.Replay(t.Context(), func(key, value []byte) error {
			if value == nil {
				got = append(got, "-"+string(key))
			} else {
				got = append(got, string(key)+string(value))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := "a1 b2 a3 -b"
	if got := strings.Join(replay(j), " "); got != want {
		t.Errorf("replayed %q", got)
	}
	brokertest.Stop(t, b)
	b = brokertest.Start(t, in)
	if err := j.Append(context.Background(), []byte("x"), nil); err == nil {
		t.Error("a journal of a closed broker took an entry")
	}
	if j, err = b.Journal(t.Context(), "__sawlog_jobs"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(replay(j), " "); got != want {
		t.Errorf("after the restart: %q", got)
	}
	if _, err := b.Journal(t.Context(), "mine"); err == nil {
		t.Error("a journal on a topic of a user's")
	}
	if l := b.JournalLeader("__sawlog_jobs"); !l.Here || l.Epoch != j.Epoch() || b.JournalLeader("mine").Node != offsets.NoBroker {
		t.Errorf("led by %+v in epoch %d", l, j.Epoch())
	}
	j.Close()
	if err := j.Append(t.Context(), []byte("x"), nil); err == nil {
		t.Error("a closed journal took an entry")
	}
}
