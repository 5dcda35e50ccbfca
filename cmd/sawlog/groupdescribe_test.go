package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestGroupDescribeShowsWhoReadsWhat: members with what they were given, every
// partition with its reader and lag, also where nothing is committed yet.
func TestGroupDescribeShowsWhoReadsWhat(t *testing.T) {
	n := startNode(t)
	n.run("topic", "create", "shared", "--partitions", "2")
	var records []*kgo.Record
	for i := range 6 {
		records = append(records, &kgo.Record{Topic: "shared", Partition: int32(i % 2), Value: fmt.Append(nil, "line ", i)})
	}
	n.send([]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner())}, records...)
	client := n.client(kgo.ConsumeTopics("shared"), kgo.ConsumerGroup("watchers"), kgo.InstanceID("window"), kgo.ClientID("eye"),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	read := 0
	for read < 6 {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		read += fetches.NumRecords()
	}
	if err := client.CommitRecords(t.Context(), records[0]); err != nil { // offset 0 of partition 0
		t.Fatal(err)
	}
	var got groupDescription
	n.eventually("the group is stable", patience, func() bool {
		if err := json.Unmarshal(n.run("group", "describe", "watchers", "-o", "json"), &got); err != nil {
			t.Fatal(err)
		}
		return got.State == "Stable"
	})
	if len(got.Members) != 1 || got.Coordinator != 1 || got.Type != "classic" || got.Assignor == "" {
		t.Fatalf("described: %+v", got)
	}
	m := got.Members[0]
	if m.Instance != "window" || m.Client != "eye" || m.Host != "/127.0.0.1" || !slices.Equal(m.Assignment, []memberPartition{{"shared", 0}, {"shared", 1}}) {
		t.Errorf("member %+v", m)
	}
	if len(got.Positions) != 2 {
		t.Fatalf("positions %+v", got.Positions)
	}
	if p := got.Positions[0]; p.Committed != 1 || p.Lag == nil || *p.Lag != 2 || p.Member != m.ID || p.Client != "eye" {
		t.Errorf("partition 0: %+v", p)
	}
	if p := got.Positions[1]; p.Committed != -1 || p.Lag != nil || p.End != 3 || p.Member != m.ID {
		t.Errorf("partition 1: %+v", p)
	}
	table := string(n.run("group", "describe", "watchers"))
	for _, want := range []string{"window", m.ID, "2 partitions", "COMMITTED"} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is not in\n%s", want, table)
		}
	}
	if table := string(n.run("group", "list")); !strings.Contains(table, "classic") || !strings.Contains(table, "Stable") {
		t.Errorf("listed:\n%s", table)
	}
	client.Close()
}
