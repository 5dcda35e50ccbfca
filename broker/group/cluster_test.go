package group

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// cluster is one replicated partition of __consumer_offsets in memory: a log on
// each of three brokers, followers that copy from the leader a batch at a time,
// a high watermark by the replicas in sync, elections by hand. It has no rules
// for races between them: whoever drives it takes one step after the other.
type cluster struct {
	t      *testing.T
	mu     sync.Mutex
	moved  chan struct{} // closed and made anew when anything changed
	nodes  []*clusterNode
	leader int // −1 = none
	epoch  offsets.Epoch
	since  offsets.Offset // where the epoch began in the leader's log
}

// clusterNode is one broker: its replica, and its coordinator while it is up.
type clusterNode struct {
	log     fakeLog
	sync    bool           // in the ISR
	known   offsets.Offset // end of its log as the leader of this epoch knows
	up      bool
	path    string // of the store's file; empty = in memory
	rig     *rig
	epoch   offsets.Epoch  // of the leader, as this broker knows
	highest offsets.Offset // high watermark it ever had
	leads   bool
}

func newCluster(t *testing.T, dir string) *cluster {
	c := &cluster{t: t, moved: make(chan struct{}), leader: -1}
	for i := range 3 {
		n := &clusterNode{sync: true}
		if dir != "" {
			n.path = filepath.Join(dir, fmt.Sprint("offsets-", i))
		}
		c.nodes = append(c.nodes, n)
		c.start(i)
	}
	c.elect(0)
	return c
}

func (c *cluster) start(i int) {
	n := c.nodes[i]
	store, err := offsets.OpenStore(offsets.StoreConfig{Path: n.path, Mmap: 1 << 20})
	if err != nil {
		c.t.Fatal(err)
	}
	config := newFakeTopic().config(store)
	config.Partitions = 1
	config.Append = func(ctx context.Context, _ int32, epoch offsets.Epoch, b record.Batch) (offsets.Offset, error) {
		return c.append(ctx, i, epoch, b)
	}
	config.View = func(int32) (View, bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return View{
			Leads: n.leads, Epoch: n.epoch, Settled: n.leads && n.epoch == c.epoch && n.log.high >= c.since,
			LogStart: 0, HighWatermark: n.log.high, LogEnd: n.log.end(),
		}, true
	}
	config.Read = func(_ int32, from, below offsets.Offset, _ int) (out []byte, err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, b := range n.log.batches {
			if b.LastOffset() >= from && b.BaseOffset() < below && len(out) < 300 {
				out = append(out, b...)
			}
		}
		return out, nil
	}
	config.EpochAt = func(_ int32, at offsets.Offset) offsets.Epoch {
		c.mu.Lock()
		defer c.mu.Unlock()
		return n.log.epochAt(at)
	}
	config.Fail = func(err error) { c.t.Errorf("store of %d: %v", i, err) }
	co, err := New(config)
	if err != nil {
		c.t.Fatal(err)
	}
	n.rig = &rig{Coordinator: co, t: c.t, store: store, path: n.path}
	n.up = true
}

// append is an append with acks=all.
func (c *cluster) append(ctx context.Context, i int, epoch offsets.Epoch, b record.Batch) (offsets.Offset, error) {
	n := c.nodes[i]
	c.mu.Lock()
	if !n.leads || n.epoch != epoch {
		c.mu.Unlock()
		return 0, kerr.FencedLeaderEpoch
	}
	b = append(record.Batch(nil), b...)
	base := n.log.end()
	b.Stamp(base, epoch)
	n.log.batches = append(n.log.batches, b)
	for n.log.high <= base {
		moved := c.moved
		c.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		c.mu.Lock()
		if !n.leads || n.epoch != epoch {
			c.mu.Unlock()
			return 0, kerr.NotLeaderForPartition
		}
	}
	c.mu.Unlock()
	return base, nil
}

// change does something to the replicas and tells the coordinators, which then
// do all they can.
func (c *cluster) change(fn func()) {
	c.mu.Lock()
	fn()
	if l := c.leading(); l != nil && l.epoch == c.epoch {
		l.known = l.log.end()
		high := l.known
		for _, n := range c.nodes {
			if n.sync {
				high = min(high, n.known)
			}
		}
		l.log.high = max(l.log.high, high)
	}
	close(c.moved)
	c.moved = make(chan struct{})
	c.mu.Unlock()
	for _, n := range c.nodes {
		if n.up {
			n.rig.Advance(0, 0)
		}
	}
	synctest.Wait()
}

func (c *cluster) leading() *clusterNode {
	if c.leader < 0 {
		return nil
	}
	return c.nodes[c.leader]
}

// fetch lets a follower copy at most n batches, after it cut off what the
// leader's log does not have.
func (c *cluster) fetch(i, most int) {
	c.tell(i)
	c.change(func() {
		l, n := c.leading(), c.nodes[i]
		if l == nil || l == n || !l.up || !n.up || l.epoch != c.epoch {
			return
		}
		same := 0
		for same < len(n.log.batches) && same < len(l.log.batches) && n.log.batches[same].Epoch() == l.log.batches[same].Epoch() {
			same++
		}
		n.log.batches = n.log.batches[:same]
		for range most {
			if at := len(n.log.batches); at < len(l.log.batches) {
				n.log.batches = append(n.log.batches, l.log.batches[at])
			}
		}
		n.known = n.log.end()
		n.log.high = min(l.log.high, n.known)
		if l.log.high >= c.since && n.log.end() >= l.log.high {
			n.sync = true
		}
	})
}

// elect makes a broker the leader of a new epoch; the old one does not hear of
// it before it is told.
func (c *cluster) elect(i int) {
	n := c.nodes[i]
	n.rig.Resigned(0)
	c.change(func() {
		c.epoch++
		c.leader, c.since = i, n.log.end()
		n.leads, n.epoch = true, c.epoch
		for _, other := range c.nodes {
			other.sync, other.known = other.sync && other.up, 0
		}
	})
	n.rig.Elected(0, n.epoch)
	synctest.Wait()
}

// tell lets a broker hear who leads.
func (c *cluster) tell(i int) {
	n := c.nodes[i]
	if !n.up || c.leader == i || n.epoch == c.epoch {
		return
	}
	n.rig.Resigned(0)
	c.change(func() { n.leads, n.epoch = false, c.epoch })
}

// crash kills a broker: its store falls back to the last flush, its log and its
// place among the replicas stay until somebody else is elected.
func (c *cluster) crash(i int) {
	n := c.nodes[i]
	var kept []byte
	if n.path != "" {
		var err error
		if kept, err = os.ReadFile(n.path); err != nil {
			c.t.Fatal(err)
		}
	}
	c.change(func() { n.leads, n.up = false, false })
	n.rig.stop()
	if n.path != "" {
		if err := os.WriteFile(n.path, kept, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	if c.leader == i {
		c.leader = -1
	}
}

// restart brings a broker back as a follower that knows no high watermark.
func (c *cluster) restart(i int) {
	c.nodes[i].log.high = 0
	c.start(i)
	synctest.Wait()
}

func (c *cluster) stop() {
	for _, n := range c.nodes {
		if n.up {
			n.rig.stop()
		}
	}
}

func (l *fakeLog) epochAt(at offsets.Offset) offsets.Epoch {
	for _, b := range l.batches {
		if b.BaseOffset() <= at && at <= b.LastOffset() {
			return b.Epoch()
		}
	}
	return offsets.NoEpoch
}

// committer is a client that commits ever higher offsets for one partition, one
// commit at a time, to whoever it takes for the coordinator.
type committer struct {
	partition int32
	last      int64 // tried
	floor     int64 // acknowledged, or seen by a fetch: never less again
	waits     <-chan *kmsg.OffsetCommitResponse
}

// poll takes the answer if it has come.
func (m *committer) poll() {
	if m.waits == nil {
		return
	}
	select {
	case a := <-m.waits:
		m.waits = nil
		if a.Topics[0].Partitions[0].ErrorCode == 0 {
			m.floor = m.last
		}
	default:
	}
}

// TestOffsetsNeverGoBack drives three brokers through random elections, crashes
// and lagging followers. Whatever a coordinator acknowledged or has shown to a
// fetch is never answered by less afterwards, but for an unclean election, after
// which the new leader's log is the truth. In the end every broker's store holds
// what the log says, and without unclean elections none was ever made anew.
func TestOffsetsNeverGoBack(t *testing.T) {
	for seed := range uint64(120) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dir := ""
			if seed%8 == 0 {
				dir = t.TempDir()
			}
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, dir)
				defer c.stop()
				w := &clusterWalk{cluster: c, rnd: rand.New(rand.NewPCG(seed, 4)), unclean: seed%4 == 3}
				for i := range int32(3) {
					w.clients = append(w.clients, &committer{partition: i})
				}
				for range 200 {
					w.step()
				}
				w.heal()
			})
		})
	}
}

// clusterWalk is a random walk of a cluster and its clients.
type clusterWalk struct {
	*cluster
	rnd     *rand.Rand
	clients []*committer
	unclean bool
}

func (w *clusterWalk) step() {
	i := w.rnd.IntN(len(w.nodes))
	n := w.nodes[i]
	switch action := w.rnd.IntN(100); {
	case action < 35:
		w.fetch(i, 1+w.rnd.IntN(3))
	case action < 60:
		w.commit(w.clients[w.rnd.IntN(len(w.clients))], i)
	case action < 70:
		w.check(i)
	case action < 78:
		w.tell(i)
	case action < 82 && n.up && w.leader >= 0 && w.leader != i: // falls out of the ISR
		w.change(func() { n.sync = false })
	case action < 86 && n.up && w.up() > 1:
		w.crash(i)
	case action < 92 && !n.up:
		w.restart(i)
	case action < 95 && n.up && n.sync:
		w.elect(i)
	case action >= 95 && n.up && w.unclean:
		w.electUnclean(i)
	default:
		pass(200e6)
	}
	for _, m := range w.clients {
		m.poll()
	}
	if w.leader >= 0 {
		w.check(w.leader)
	}
	w.stores()
}

// stores compares each store with the log it was made of, at the high watermark
// it has reached; none is ever ahead of one.
func (w *clusterWalk) stores() {
	for i, n := range w.nodes {
		if !n.up {
			continue
		}
		n.highest = max(n.highest, n.log.high)
		at := n.rig.store.Applied(0).Offset
		if at > n.highest {
			w.t.Fatalf("broker %d has applied up to %d, its high watermark was %d at most", i, at, n.highest)
		}
		if at != n.log.high {
			continue
		}
		want := n.log.commits(w.t, at)
		for _, m := range w.clients {
			have, _, err := n.rig.store.Offset(0, "g", offsets.TopicPartition{Topic: "t", Partition: m.partition})
			if err != nil || have.Offset != want[m.partition] {
				w.t.Fatalf("broker %d has applied up to %d and holds %d of partition %d, its log says %d (%v)", i, at, have.Offset, m.partition, want[m.partition], err)
			}
		}
	}
}

// commits folds what a log says below an offset.
func (l *fakeLog) commits(t *testing.T, below offsets.Offset) map[int32]offsets.Offset {
	out := map[int32]offsets.Offset{}
	var it record.Iterator
	for _, b := range l.batches {
		if b.BaseOffset() >= below {
			break
		}
		if err := it.Reset(b); err != nil {
			t.Fatal(err)
		}
		for it.Next() {
			c, ok, err := decodeRecord(it.Record())
			if err != nil || !ok {
				t.Fatalf("record %v %v", ok, err)
			}
			out[c.Partition] = c.Commit.Offset
		}
	}
	return out
}

func (w *clusterWalk) up() (n int) {
	for _, node := range w.nodes {
		if node.up {
			n++
		}
	}
	return n
}

func (w *clusterWalk) commit(m *committer, i int) {
	if n := w.nodes[i]; n.up && m.waits == nil {
		m.last++
		m.waits = begin(n.rig.OffsetCommit, commitRequest(outsider("g"), "t", m.partition, m.last))
		synctest.Wait()
		m.poll()
	}
}

// check asks a broker for the offsets. One that was deposed and does not know is
// left out: it has nothing newer, and no client that commits elsewhere asks it.
func (w *clusterWalk) check(i int) {
	n := w.nodes[i]
	if !n.up || n.epoch != w.epoch {
		return
	}
	for _, m := range w.clients {
		p := n.rig.fetch("g", "t", m.partition)
		if p.ErrorCode != 0 {
			continue
		}
		have := max(p.Offset, 0)
		if have < m.floor || have > m.last {
			w.t.Fatalf("partition %d: broker %d answers %d; %d was acknowledged or seen before, %d tried", m.partition, i, have, m.floor, m.last)
		}
		m.floor = have
	}
}

// electUnclean takes a leader that may lack what was acknowledged.
func (w *clusterWalk) electUnclean(i int) {
	w.change(func() {
		for j, n := range w.nodes {
			n.sync = j == i
		}
	})
	w.elect(i)
	for _, m := range w.clients {
		m.floor = 0
		if m.waits != nil {
			pass(6e9) // whatever is under way is over
			m.poll()
			m.floor = 0
		}
	}
}

// heal brings all back and compares.
func (w *clusterWalk) heal() {
	for i, n := range w.nodes {
		if !n.up {
			w.restart(i)
		}
	}
	best := slices.IndexFunc(w.nodes, func(n *clusterNode) bool { return n.sync })
	if best < 0 {
		w.t.Fatal("nobody is in sync")
	}
	w.elect(best)
	for range 2 {
		for i := range w.nodes {
			w.tell(i)
			w.fetch(i, 1000)
		}
	}
	pass(6e9)
	for _, m := range w.clients {
		m.poll()
		if m.waits != nil {
			w.t.Fatalf("partition %d: a commit was never answered", m.partition)
		}
		w.commit(m, best)
	}
	for range 6 { // one commit after the other goes out and comes back
		for i := range w.nodes {
			w.fetch(i, 1000)
		}
	}
	w.check(best)
	for _, m := range w.clients {
		m.poll()
		if m.floor != m.last {
			w.t.Errorf("partition %d: committed %d, the last was %d", m.partition, m.floor, m.last)
		}
	}
	for i, n := range w.nodes {
		for _, m := range w.clients {
			have, _, err := n.rig.store.Offset(0, "g", offsets.TopicPartition{Topic: "t", Partition: m.partition})
			if err != nil || int64(have.Offset) != m.last {
				w.t.Errorf("the store of %d has %d of partition %d, want %d (%v)", i, have.Offset, m.partition, m.last, err)
			}
		}
		if rebuilds := n.rig.Metrics().Rebuilds; rebuilds > 0 && !w.unclean {
			w.t.Errorf("broker %d applied %d times anew though nothing committed was ever lost", i, rebuilds)
		}
	}
}
