package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
	"sawlog/offsets"
)

// groupPatience is how long one coordinator may hold up whoever watches: it may
// have a million offsets to tell of.
const groupPatience = 2 * time.Second

// atCoordinators has groups asked for coordinator by coordinator, all at once and
// groupPatience at most. Asked for together, one coordinator that is not known or
// does not answer fails the request for all. The error names those that failed.
func atCoordinators(ctx context.Context, c consumer.Requestor, groups []string, ask func(ctx context.Context, of []string) error) error {
	led, refused, err := coordinators(ctx, c, groups)
	if err != nil {
		return err
	}
	asks := []func() error{func() error { return refused }}
	for _, id := range slices.Sorted(maps.Keys(led)) {
		asks = append(asks, func() error {
			within, done := context.WithTimeout(ctx, groupPatience)
			defer done()
			if err := ask(within, led[id]); err != nil {
				return fmt.Errorf("coordinator %d: %w", id, err)
			}
			return nil
		})
	}
	return Together(asks...)
}

// Standing asks for the members and offsets of groups, coordinator by coordinator.
// Those that nobody told of are absent, and are the error.
func Standing(ctx context.Context, c consumer.Requestor, groups []string) (described map[string]*Group, committed map[string]map[offsets.TopicPartition]int64, err error) {
	var mu sync.Mutex
	described, committed = map[string]*Group{}, map[string]map[offsets.TopicPartition]int64{}
	err = atCoordinators(ctx, c, groups, func(ctx context.Context, of []string) error {
		var members map[string]*Group
		var places map[string]map[offsets.TopicPartition]int64
		err := Together(
			func() (err error) { members, err = DescribeGroups(ctx, c, of); return err },
			func() (err error) { places, err = Committed(ctx, c, of); return err },
		)
		mu.Lock()
		defer mu.Unlock()
		maps.Copy(described, members)
		maps.Copy(committed, places)
		return err
	})
	return described, committed, err
}

// coordinators are the groups of each coordinator. Those that none is known of are
// left out, and are refused. Nobody is asked about none: a request without a group is
// about the group "", and has a broker make the topic of offsets.
func coordinators(ctx context.Context, c consumer.Requestor, groups []string) (led map[int32][]string, refused, err error) {
	if len(groups) == 0 {
		return nil, nil, nil
	}
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = groups
	resp, err := consumer.Ask[*kmsg.FindCoordinatorResponse](ctx, c, req)
	if err != nil {
		return nil, nil, err
	}
	var all refusals
	led = map[int32][]string{}
	for _, at := range resp.Coordinators {
		if err := refusal("coordinator of "+at.Key, at.ErrorCode, at.ErrorMessage); err != nil {
			all.add(err)
			continue
		}
		led[at.NodeID] = append(led[at.NodeID], at.Key)
	}
	return led, all.err(), nil
}
