//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupName is the group of a run.
const groupName = "chaos"

// join adds a member to the group. It commits after every poll.
func (w *workload) join(ctx context.Context) error {
	cl, err := kgo.NewClient(append(brief(w.seeds),
		kgo.ConsumerGroup(groupName), kgo.ConsumeTopics(events),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.FetchMaxWait(300*time.Millisecond),
		kgo.SessionTimeout(6*time.Second), kgo.RebalanceTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond),
	)...)
	if err != nil {
		return err
	}
	w.lookers.Go(func() {
		defer cl.Close()
		for ctx.Err() == nil {
			fetches := cl.PollFetches(ctx)
			w.note(groupReader, fetches)
			w.commit(ctx, cl, fetches)
		}
	})
	return nil
}

// commit commits what was fetched and notes what was acknowledged.
func (w *workload) commit(ctx context.Context, cl *kgo.Client, fetches kgo.Fetches) {
	upTo := map[string]map[int32]kgo.EpochOffset{}
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) == 0 {
			return
		}
		if upTo[p.Topic] == nil {
			upTo[p.Topic] = map[int32]kgo.EpochOffset{}
		}
		last := p.Records[len(p.Records)-1]
		upTo[p.Topic][p.Partition] = kgo.EpochOffset{Epoch: last.LeaderEpoch, Offset: last.Offset + 1}
	})
	if len(upTo) == 0 {
		return
	}
	limit, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	from := w.h.now()
	cl.CommitOffsetsSync(limit, upTo, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			return // nothing is known of it
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if at, ok := upTo[t.Topic][p.Partition]; ok && p.ErrorCode == 0 {
					w.h.commit(commit{Group: groupName, place: place{t.Topic, p.Partition}, Offset: at.Offset, From: from, To: w.h.now()})
				}
			}
		}
	})
}

// groupOffsets asks the group's coordinator where the group stands. Partitions
// it has nothing of stand at -1.
func (c *cluster) groupOffsets(h *history, group string, parts map[string]int) ([]commit, error) {
	var all []commit
	err := await(patience, func() (err error) {
		all, err = c.fetchOffsets(h, group, parts, c.coordinator(group))
		return err
	})
	return all, err
}

// fetchOffsets asks a node where a group stands.
func (c *cluster) fetchOffsets(h *history, group string, parts map[string]int, coordinator int32) ([]commit, error) {
	at := c.node(coordinator)
	if at == nil {
		return nil, fmt.Errorf("the coordinator is node %d, which is none", coordinator)
	}
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Version, fetch.Group = 5, group
	for topic, count := range parts {
		t := kmsg.OffsetFetchRequestTopic{Topic: topic}
		for p := range count {
			t.Partitions = append(t.Partitions, int32(p))
		}
		fetch.Topics = append(fetch.Topics, t)
	}
	from := h.now()
	resp, err := ask(at.kafka, fetch, askLimit)
	if err != nil {
		return nil, err
	}
	offsets := resp.(*kmsg.OffsetFetchResponse)
	errs := []error{kerr.ErrorForCode(offsets.ErrorCode)}
	var all []commit
	for _, t := range offsets.Topics {
		for _, p := range t.Partitions {
			errs = append(errs, kerr.ErrorForCode(p.ErrorCode))
			all = append(all, commit{Group: group, place: place{t.Topic, p.Partition}, Offset: p.Offset, From: from, To: h.now(), Fetch: true})
		}
	}
	return all, errors.Join(errs...)
}

// keepFetching asks for the group's offsets all the while.
func keepFetching(ctx context.Context, c *cluster, h *history, parts map[string]int) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if all, err := c.fetchOffsets(h, groupName, parts, c.coordinator(groupName)); err == nil {
			h.mu.Lock()
			h.Fetched = append(h.Fetched, all...)
			h.mu.Unlock()
		}
	}
}

// coordinator is the node a group's offsets are kept by, 0 when nobody says.
func (c *cluster) coordinator(group string) int32 {
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKey = 1, group
	for _, n := range c.running() {
		resp, err := ask(n.kafka, find, time.Second)
		if err != nil {
			continue
		}
		if found := resp.(*kmsg.FindCoordinatorResponse); found.ErrorCode == 0 {
			return found.NodeID
		}
	}
	return 0
}
