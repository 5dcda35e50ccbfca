package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"compat/line"
)

// reader seeks by offset and by time.
func (s suite) reader() error {
	const topic = "kafkago-time"
	if err := s.topic(topic, 1); err != nil {
		return err
	}
	for i := 0; i < 60; i += 20 {
		if err := write(s.ctx, s.addr, topic, "zstd", 0, numberedFrom(i, 20)); err != nil {
			return err
		}
	}
	r := reader(s.addr, topic)
	defer func() { _ = r.Close() }()
	for _, at := range []time.Duration{33 * time.Second, 33*time.Second + time.Millisecond, -time.Hour} {
		if err := r.SetOffsetAt(s.ctx, base.Add(at)); err != nil {
			return err
		}
		got, err := take(s.ctx, r, 1)
		if err != nil {
			return err
		}
		line.Step("reader: from "+at.String(), string(got[0].Key))
	}
	if err := r.SetOffset(58); err != nil {
		return err
	}
	got, err := take(s.ctx, r, 2)
	if err != nil {
		return err
	}
	lag, err := r.ReadLag(s.ctx)
	if err != nil {
		return err
	}
	line.Step("reader: the last two", []any{string(got[0].Key), string(got[1].Key), lag})
	return nil
}

// member is one reader of the group; what it reads goes to where all members'
// records go.
type member struct {
	r    *kafka.Reader
	quit context.CancelFunc
	done sync.WaitGroup
}

// seen counts distinct records, and those each member read since the last look.
type seen struct {
	mu    sync.Mutex
	at    map[[2]int64]bool
	owner map[int]*member // of each partition, by its last record
}

func (s suite) join(name, topic string, seen *seen) *member {
	ctx, quit := context.WithCancel(s.ctx)
	m := &member{quit: quit, r: kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{s.addr}, GroupID: name, GroupTopics: []string{topic}, MaxWait: 100 * time.Millisecond,
		HeartbeatInterval: 200 * time.Millisecond, StartOffset: kafka.FirstOffset, GroupBalancers: []kafka.GroupBalancer{kafka.RangeGroupBalancer{}},
	})}
	m.done.Go(func() {
		for {
			msg, err := m.r.FetchMessage(ctx)
			if err != nil {
				return
			}
			seen.mu.Lock()
			seen.at[[2]int64{int64(msg.Partition), msg.Offset}] = true
			seen.owner[msg.Partition] = m
			seen.mu.Unlock()
			_ = m.r.CommitMessages(ctx, msg) // a rebalance may come between; the offsets are looked at in the end
		}
	})
	return m
}

func (m *member) leave() error {
	m.quit()
	m.done.Wait()
	return m.r.Close()
}

// group has two readers share four partitions, and one take over.
func (s suite) group() error {
	const topic, name = "kafkago-shared", "kafkago-group"
	if err := s.topic(topic, 4); err != nil {
		return err
	}
	seen := &seen{at: map[[2]int64]bool{}, owner: map[int]*member{}}
	one := s.join(name, topic, seen)
	if err := s.share(topic, seen, one); err != nil {
		return err
	}
	line.Step("group: alone", true)
	two := s.join(name, topic, seen)
	if err := s.members(name, 2); err != nil {
		return err
	}
	if err := s.share(topic, seen, one, two); err != nil {
		return err
	}
	line.Step("group: of two", true)
	res, err := s.cl.DescribeGroups(s.ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{name}})
	if err != nil {
		return err
	}
	var sizes []int
	for _, m := range res.Groups[0].Members {
		sizes = append(sizes, len(m.MemberAssignments.Topics[0].Partitions))
	}
	line.Step("group: described", []any{kind(res.Groups[0].Error), res.Groups[0].GroupState, sizes})
	if err := one.leave(); err != nil {
		return err
	}
	if err := s.share(topic, seen, two); err != nil {
		return err
	}
	line.Step("group: after one left", true)
	if err := two.leave(); err != nil {
		return err
	}
	return s.afterGroup(name, topic)
}

// members waits until the group is stable with count members.
func (s suite) members(name string, count int) error {
	return settle(func() (bool, error) {
		res, err := s.cl.DescribeGroups(s.ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{name}})
		if err != nil {
			return false, err
		}
		g := res.Groups[0]
		return g.GroupState == "Stable" && len(g.Members) == count, nil
	})
}

// share writes a record to each partition until they have all been read by
// those members, an equal part by each.
func (s suite) share(topic string, seen *seen, members ...*member) error {
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		for p := range 4 {
			if err := write(s.ctx, s.addr, topic, "none", p, numberedFrom(0, 1)); err != nil {
				return err
			}
		}
		time.Sleep(100 * time.Millisecond)
		seen.mu.Lock()
		counts := map[*member]int{}
		for _, m := range seen.owner {
			counts[m]++
		}
		seen.mu.Unlock()
		good := len(counts) == len(members)
		for _, m := range members {
			good = good && counts[m] == 4/len(members)
		}
		if good {
			return nil
		}
	}
	return errors.New("the group did not share its partitions")
}

// afterGroup looks at what is left of the group, and removes it.
func (s suite) afterGroup(name, topic string) error {
	end, err := s.cl.ListOffsets(s.ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {
		kafka.LastOffsetOf(0), kafka.LastOffsetOf(1), kafka.LastOffsetOf(2), kafka.LastOffsetOf(3),
	}}})
	if err != nil {
		return err
	}
	committed, err := s.cl.OffsetFetch(s.ctx, &kafka.OffsetFetchRequest{GroupID: name, Topics: map[string][]int{topic: {0, 1, 2, 3}}})
	if err != nil {
		return err
	}
	behind := []int64{}
	for _, e := range end.Topics[topic] {
		for _, c := range committed.Topics[topic] {
			if c.Partition == e.Partition && c.CommittedOffset > e.LastOffset {
				return fmt.Errorf("partition %d: %d committed, %d written", c.Partition, c.CommittedOffset, e.LastOffset)
			}
			if c.Partition == e.Partition && c.CommittedOffset < 1 {
				behind = append(behind, c.CommittedOffset)
			}
		}
	}
	line.Step("group: partitions without a commit", behind)
	commit, err := s.cl.OffsetCommit(s.ctx, &kafka.OffsetCommitRequest{GroupID: name, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{
		topic: {{Partition: 1, Offset: 3, Metadata: "three"}},
	}})
	if err != nil {
		return err
	}
	line.Step("group: committed from outside", kind(commit.Topics[topic][0].Error))
	deleted, err := s.cl.OffsetDelete(s.ctx, &kafka.OffsetDeleteRequest{GroupID: name, Topics: map[string][]int{topic: {2}}})
	if err != nil {
		return err
	}
	line.Step("group: offset deleted", []any{kind(deleted.Error), kind(deleted.Topics[topic][0].Error)})
	committed, err = s.cl.OffsetFetch(s.ctx, &kafka.OffsetFetchRequest{GroupID: name, Topics: map[string][]int{topic: {1, 2}}})
	if err != nil {
		return err
	}
	slices.SortFunc(committed.Topics[topic], func(a, b kafka.OffsetFetchPartition) int { return a.Partition - b.Partition })
	line.Step("group: offsets then", []any{
		committed.Topics[topic][0].CommittedOffset, committed.Topics[topic][0].Metadata, committed.Topics[topic][1].CommittedOffset,
	})
	listed, err := s.cl.ListGroups(s.ctx, &kafka.ListGroupsRequest{})
	if err != nil {
		return err
	}
	for _, g := range listed.Groups {
		if g.GroupID == name {
			line.Step("group: listed", []any{g.ProtocolType, g.Coordinator == 1})
		}
	}
	for range 2 {
		gone, err := s.cl.DeleteGroups(s.ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{name}})
		if err != nil {
			return err
		}
		line.Step("group: deleted", kind(gone.Errors[name]))
	}
	return nil
}
