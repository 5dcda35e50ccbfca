package broker

import (
	"context"
	"fmt"
	"time"

	"sawlog/broker/peer"
	"sawlog/offsets"
)

// A node without --join founds a cluster when its data directory is empty. That
// is wrong where it was a member before and its disk was replaced: clients who
// know its address would write to a cluster of its own, beside their own. But
// then the others look for it at this address. So it listens a moment before it
// founds, and ends when it hears from them later, as long as it is new.

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
		return b.formerMember(other)
	case <-time.After(foundPause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// formerMember is the error of a node that would found a second cluster.
func (b *Broker) formerMember(other peer.Identity) error {
	return fmt.Errorf("broker: node %d of cluster %s looks for a node of its own at %s, and this data directory is new. "+
		"Was this node's disk replaced? Empty %s and start with --join and this node's --node-id; or take another --peer address",
		other.Node, other.Cluster, b.peers.Addr(), b.config.Dir)
}

// stranger judges a node of another cluster that connects later. One that came
// while this node was joining may turn out to be of its own.
func (b *Broker) stranger(other peer.Identity) {
	if other.Cluster == b.identity().Cluster {
		return
	}
	if b.founded && other.Node != offsets.NoBroker {
		b.fail(b.formerMember(other))
		return
	}
	b.config.Logger.Error("a node of another cluster connects to this one: two nodes have been given one --peer address", "node", int(other.Node), "cluster", other.Cluster)
}
