package console

import (
	"context"

	"sawlog/consumer"
	"sawlog/consumer/admin"
)

// untold stands where nobody told a number.
const untold = admin.Untold

// measure fills in where the logs of partitions start and end, as far as their
// leaders tell within a second; so do those below.
func measure(ctx context.Context, c consumer.Cluster, ps []*admin.Partition) error {
	return admin.AtLeaders(ctx, c, ps, admin.Bounds)
}

// sizes fills in the bytes of the leaders' logs.
func sizes(ctx context.Context, c consumer.Cluster, ps []*admin.Partition) error {
	return admin.AtLeaders(ctx, c, ps, admin.Sizes)
}

// ends fills in where logs end.
func ends(ctx context.Context, c consumer.Cluster, ps []*admin.Partition) error {
	return admin.AtLeaders(ctx, c, ps, admin.Ends)
}

// findAt fills in the first offset with a timestamp of ms or later.
func findAt(ctx context.Context, c consumer.Cluster, ps []*admin.Partition, ms int64) error {
	return admin.AtLeaders(ctx, c, ps, func(ctx context.Context, at consumer.Requestor, led []*admin.Partition) error {
		return admin.OffsetsAt(ctx, at, led, ms)
	})
}
