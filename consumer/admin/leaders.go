package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sawlog/consumer"
	"sawlog/offsets"
)

// patience is how long one broker may hold up whoever watches.
const patience = time.Second

// Together asks several things at once.
func Together(asks ...func() error) error {
	errs := make([]error, len(asks))
	var wg sync.WaitGroup
	for i, ask := range asks {
		wg.Go(func() { errs[i] = ask() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// atBrokers asks each broker by itself, all at once, so long at most. The error names
// those that failed, in order of their ids.
func atBrokers(ctx context.Context, c consumer.Cluster, ids []int32, patience time.Duration, ask func(ctx context.Context, at consumer.Requestor, id int32) error) error {
	slices.Sort(ids)
	asks := make([]func() error, len(ids))
	for i, id := range ids {
		asks[i] = func() error {
			within, done := context.WithTimeout(ctx, patience)
			defer done()
			err := ask(within, c.Broker(id), id)
			switch {
			case err == nil:
				return nil
			case ctx.Err() == nil && within.Err() != nil:
				err = fmt.Errorf("no answer within %v: %w", patience.Round(10*time.Millisecond), err)
			}
			return fmt.Errorf("broker %d: %w", id, err)
		}
	}
	return Together(asks...)
}

// AtLeaders has something asked of each broker that leads some of the partitions,
// all at once, a second at most. ask must write to nothing but its own partitions.
// The error names the brokers that failed; what the others told stands.
func AtLeaders(ctx context.Context, c consumer.Cluster, ps []*Partition, ask func(ctx context.Context, at consumer.Requestor, led []*Partition) error) error {
	led := map[int32][]*Partition{}
	var ids []int32
	for _, p := range ps {
		if p.Offline() {
			continue
		}
		if led[p.Leader] == nil {
			ids = append(ids, p.Leader)
		}
		led[p.Leader] = append(led[p.Leader], p)
	}
	return atBrokers(ctx, c, ids, patience, func(ctx context.Context, at consumer.Requestor, id int32) error { return ask(ctx, at, led[id]) })
}

// Leaders has readers begin at the leaders that are known, so that they neither
// ask again nor are held up by partitions of the topic that have none.
func Leaders(ps []*Partition) *consumer.Leaders {
	topics := map[string]consumer.Topic{}
	for _, p := range ps {
		if p.Offline() {
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

// inOrder sorts partitions by topic and number, as requests group them.
func inOrder(ps []*Partition) []*Partition {
	return slices.SortedStableFunc(slices.Values(ps), func(a, b *Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Index, b.Index))
	})
}
