package consumer

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"sync"
	"time"

	"sawlog/offsets"
)

// surveyPatience is how long one broker may hold a survey up.
const surveyPatience = time.Second

// Untold stands where no broker told an offset.
const Untold offsets.Offset = -1

// Survey describes all topics that are not internal, in order of name, for those
// who watch a cluster: what can't be told is left out, not waited for. Each leader
// is asked by itself. Offsets and sizes of partitions that have no leader, or one
// that doesn't answer within a second, are Untold; the error is of the metadata
// only.
func Survey(ctx context.Context, c Cluster) ([]Topic, error) {
	topics, _, err := metadata(ctx, c, nil, regexp.MustCompile(""))
	if errors.Is(err, ErrUnknownTopic) { // there is none
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	led := map[offsets.BrokerID][]Topic{}
	for i := range topics {
		for j := range topics[i].Partitions {
			p := &topics[i].Partitions[j]
			if p.Leader != noLeader {
				led[p.Leader] = withPartition(led[p.Leader], topics[i].Name, *p)
			}
			p.LogStart, p.LastStable, p.HighWatermark = Untold, Untold, Untold
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		within, done := context.WithTimeout(ctx, surveyPatience)
		defer done()
		_ = policies(within, c, topics) // untold, they are not compacted
	})
	told := make(chan []Topic, len(led))
	for leader, theirs := range led {
		wg.Go(func() {
			within, done := context.WithTimeout(ctx, surveyPatience)
			defer done()
			if at := c.Broker(int32(leader)); positions(within, at, theirs) == nil {
				_ = sizesOf(within, at, logDirs(theirs), byName(theirs)) // untold, they are -1
				told <- theirs
			}
		})
	}
	wg.Wait()
	close(told)
	for theirs := range told {
		take(topics, theirs)
	}
	return topics, nil
}

// withPartition adds a partition to topics that are in order of name, the last of
// which may be its own.
func withPartition(topics []Topic, name string, p Partition) []Topic {
	if len(topics) == 0 || topics[len(topics)-1].Name != name {
		topics = append(topics, Topic{Name: name})
	}
	t := &topics[len(topics)-1]
	t.Partitions = append(t.Partitions, p)
	return topics
}

// take puts what a leader told of its partitions in their places.
func take(topics, theirs []Topic) {
	at := byName(topics)
	for _, t := range theirs {
		all := at[t.Name].Partitions
		for _, p := range t.Partitions {
			if i := slices.IndexFunc(all, func(o Partition) bool { return o.Index == p.Index }); i >= 0 {
				all[i] = p
			}
		}
	}
}
