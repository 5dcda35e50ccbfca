package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sawlog/broker/log"
	"sawlog/broker/peer"
	"sawlog/offsets"
)

// A node without --join founds a cluster when its data directory is empty. That
// is wrong where it was a member before and its disk was replaced: clients who
// know its address would write to a cluster of its own, beside their own. But
// then the others look for it at this address. So it listens a moment before it
// founds, and ends when it hears from them later, as long as it is new; whoever
// starts it again then is told the same.

// A node whose --join names itself among others shares that list with them: they
// start together, and the one whose address sorts first founds the cluster. It
// does once each of the others has said that it belongs to none. If one does, this
// node's disk was replaced, and it joins; one that doesn't answer may be a member,
// so it is waited for.

// foundPause is longer than the pauses in which an active controller looks for
// a node that doesn't answer, and than any node waits before it stands for
// controller (600 to 1,200 ms) where all were started in one moment.
const foundPause = 1500 * time.Millisecond

// meet hears which nodes connect.
func (b *Broker) meet(other peer.Identity) {
	if id := b.identity(); other.Cluster == "" || other.Cluster == id.Cluster {
		return
	}
	select {
	case b.foreign <- other:
	default:
	}
}

// found waits until it may found a cluster. A node whose peer address nobody
// chose has not been told to others.
func (b *Broker) found(ctx context.Context) error {
	b.founded = true
	if b.peers == nil || b.config.PeerOptional {
		return nil
	}
	select {
	case other := <-b.foreign:
		return b.formerMember(other.Cluster)
	case <-time.After(foundPause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// knowSelf takes this node out of those it is told to join, and notes whether it
// is the one of them to found a cluster.
func (b *Broker) knowSelf() error {
	all := b.config.Join
	b.config.Join = nil
	for _, addr := range all {
		if addr == b.peerAddr || addr == b.config.Peer {
			b.founder = addr == slices.Min(all)
			continue
		}
		b.config.Join = append(b.config.Join, addr)
	}
	if len(all) > 0 && len(b.config.Join) == 0 {
		return fmt.Errorf("broker: a node can't join itself at %s: name others too, or nobody to found a cluster", b.peerAddr)
	}
	return nil
}

// askPause is between two rounds of asking others for their cluster.
const askPause = 300 * time.Millisecond

// founds tells whether a node with a new data directory founds a cluster, once
// it may, or joins one.
func (b *Broker) founds(ctx context.Context) (bool, error) {
	if len(b.config.Join) > 0 && !b.founder {
		return false, nil
	}
	for len(b.config.Join) > 0 {
		var silent []string
		for _, addr := range b.config.Join { // all in each round: one may have joined meanwhile
			switch cluster, err := b.clusterOf(ctx, addr); {
			case err != nil:
				silent = append(silent, addr)
			case cluster != "":
				return false, nil
			}
		}
		if len(silent) == 0 {
			break
		}
		b.stage(fmt.Sprintf("it founds a cluster once %s told that they belong to none", strings.Join(silent, ", ")))
		select {
		case <-time.After(askPause):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return true, b.found(ctx)
}

// clusterOf asks the node at an address which cluster it belongs to; "" = none.
func (b *Broker) clusterOf(ctx context.Context, addr string) (string, error) {
	c, err := b.peers.Dial(ctx, addr, peer.Calls, offsets.NoBroker)
	if err != nil {
		return "", err
	}
	return c.Remote.Cluster, c.Close()
}

// FormerMemberError is that of a node that would found, or founded, a second
// cluster beside its own. Another start ends the same way.
type FormerMemberError struct {
	Cluster string // that looks for it
	Addr    string // where
	Dir     string // its data directory
}

func (e *FormerMemberError) Error() string {
	return fmt.Sprintf("broker: cluster %s looks for a node of its own at %s, and the data directory is new. "+
		"Was this node's disk replaced? Empty %s and start with --join and this node's --node-id; or take another --peer address and an empty directory",
		e.Cluster, e.Addr, e.Dir)
}

func (b *Broker) formerMember(cluster string) error {
	return &FormerMemberError{Cluster: cluster, Addr: b.peerAddr, Dir: b.config.Dir}
}

// stranger judges a node of another cluster that connects later. One that came
// while this node was joining may turn out to be of its own.
func (b *Broker) stranger(other peer.Identity) {
	if other.Cluster == b.identity().Cluster {
		return
	}
	if b.founded && other.Node != offsets.NoBroker {
		err := b.formerMember(other.Cluster)
		b.fail(errors.Join(err, b.disk.ChangeMeta(func(m *log.Meta) { m.Beside = other.Cluster })))
		return
	}
	b.config.Logger.Error("a node of another cluster connects to this one: two nodes have been given one --peer address", "node", int(other.Node), "cluster", other.Cluster)
}
