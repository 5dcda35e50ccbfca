package broker

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"sawlog/broker/controller"
)

// A broker's registration: it tells the cluster that this process serves, from
// this data directory, and gets an epoch for that.

// againMost is how often a broker may be registered anew within againTime. More
// often means that two processes take the place from each other.
const (
	againMost = 3
	againTime = time.Minute
)

// again is what a broker remembers of being registered anew.
type again struct {
	busy  atomic.Bool // it is being done
	times int
	since time.Time // the first of times
}

// register tells the controller that this broker starts. Beside others it comes
// into service only by its first heartbeats.
func (b *Broker) register(ctx context.Context) error {
	epoch, err := b.announce(ctx, b.disk.CleanStart() || b.disk.SameBoot(), b.disk.PreviousBrokerEpoch())
	if err != nil {
		return fmt.Errorf("register the broker: %w", err)
	}
	b.epoch.Store(epoch)
	return b.disk.SetBrokerEpoch(epoch)
}

// announce asks for a registration. Intact says that nothing acknowledged was
// lost since an epoch.
func (b *Broker) announce(ctx context.Context, intact bool, since int64) (epoch int64, err error) {
	endpoints := []controller.Endpoint{{Listener: clientListener, Host: b.host, Port: b.port}}
	for _, e := range [][2]string{{peerListener, b.peerAddr}, {httpListener, b.config.HTTP}} {
		if e[1] == "" {
			continue
		}
		host, port, err := splitAddress(e[1])
		if err != nil {
			return 0, fmt.Errorf("broker: address of %s: %w", e[0], err)
		}
		endpoints = append(endpoints, controller.Endpoint{Listener: e[0], Host: host, Port: port})
	}
	return b.controller.RegisterBroker(ctx, controller.Registration{
		ID:            b.nodeID,
		Incarnation:   b.incarnation,
		Directory:     b.directory,
		Endpoints:     endpoints,
		Rack:          b.config.Rack,
		Fenced:        b.among(),
		Intact:        intact,
		PreviousEpoch: since,
	})
}

// registerAgain is for a broker that is told that its epoch is not the present
// one: another registration under its id has come, perhaps that of the process
// before, late. The goroutine of heartbeats waits for no disk, so it is done
// beside it.
func (b *Broker) registerAgain() {
	if !b.again.busy.CompareAndSwap(false, true) {
		return
	}
	b.wg.Go(func() {
		defer b.again.busy.Store(false)
		ctx, cancel := context.WithTimeout(b.beating, drainTime)
		defer cancel()
		if err := b.takeBack(ctx); err != nil {
			b.fail(err)
		}
	})
}

// takeBack registers the broker anew if the other registration was from its own
// data directory. What meets no controller is tried again at a later heartbeat.
func (b *Broker) takeBack(ctx context.Context) error {
	if err := b.controller.Barrier(ctx); err != nil {
		return nil // the next heartbeat begins anew
	}
	old := b.epoch.Load()
	now, ok := b.controller.Image().Broker(b.nodeID)
	switch {
	case !ok || now.Epoch == old:
		return nil
	case now.Directory != b.directory:
		return fmt.Errorf("node %d serves from another data directory now, which took the place of %s: to make this a node of its own, start it on an empty data directory without --node-id", b.nodeID, b.config.Dir)
	}
	if time.Since(b.again.since) > againTime {
		b.again.times, b.again.since = 0, time.Now()
	}
	if b.again.times++; b.again.times > againMost {
		return fmt.Errorf("node %d is registered again and again by another process, from a copy of %s: only one of the copies may be started", b.nodeID, b.config.Dir)
	}
	epoch, err := b.announce(ctx, true, old)
	if err != nil {
		b.config.Logger.Warn("the broker is not registered anew yet", "error", err)
		return nil
	}
	b.config.Logger.Warn("another registration had come under this node's id: the broker is registered anew", "epoch", epoch, "was", old, "between", now.Epoch)
	b.epoch.Store(epoch)
	return b.disk.SetBrokerEpoch(epoch)
}
