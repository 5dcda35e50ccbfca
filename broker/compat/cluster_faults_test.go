package compat_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/compat"
	"sawlog/broker/compat/peer"
)

// stormLimit is how long a client may take to be through with what is there.
const stormLimit = 3 * time.Minute

// storm is one family at work: a producer, members of a group, and somebody who
// asks where the group stands.
type storm struct {
	program      stormProgram
	topic, group string
	producer     *stormClient
	members      []*stormClient
	watched      []fetched
}

// TestClusterStorm has Java's client and both generations of librdkafka work
// through what brokers come to: every acknowledged record is there once, in the
// order of its key, the group reads all of them, and its offsets never go back.
func TestClusterStorm(t *testing.T) {
	programs := stormPrograms(t)
	c := trio(t)
	var all []*storm
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, p := range programs {
		s := &storm{program: p, topic: "storm-" + p.name, group: groupBeside(p.name)}
		createStormTopic(t, c, s.topic)
		s.producer = startStorm(t, p.name+" producer", p.produce(t, c.Addr(), s.topic))
		s.join(t, c)
		if p.feed {
			wg.Go(func() { s.producer.feed(stop) })
		}
		wg.Go(func() { s.watched = watchOffsets(c, s.group, s.topic, stop) })
		all = append(all, s)
	}
	for _, s := range all {
		s.goesOn(t, c, "the start", time.Now())
	}
	for _, f := range stormFaults {
		began := time.Now()
		f.strike(t, c, all)
		if err := c.InSync(stormLimit); err != nil {
			t.Error(err)
		}
		for _, s := range all {
			s.goesOn(t, c, f.name, began)
		}
		t.Logf("%s: %s until all went on", f.name, time.Since(began).Round(100*time.Millisecond))
	}
	close(stop)
	wg.Wait()
	for _, s := range all {
		s.producer.end(false)
	}
	for _, s := range all {
		s.judge(t, c)
	}
}

// join starts another member of the group.
func (s *storm) join(t *testing.T, c *peer.Cluster) {
	t.Helper()
	name := fmt.Sprintf("%s member %d", s.program.name, len(s.members)+1)
	s.members = append(s.members, startStorm(t, name, s.program.consume(t, c.Addr(), s.topic, s.group)))
}

// stormFaults are what happens, one after the other.
var stormFaults = []struct {
	name   string
	strike func(t *testing.T, c *peer.Cluster, all []*storm)
}{
	{"SIGKILL of a leader", func(t *testing.T, c *peer.Cluster, all []*storm) {
		s := c.Node(leaderOf(t, c, all[0].topic))
		s.Kill()
		time.Sleep(2 * time.Second) // clients go on without it
		s.Restart()
	}},
	{"SIGKILL of the coordinator", func(t *testing.T, c *peer.Cluster, all []*storm) {
		id, err := coordinatorOf(c, all[0].group)
		if err != nil {
			t.Fatal(err)
		}
		s := c.Node(id)
		s.Kill()
		time.Sleep(2 * time.Second) // clients go on without it
		s.Restart()
	}},
	{"SIGSTOP of a leader for 5 s", func(t *testing.T, c *peer.Cluster, all []*storm) {
		s := c.Node(leaderOf(t, c, all[0].topic))
		s.Pause()
		time.Sleep(5 * time.Second) // clients go on without it
		s.Resume()
	}},
	{"rolling restart, with members who come", func(t *testing.T, c *peer.Cluster, all []*storm) {
		for _, s := range all {
			s.join(t, c)
		}
		for _, s := range c.Nodes {
			s.Restart()
			if err := c.InSync(stormLimit); err != nil {
				t.Error(err)
			}
		}
	}},
}

// revive replaces members that read nothing any more, as their user would.
func (s *storm) revive(t *testing.T, c *peer.Cluster) {
	t.Helper()
	for _, m := range s.members {
		if !m.stuck && m.forgotten() {
			m.stuck = true
			_ = m.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			s.join(t, c)
		}
	}
}

// goesOn waits until the producer has sent and the group has read something that
// was sent after a moment.
func (s *storm) goesOn(t *testing.T, c *peer.Cluster, what string, after time.Time) {
	t.Helper()
	limit := time.Now().Add(stormLimit)
	for {
		first := slices.IndexFunc(s.producer.all("sent"), func(l stormLine) bool { return l.at.After(after) })
		if first >= 0 && s.hasRead(s.producer.all("sent")[first:]) {
			return
		}
		s.revive(t, c)
		if time.Now().After(limit) {
			t.Fatalf("%s: after %s nothing goes on: sent %d, read %d; the members said:%s", s.program.name, what, len(s.producer.all("sent")), len(s.got()), s.said())
		}
		time.Sleep(50 * time.Millisecond) // any of several processes may be the next to speak
	}
}

// hasRead says whether a member has got any of these.
func (s *storm) hasRead(sent []stormLine) bool {
	fresh := map[int64]bool{}
	for _, l := range sent {
		fresh[l.sequence] = true
	}
	return slices.ContainsFunc(s.got(), func(l stormLine) bool { return fresh[l.sequence] })
}

// got is what the members have read.
func (s *storm) got() []stormLine {
	var all []stormLine
	for _, m := range s.members {
		all = append(all, m.all("got")...)
	}
	return all
}

func (s *storm) said() string {
	var text strings.Builder
	for _, m := range s.members {
		text.WriteString("\n" + m.complaints())
	}
	return text.String()
}

// judge compares what was acknowledged with the log and with what was read.
func (s *storm) judge(t *testing.T, c *peer.Cluster) {
	t.Helper()
	sent := s.producer.all("sent")
	log := readLog(t, c, s.topic)
	if wrong := wrongInLog(log, sent); len(wrong) > 0 {
		t.Errorf("%s: %d faults, the first %s", s.topic, len(wrong), strings.Join(wrong[:min(5, len(wrong))], "\n"))
	}
	twice := s.readAll(t, c, log)
	var commits []stormLine
	for _, m := range s.members {
		m.end(true)
		commits = append(commits, m.all("committed")...)
	}
	if err := neverBehind(s.group, s.watched, commits); err != nil {
		t.Error(err)
	}
	if err := inOrder(s.group, s.watched, committedIn(t, c, s.group, s.topic)); err != nil {
		t.Error(err)
	}
	stuck := 0
	for _, m := range s.members {
		if m.stuck {
			stuck++
		}
	}
	t.Logf("%s: %d acknowledged, %d read twice, %d commits, offsets asked %d times; longest without an answer: sent %s, read %s; %d of %d members stuck",
		s.program.name, len(sent), twice, len(commits), len(s.watched), longest(sent), longest(s.got()), stuck, len(s.members))
}

// wrongInLog says which acknowledged records aren't there once, where they were
// said to be, and which keys aren't in the order they were sent in.
func wrongInLog(log, sent []stormLine) (wrong []string) {
	type id struct {
		key      string
		sequence int64
	}
	at := map[id][]stormLine{}
	last := map[string]stormLine{}
	for _, l := range log {
		at[id{l.key, l.sequence}] = append(at[id{l.key, l.sequence}], l)
		if before, ok := last[l.key]; ok && (before.sequence >= l.sequence || before.partition != l.partition) {
			wrong = append(wrong, fmt.Sprintf("%s: %d at %d/%d and then %d at %d/%d",
				l.key, before.sequence, before.partition, before.offset, l.sequence, l.partition, l.offset))
		}
		last[l.key] = l
	}
	for _, l := range sent {
		there := at[id{l.key, l.sequence}]
		if len(there) != 1 || l.offset >= 0 && (there[0].offset != l.offset || there[0].partition != l.partition) {
			wrong = append(wrong, fmt.Sprintf("%s/%d, acknowledged at %d/%d, is there %d times: %v", l.key, l.sequence, l.partition, l.offset, len(there), there))
		}
	}
	return wrong
}

// The check itself sees what is lost, doubled, out of order or elsewhere.
func TestWrongInLogNotices(t *testing.T) {
	line := func(partition int32, offset int64, key string, sequence int64) stormLine {
		return stormLine{partition: partition, offset: offset, key: key, sequence: sequence}
	}
	log := []stormLine{line(0, 0, "a", 1), line(0, 1, "b", 2), line(0, 2, "a", 3)}
	for _, c := range []struct {
		name      string
		log, sent []stormLine
		wrong     int
	}{
		{"all there", log, log, 0},
		{"no offset said", log, []stormLine{line(0, -1, "b", 2)}, 0},
		{"one unacknowledged", log, log[:2], 0},
		{"lost", log[:2], log, 1},
		{"elsewhere", log, []stormLine{line(0, 2, "b", 2), line(1, 0, "a", 1)}, 2},
		{"doubled", append(slices.Clone(log), line(0, 3, "b", 2)), log, 2},
		{"out of order", []stormLine{log[0], line(0, 1, "a", 3), line(0, 2, "a", 2)}, nil, 1},
	} {
		if wrong := wrongInLog(c.log, c.sent); len(wrong) != c.wrong {
			t.Errorf("%s: %q", c.name, wrong)
		}
	}
}

// readAll waits until the members have read all that is in the log, each record
// where it is, and counts what they read again.
func (s *storm) readAll(t *testing.T, c *peer.Cluster, log []stormLine) (twice int) {
	t.Helper()
	where := map[place]stormLine{}
	for _, l := range log {
		where[place{l.partition, l.offset}] = l
	}
	limit := time.Now().Add(stormLimit)
	for {
		read := map[place]bool{}
		got := s.got()
		for _, l := range got {
			p := place{l.partition, l.offset}
			if w, ok := where[p]; ok && (w.key != l.key || w.sequence != l.sequence) {
				t.Fatalf("%s: %v was read as %s/%d and holds %s/%d", s.topic, p, l.key, l.sequence, w.key, w.sequence)
			}
			read[p] = true
		}
		var missing []place
		for _, l := range log {
			if p := (place{l.partition, l.offset}); !read[p] {
				missing = append(missing, p)
			}
		}
		if len(missing) == 0 {
			return len(got) - len(read)
		}
		s.revive(t, c)
		if time.Now().After(limit) {
			t.Errorf("%s: %d of %d records are unread, %v to %v; the group stands at %v; the members said:%s",
				s.topic, len(missing), len(log), missing[0], missing[len(missing)-1], s.watched[len(s.watched)-1].offsets, s.said())
			return 0
		}
		time.Sleep(50 * time.Millisecond) // any of several processes may be the next to speak
	}
}

// place is where a record lies.
type place struct {
	partition int32
	offset    int64
}

// longest is the longest time between two lines.
func longest(lines []stormLine) time.Duration {
	slices.SortFunc(lines, func(a, b stormLine) int { return a.at.Compare(b.at) })
	most := time.Duration(0)
	for i := range lines[min(1, len(lines)):] {
		most = max(most, lines[i+1].at.Sub(lines[i].at))
	}
	return most.Round(10 * time.Millisecond)
}

// groupBeside is the name of a group that one and the same broker coordinates,
// whatever it begins with.
func groupBeside(name string) string {
	for i := 0; ; i++ {
		if group := fmt.Sprintf("storm-%s-%d", name, i); compat.GroupPartition(group) == 0 {
			return group
		}
	}
}

// createStormTopic makes a topic with three replicas and waits until all are in
// sync.
func createStormTopic(t *testing.T, c *peer.Cluster, name string) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 60_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, stormPartitions, 3
	req.Topics = append(req.Topics, topic)
	conn, err := peer.Dial(t.Context(), c.Nodes[0].Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // its one answer was read
	resp, err := conn.Ask(req, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if code := resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code != 0 {
		t.Fatalf("%s: error %d", name, code)
	}
	if err := c.InSync(time.Minute); err != nil {
		t.Fatal(err)
	}
}

// leaderOf is the broker that leads a topic's first partition.
func leaderOf(t *testing.T, c *peer.Cluster, topic string) int32 {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 8
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	resp, err := askOne(c.Nodes[0].Addr, req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(*kmsg.MetadataResponse).Topics[0].Partitions[0].Leader
}

// readLog reads what producers have sent to a topic.
func readLog(t *testing.T, c *peer.Cluster, topic string) (log []stormLine) {
	t.Helper()
	for p := range stormPartitions {
		for _, r := range readPartition(t, c, topic, int32(p)) {
			l := stormLine{partition: r.Partition, offset: r.Offset, key: string(r.Key)}
			if _, err := fmt.Sscan(string(r.Value), &l.sequence); err != nil {
				t.Errorf("%s/%d@%d: a value nobody sent: %q", topic, r.Partition, r.Offset, r.Value)
			}
			log = append(log, l)
		}
	}
	return log
}

// readPartition reads a partition from its beginning to its present end.
func readPartition(t *testing.T, c *peer.Cluster, topic string, partition int32) (all []*kgo.Record) {
	t.Helper()
	end := endOf(t, c, topic, partition)
	from := map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Nodes[0].Addr), kgo.ConsumePartitions(from))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), stormLimit)
	defer cancel()
	for len(all) == 0 || all[len(all)-1].Offset+1 < end {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil || end == 0 {
			t.Fatalf("%s/%d, which ends at %d: %v", topic, partition, end, err)
		}
		all = append(all, fetches.Records()...)
	}
	return all
}

// endOf is the offset after a partition's last committed record.
func endOf(t *testing.T, c *peer.Cluster, topic string, partition int32) int64 {
	t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = 4
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, -1
	req.Topics = append(req.Topics, kmsg.ListOffsetsRequestTopic{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}})
	for _, s := range c.Nodes {
		resp, err := askOne(s.Addr, req)
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; got.ErrorCode == 0 {
			return got.Offset
		}
	}
	t.Fatalf("nobody leads %s/%d", topic, partition)
	return 0
}
