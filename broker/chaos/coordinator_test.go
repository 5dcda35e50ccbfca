//go:build linux

package chaos

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/compat/peer"
)

var groupsFlag = flag.Int("groups", 10_000, "groups of TestFailoverOfCoordinator, each with offsets of a hundred partitions")

const (
	readTopic      = "read"
	readPartitions = 100
	asked          = 200 // groups per request
)

// Soon after the coordinator of a million committed offsets was killed, commits
// and fetches work again, and every offset is what was acknowledged last. All
// groups are the victim's; the first kill follows the last commit at once. An
// answer without an error that isn't right is a fault whenever it comes.
func TestFailoverOfCoordinator(t *testing.T) {
	c, err := openCluster(t, room(t, "coordinator"), shape{size: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.createTopic(readTopic, readPartitions, 3, nil); err != nil {
		t.Fatal(err)
	}
	settle := func() {
		t.Helper()
		if err := await(patience, func() error {
			if c.coordinator("any") == 0 { // who asks first makes the topic
				return errors.New("no coordinator")
			}
			return c.healed(readTopic, "__consumer_offsets")
		}); err != nil {
			t.Fatal(err)
		}
	}
	settle()
	victim := c.node(c.coordinator("any"))
	survivors := slices.DeleteFunc(slices.Clone(c.nodes), func(n *node) bool { return n == victim })
	groups := groupsOf(t, victim, *groupsFlag)
	began := time.Now()
	commitAll(t, victim, groups)
	t.Logf("%d offsets of %d groups committed by node %d in %s", len(groups)*readPartitions, len(groups), victim.id, time.Since(began).Round(time.Millisecond))
	beside := watchOthers(t, c.nodes)
	var times []time.Duration
	for round := range *roundsFlag {
		times = append(times, takeover(t, survivors, victim, groups, round))
		checkCommitted(t, survivors, groups)
		if err := victim.start(); err != nil {
			t.Fatal(err)
		}
		settle()
		if err := await(patience, func() error {
			if err := c.electPreferred(); err != nil {
				return err
			}
			return coordinates(victim, groups)
		}); err != nil {
			t.Fatal(err)
		}
		checkCommitted(t, []*node{victim}, groups)
	}
	t.Logf("the last group after its coordinator was killed: %s", spread(times))
	beside.judge(t, "the last group after its coordinator was killed", times, time.Second)
}

// committing is a group and what it last committed.
type committing struct {
	name string
	at   [readPartitions]int64
}

// groupsOf finds groups a node coordinates, with offsets that differ.
func groupsOf(t *testing.T, n *node, count int) []*committing {
	t.Helper()
	var all []*committing
	for tried := 0; len(all) < count; tried += asked {
		var names []string
		for i := range asked {
			names = append(names, fmt.Sprintf("group-%d", tried+i))
		}
		at, err := coordinators(n, names)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if at[name] == n.id && len(all) < count {
				g := &committing{name: name}
				for p := range g.at {
					g.at[p] = int64(len(all)*readPartitions + p + 1)
				}
				all = append(all, g)
			}
		}
	}
	return all
}

// coordinators asks a node who coordinates groups.
func coordinators(n *node, names []string) (map[string]int32, error) {
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKeys = 4, names
	resp, err := ask(n.kafka, find, askLimit)
	if err != nil {
		return nil, err
	}
	at := map[string]int32{}
	for _, k := range resp.(*kmsg.FindCoordinatorResponse).Coordinators {
		if err := kerr.ErrorForCode(k.ErrorCode); err != nil {
			return nil, fmt.Errorf("%s: %w", k.Key, err)
		}
		at[k.Key] = k.NodeID
	}
	return at, nil
}

// coordinates says which group isn't a node's yet.
func coordinates(n *node, groups []*committing) error {
	for some := range slices.Chunk(groups, asked) {
		got, err := fetchGroups(n, some)
		if err != nil {
			return err
		}
		for _, g := range got {
			if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
				return fmt.Errorf("node %d: %s: %w", n.id, g.Group, err)
			}
		}
	}
	return nil
}

// commitAll commits what all groups are to have.
func commitAll(t *testing.T, n *node, groups []*committing) {
	t.Helper()
	var wg sync.WaitGroup
	for some := range slices.Chunk(groups, (len(groups)+7)/8) {
		wg.Go(func() {
			conn, err := peer.Dial(t.Context(), n.kafka)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }() // its answers were read
			for _, g := range some {
				if err := g.commit(conn, g.at, patience); err != nil {
					t.Errorf("%s: %v", g.name, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// commit commits offsets of every partition.
func (g *committing) commit(conn *peer.Conn, at [readPartitions]int64, limit time.Duration) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 7, g.name, -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = readTopic
	for p, offset := range at {
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset = int32(p), offset
		topic.Partitions = append(topic.Partitions, part)
	}
	req.Topics = append(req.Topics, topic)
	resp, err := conn.Ask(req, limit)
	if err != nil {
		return err
	}
	taken := 0
	for _, topic := range resp.(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range topic.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
			taken++
		}
	}
	if taken != readPartitions {
		return fmt.Errorf("answers for %d partitions of %d", taken, readPartitions)
	}
	return nil
}

// fetchRequest asks for all offsets of groups.
func fetchRequest(groups []*committing) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 8
	topic := kmsg.NewOffsetFetchRequestGroupTopic()
	topic.Topic = readTopic
	for p := range int32(readPartitions) {
		topic.Partitions = append(topic.Partitions, p)
	}
	for _, g := range groups {
		one := kmsg.NewOffsetFetchRequestGroup()
		one.Group, one.Topics = g.name, []kmsg.OffsetFetchRequestGroupTopic{topic}
		req.Groups = append(req.Groups, one)
	}
	return req
}

// fetchGroups asks a node for all offsets of groups.
func fetchGroups(n *node, groups []*committing) ([]kmsg.OffsetFetchResponseGroup, error) {
	resp, err := ask(n.kafka, fetchRequest(groups), patience)
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.OffsetFetchResponse).Groups, nil
}

// compare says what of an answer without an error isn't as it was committed.
func (g *committing) compare(said kmsg.OffsetFetchResponseGroup) error {
	right := 0
	for _, topic := range said.Topics {
		for _, p := range topic.Partitions {
			if p.ErrorCode != 0 || p.Partition < 0 || p.Partition >= readPartitions || p.Offset != g.at[p.Partition] {
				return fmt.Errorf("%s: partition %d of %s is told at %d (code %d), not where it was committed", g.name, p.Partition, topic.Topic, p.Offset, p.ErrorCode)
			}
			right++
		}
	}
	if right != readPartitions {
		return fmt.Errorf("%s: %d partitions of %d are told", g.name, right, readPartitions)
	}
	return nil
}

// checkCommitted compares every offset of every group.
func checkCommitted(t *testing.T, nodes []*node, groups []*committing) {
	t.Helper()
	for some := range slices.Chunk(groups, asked) {
		answered := map[string]bool{}
		for _, n := range nodes {
			got, err := fetchGroups(n, some)
			if err != nil {
				t.Fatal(err)
			}
			for i, said := range got {
				if said.ErrorCode == kerr.NotCoordinator.Code {
					continue
				}
				answered[said.Group] = true
				if err := cmp.Or(kerr.ErrorForCode(said.ErrorCode), some[i].compare(said)); err != nil {
					t.Errorf("node %d: %s: %v", n.id, said.Group, err)
				}
			}
		}
		if len(answered) != len(some) {
			t.Errorf("%d of %d groups have a coordinator", len(answered), len(some))
		}
	}
}

// pending is the groups that still wait for a first right answer.
type pending struct {
	mu   sync.Mutex
	left []*committing
	last time.Time // of the answers
}

// now is what is left.
func (w *pending) now() []*committing {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.left)
}

// answered takes a group out.
func (w *pending) answered(g *committing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.left, g); i >= 0 {
		w.left, w.last = slices.Delete(w.left, i, i+1), time.Now()
	}
}

// keptIn is the partition of __consumer_offsets a group's offsets are in: Java's
// hash of its name, of fifty.
func (g *committing) keptIn() int32 {
	var hash int32
	for _, r := range g.name { // it is ASCII
		hash = 31*hash + r
	}
	return hash & 0x7fffffff % 50
}

// takeover kills the coordinator and says how long after that another node has
// told the offsets of a group of each partition the victim kept offsets in, and
// taken a commit of another group of each.
func takeover(t *testing.T, survivors []*node, victim *node, groups []*committing, round int) time.Duration {
	t.Helper()
	var read, write []*committing
	seen := map[int32]int{}
	for _, g := range groups {
		p := g.keptIn()
		seen[p]++
		switch seen[p] {
		case 1:
			read = append(read, g)
		case 2:
			write = append(write, g)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	fetched, committed := &pending{left: read}, &pending{left: write}
	var wg sync.WaitGroup
	conns := map[*node][2]*peer.Conn{}
	for _, n := range survivors {
		var pair [2]*peer.Conn
		for i := range pair {
			conn, err := peer.Dial(ctx, n.kafka)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }() // its answers were read
			pair[i] = conn
		}
		conns[n] = pair
	}
	spent := spend(t, survivors)
	killed := time.Now()
	victim.kill()
	for n, pair := range conns {
		wg.Go(func() { fetched.fetch(t, ctx, n, pair[0]) })
		wg.Go(func() { committed.commit(t, ctx, n, pair[1], int64(round+1)*1_000_000_000) })
	}
	wg.Wait()
	for what, w := range map[string]*pending{"told their offsets": fetched, "able to commit": committed} {
		if len(w.left) > 0 {
			t.Fatalf("%d groups aren't %s after %s", len(w.left), what, patience)
		}
	}
	first, second := fetched.last.Sub(killed), committed.last.Sub(killed)
	t.Logf("round %d: node %d killed: the last of %d groups was told its offsets after %s, the last of %d could commit after %s; %s",
		round, victim.id, len(read), first.Round(time.Millisecond), len(write), second.Round(time.Millisecond), spent.end(t, killed, victim))
	return max(first, second)
}

// fetch asks a node for what is left until none is.
func (w *pending) fetch(t *testing.T, ctx context.Context, n *node, conn *peer.Conn) {
	for ctx.Err() == nil {
		some := w.now()
		if len(some) == 0 {
			return
		}
		resp, err := conn.Ask(fetchRequest(some), patience)
		if err != nil {
			t.Errorf("node %d: %v", n.id, err)
			return
		}
		for i, said := range resp.(*kmsg.OffsetFetchResponse).Groups {
			if said.ErrorCode != 0 {
				continue // another node's, or not yet
			}
			if err := some[i].compare(said); err != nil {
				t.Errorf("node %d: %v", n.id, err)
			}
			w.answered(some[i])
		}
		time.Sleep(2 * time.Millisecond) // other processes act
	}
}

// commit commits for what is left, each offset farther on, until none is.
func (w *pending) commit(t *testing.T, ctx context.Context, n *node, conn *peer.Conn, farther int64) {
	for ctx.Err() == nil {
		some := w.now()
		if len(some) == 0 {
			return
		}
		for _, g := range some {
			at := g.at
			for p := range at {
				at[p] = farther + int64(p)
			}
			err := g.commit(conn, at, patience)
			if err == nil {
				g.at = at // only the coordinator comes here
				w.answered(g)
			} else if _, refused := errors.AsType[*kerr.Error](err); !refused {
				t.Errorf("node %d: %v", n.id, err)
				return
			}
		}
		time.Sleep(2 * time.Millisecond) // other processes act
	}
}
