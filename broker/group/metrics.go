package group

import "sync/atomic"

type counters struct {
	commits, expired, rebalances, loads, rebuilds, skipped atomic.Int64
}

// Metrics are plain numbers since the start.
type Metrics struct {
	Commits    int64 // offsets committed
	Expired    int64 // offsets deleted because their time had run out
	Rebalances int64 // generations formed
	Loads      int64 // partitions made ready after an election
	Rebuilds   int64 // partitions applied anew because they did not agree with the log
	Skipped    int64 // records of the internal topic that could not be read
	Groups     int64 // groups with members or a generation, led here
	Members    int64
}

// Metrics reads the numbers.
func (c *Coordinator) Metrics() Metrics {
	m := Metrics{
		Commits: c.metrics.commits.Load(), Expired: c.metrics.expired.Load(),
		Rebalances: c.metrics.rebalances.Load(), Loads: c.metrics.loads.Load(),
		Rebuilds: c.metrics.rebuilds.Load(), Skipped: c.metrics.skipped.Load(),
	}
	for _, s := range c.shards {
		s.mu.Lock()
		m.Groups += int64(len(s.groups))
		for _, e := range s.groups {
			m.Members += int64(len(e.state.Members()))
		}
		s.mu.Unlock()
	}
	return m
}
