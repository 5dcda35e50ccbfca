package replica

import (
	"context"
	"log/slog"
	"net"
	"sync"

	"sawlog/offsets"
)

// FetchersConfig is what Fetchers need of the rooms around them.
type FetchersConfig struct {
	Self offsets.BrokerID
	// BrokerEpoch is the present registration of this broker.
	BrokerEpoch func() int64
	// Dial connects to a leader for Kafka frames.
	Dial   func(ctx context.Context, leader offsets.BrokerID) (net.Conn, error)
	Logger *slog.Logger
}

// Following says whom a partition follows.
type Following struct {
	Partition *Partition
	Leader    offsets.BrokerID // NoBroker = nobody: it leads, is gone, or has no leader
	Epoch     offsets.Epoch    // the leader's
}

// Fetchers make the partitions of this broker follow their leaders: with one
// connection and one fetch session for each leading broker.
type Fetchers struct {
	config FetchersConfig
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	leaders map[*Partition]leadership // whom each follows
	byNode  map[offsets.BrokerID]*fetcher
	started bool
	closed  bool
}

// leadership is whom a partition follows, and since which epoch.
type leadership struct {
	by    *fetcher
	epoch offsets.Epoch
}

// NewFetchers makes them; nothing is fetched before Start.
func NewFetchers(c FetchersConfig) *Fetchers {
	f := &Fetchers{config: c, leaders: map[*Partition]leadership{}, byNode: map[offsets.BrokerID]*fetcher{}}
	if f.config.Logger == nil {
		f.config.Logger = slog.New(slog.DiscardHandler)
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Set tells whom partitions follow from now on, after they were assigned. One of
// a new epoch is asked for at once; else what was asked for still stands.
func (f *Fetchers) Set(changes []Following) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	told := map[*fetcher][]Following{}
	for _, c := range changes {
		old := f.leaders[c.Partition]
		now := leadership{epoch: c.Epoch}
		if c.Leader != offsets.NoBroker && c.Leader != f.config.Self {
			now.by = f.fetcher(c.Leader)
		}
		if old.by != nil && old.by != now.by {
			told[old.by] = append(told[old.by], Following{Partition: c.Partition, Leader: offsets.NoBroker})
		}
		switch {
		case now.by == nil:
			delete(f.leaders, c.Partition)
		case now != old:
			f.leaders[c.Partition] = now
			told[now.by] = append(told[now.by], c)
		}
	}
	for one, list := range told {
		one.tell(list)
	}
}

// fetcher is the one of a leading broker.
// Called with mu held.
func (f *Fetchers) fetcher(leader offsets.BrokerID) *fetcher {
	one := f.byNode[leader]
	if one == nil {
		one = newFetcher(&f.config, leader)
		f.byNode[leader] = one
		if f.started {
			f.wg.Go(func() { one.run(f.ctx) })
		}
	}
	return one
}

// Start begins to fetch.
func (f *Fetchers) Start() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.started || f.closed {
		return
	}
	f.started = true
	for _, one := range f.byNode {
		f.wg.Go(func() { one.run(f.ctx) })
	}
}

// Close ends all fetching.
func (f *Fetchers) Close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.cancel()
	f.wg.Wait()
}
