package replica

import (
	"context"
	"sync"
	"time"

	"sawlog/offsets"
)

// ISRAsk is one partition's wish for another ISR.
type ISRAsk struct {
	Topic     offsets.TopicID
	Partition int32
	ISRProposal
}

// KeeperConfig is what a Keeper needs of the rooms around it.
type KeeperConfig struct {
	// ChangeISRs asks the controller, and returns an outcome for each ask.
	ChangeISRs func(context.Context, []ISRAsk) []Outcome
	// Usable is the present epoch of a broker that may be in an ISR.
	Usable func(offsets.BrokerID) (epoch int64, ok bool)
	// Led lists the partitions this broker leads, or may lead.
	Led    func(yield func(*Partition) bool)
	LagMax time.Duration // replica.lag.time.max.ms; 30 s
	Every  time.Duration // how often all are looked at; 500 ms
}

// Keeper keeps the ISRs of the partitions this broker leads: it asks the
// controller for members that caught up, and for less those that lag. One call
// with many partitions is under way at a time.
type Keeper struct {
	config KeeperConfig
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	wake   chan struct{}

	mu   sync.Mutex
	list []*Partition // to be looked at
}

// NewKeeper makes a Keeper; it asks for nothing before Start.
func NewKeeper(c KeeperConfig) *Keeper {
	if c.LagMax <= 0 {
		c.LagMax = 30 * time.Second
	}
	if c.Every <= 0 {
		c.Every = 500 * time.Millisecond
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Keeper{config: c, ctx: ctx, cancel: cancel, wake: make(chan struct{}, 1)}
}

// Start begins the Keeper's work.
func (k *Keeper) Start() { k.wg.Go(k.run) }

// Close ends it.
func (k *Keeper) Close() {
	k.cancel()
	k.wg.Wait()
}

// Want has a partition's ISR looked at soon. It doesn't block.
func (k *Keeper) Want(p *Partition) {
	k.mu.Lock()
	if !p.pending {
		p.pending = true
		k.list = append(k.list, p)
	}
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// WantAll has all ISRs looked at soon, as when a broker came or went.
func (k *Keeper) WantAll() {
	for p := range k.config.Led {
		k.Want(p)
	}
}

// gather is how long asks are collected, so that thousands go in one call.
const gather = 5 * time.Millisecond

func (k *Keeper) run() {
	ctx := k.ctx
	scan := time.NewTicker(k.config.Every)
	defer scan.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-scan.C:
			k.WantAll()
		case <-k.wake:
			select {
			case <-time.After(gather):
			case <-ctx.Done():
				return
			}
		}
		k.ask(ctx)
	}
}

// take empties the list.
func (k *Keeper) take() []*Partition {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := k.list
	k.list = nil
	for _, p := range list {
		p.pending = false
	}
	return list
}

// ask makes one call of what the listed partitions want.
func (k *Keeper) ask(ctx context.Context) {
	now := time.Now().UnixMilli()
	var asks []ISRAsk
	var from []*Partition
	for _, p := range k.take() {
		if a, ok := p.propose(now, k.config.Usable, k.config.LagMax.Milliseconds()); ok {
			asks, from = append(asks, a), append(from, p)
		}
	}
	if len(asks) == 0 {
		return
	}
	for i, o := range k.config.ChangeISRs(ctx, asks) {
		from[i].answered(asks[i].ISRProposal, o)
	}
}

// propose asks the state for an ISR to propose. That may let the high watermark
// go, which waited for somebody to join.
func (p *Partition) propose(now int64, usable func(offsets.BrokerID) (int64, bool), maxLag int64) (a ISRAsk, ok bool) {
	a = ISRAsk{Topic: p.log.TopicID(), Partition: p.log.TopicPartition().Partition}
	p.change(unknown, func(s *State) {
		if p.gone == nil {
			a.ISRProposal, ok = s.Propose(now, usable, maxLag)
		}
	})
	return a, ok
}

// answered tells the state what became of a proposal.
func (p *Partition) answered(a ISRProposal, o Outcome) {
	p.change(unknown, func(s *State) { s.Answered(a, o) })
}
