package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
	"sawlog/offsets"
)

// leaderPatience is how long one broker may hold a page up.
const leaderPatience = time.Second

// together asks several things at once.
func together(asks ...func() error) error {
	errs := make([]error, len(asks))
	var wg sync.WaitGroup
	for i, ask := range asks {
		wg.Go(func() { errs[i] = ask() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// atLeaders has one request sent to each broker that leads some of the
// partitions, all at once. ask must write to nothing but its own partitions. The
// error names the brokers that failed; what the others told stands.
func atLeaders(ctx context.Context, c consumer.Cluster, ps []*partition, ask func(ctx context.Context, at consumer.Requestor, led []*partition) error) error {
	led := map[int32][]*partition{}
	for _, p := range ps {
		if p.Leader >= 0 {
			led[p.Leader] = append(led[p.Leader], p)
		}
	}
	errs := make([]error, 0, len(led))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for id, list := range led {
		wg.Go(func() {
			within, done := context.WithTimeout(ctx, leaderPatience)
			defer done()
			err := ask(within, c.Broker(id), list)
			if err == nil {
				return
			}
			if errors.Is(err, context.DeadlineExceeded) {
				err = fmt.Errorf("no answer within %s: %w", span(leaderPatience), err)
			}
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, fmt.Errorf("broker %d: %w", id, err))
		})
	}
	wg.Wait()
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// leadersOf has readers begin at the leaders that are known, so that they neither
// ask again nor are held up by partitions of the topic that have none.
func leadersOf(ps []*partition) *consumer.Leaders {
	topics := map[string]consumer.Topic{}
	for _, p := range ps {
		if p.Leader < 0 {
			continue
		}
		t := topics[p.Topic]
		t.Name, t.ID = p.Topic, p.TopicID
		t.Partitions = append(t.Partitions, consumer.Partition{Index: p.Index, Leader: offsets.BrokerID(p.Leader), Epoch: offsets.Epoch(p.Epoch)})
		topics[p.Topic] = t
	}
	known := &consumer.Leaders{}
	for _, t := range topics {
		known.Learn(t)
	}
	return known
}

// The timestamps ListOffsets takes for places in the log.
const (
	atEnd   = -1
	atStart = -2
)

// spot is where an answer has a partition.
type spot struct {
	topic string
	index int32
}

// byPlace finds partitions again in an answer.
func byPlace(ps []*partition) map[spot]*partition {
	m := make(map[spot]*partition, len(ps))
	for _, p := range ps {
		m[spot{p.Topic, p.Index}] = p
	}
	return m
}

// offsetsAt asks the leaders for an offset of each partition: of the log's start
// or end, or the first with a timestamp at or after some milliseconds. set gets
// untold where no record is that young.
func offsetsAt(ctx context.Context, c consumer.Cluster, ps []*partition, at int64, set func(p *partition, offset int64)) error {
	return atLeaders(ctx, c, ps, func(ctx context.Context, leader consumer.Requestor, led []*partition) error {
		return listOffsets(ctx, leader, led, at, set)
	})
}

// listOffsets asks one leader.
func listOffsets(ctx context.Context, leader consumer.Requestor, led []*partition, at int64, set func(p *partition, offset int64)) error {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	for _, p := range led {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != p.Topic {
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = p.Topic
			req.Topics = append(req.Topics, t)
		}
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition, part.Timestamp = p.Index, at
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, part)
	}
	resp, err := request[*kmsg.ListOffsetsResponse](ctx, leader, req)
	if err != nil {
		return err
	}
	places := byPlace(led)
	for _, t := range resp.Topics {
		for _, told := range t.Partitions {
			p := places[spot{t.Topic, told.Partition}]
			if p == nil {
				continue
			}
			if code := kerr.ErrorForCode(told.ErrorCode); code != nil {
				err = fmt.Errorf("%s/%d: %w", p.Topic, p.Index, code)
				continue
			}
			set(p, told.Offset)
		}
	}
	return err
}

// measure fills in where the logs of partitions start and end: in this order
// start ≤ end holds although the log moves on meanwhile.
func measure(ctx context.Context, c consumer.Cluster, ps []*partition) error {
	return atLeaders(ctx, c, ps, func(ctx context.Context, leader consumer.Requestor, led []*partition) error {
		err := listOffsets(ctx, leader, led, atStart, func(p *partition, o int64) { p.Start = o })
		return errors.Join(err, listOffsets(ctx, leader, led, atEnd, func(p *partition, o int64) { p.End = o }))
	})
}

// sizes fills in the bytes of the leaders' logs.
func sizes(ctx context.Context, c consumer.Cluster, ps []*partition) error {
	return atLeaders(ctx, c, ps, func(ctx context.Context, leader consumer.Requestor, led []*partition) error {
		resp, err := request[*kmsg.DescribeLogDirsResponse](ctx, leader, logDirs(led))
		if err != nil {
			return err
		}
		places := byPlace(led)
		for _, dir := range resp.Dirs {
			for _, t := range dir.Topics {
				for _, told := range t.Partitions {
					if p := places[spot{t.Topic, told.Partition}]; p != nil && !told.IsFuture {
						p.Size = told.Size
					}
				}
			}
		}
		return nil
	})
}

// logDirs asks for the sizes of some logs.
func logDirs(ps []*partition) *kmsg.DescribeLogDirsRequest {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Topics = []kmsg.DescribeLogDirsRequestTopic{}
	for _, p := range ps {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != p.Topic {
			t := kmsg.NewDescribeLogDirsRequestTopic()
			t.Topic = p.Topic
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p.Index)
	}
	return req
}
