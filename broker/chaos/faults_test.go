//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// step is a fault of a plan: what, whom, when.
type step struct {
	kind   string
	target string        // leader, follower, controller, coordinator, any or all
	pause  time.Duration // before it
	hold   time.Duration // how long it lasts
	pick   uint64        // which of those it may be done to
}

// fault is what was done.
type fault struct {
	Kind   string  `json:"kind"`
	Target string  `json:"target,omitempty"`
	Nodes  []int32 `json:"nodes,omitempty"`
	At     int64   `json:"at_ms"`
	Held   int64   `json:"held_ms"`
	Out    int64   `json:"out_ms"` // the longest time a partition took no writes from then on, until the next fault
	Note   string  `json:"note,omitempty"`
	Failed string  `json:"failed,omitempty"` // why it could not be done
}

// kind is a way to do harm: run does it, holds it for the step's time, and
// undoes it.
type kind struct {
	name    string
	targets []string
	least   time.Duration
	most    time.Duration
	needs   string // network, volumes, clocks, room for more nodes, or nothing
	run     func(*mischief, step, *fault) error
}

var (
	anyone  = []string{"leader", "follower", "controller", "coordinator", "any"}
	all     = []string{"all"}
	nothing = []string{""}
)

// kinds are all of them. A long pause is one beyond every session.
var kinds = []kind{
	{"kill", anyone, 0, 4 * time.Second, "", (*mischief).killNodes},
	{"kill all", all, 0, 4 * time.Second, "", (*mischief).killNodes},
	{"kill twice", anyone, 100 * time.Millisecond, time.Second, "", (*mischief).killTwice},
	{"stop", anyone, 100 * time.Millisecond, 3 * time.Second, "", (*mischief).pauseNodes},
	{"stop all", all, 100 * time.Millisecond, 6 * time.Second, "", (*mischief).pauseNodes},
	{"stop long", anyone, 3 * time.Second, 20 * time.Second, "", (*mischief).pauseNodes},
	{"restart", anyone, 0, time.Second, "", (*mischief).restartNode},
	{"rolling restart", nothing, 0, 0, "", (*mischief).rollingRestart},
	{"isolate", anyone, time.Second, 8 * time.Second, "network", (*mischief).isolate},
	{"isolate outward", anyone, time.Second, 8 * time.Second, "network", (*mischief).isolate},
	{"isolate inward", anyone, time.Second, 8 * time.Second, "network", (*mischief).isolate},
	{"isolate all", all, time.Second, 4 * time.Second, "network", (*mischief).isolate},
	{"cut a pair", anyone, time.Second, 6 * time.Second, "network", (*mischief).isolate},
	{"disk full", anyone, 2 * time.Second, 6 * time.Second, "volumes", (*mischief).fillDisk},
	{"disk full all", all, 2 * time.Second, 4 * time.Second, "volumes", (*mischief).fillDisk},
	{"disk stalls", anyone, 300 * time.Millisecond, 4 * time.Second, "volumes", (*mischief).freezeDisk},
	{"slow disk", anyone, 2 * time.Second, 6 * time.Second, "", (*mischief).slowDisk},
	{"power cut", anyone, 0, 3 * time.Second, "volumes", (*mischief).cutPower},
	{"disk replaced", anyone, 0, 3 * time.Second, "", (*mischief).replaceDisk},
	{"wrong clock", anyone, 2 * time.Second, 6 * time.Second, "clocks", (*mischief).misleadClock},
	{"reassign", nothing, time.Second, 3 * time.Second, "", (*mischief).reassign},
	{"elect preferred", nothing, 0, 0, "", (*mischief).elect},
	{"broker joins", nothing, 2 * time.Second, 4 * time.Second, "room", (*mischief).joinBroker},
	{"broker leaves", nothing, 0, time.Second, "room", (*mischief).leaveBroker},
}

// planned is the order of faults of a seed, more than time allows. Every kind
// comes once before one comes again.
func planned(seed uint64, able func(needs string) bool, only []string) []step {
	rng := rand.New(rand.NewPCG(seed, 0x5a31))
	var plan []step
	for range 4 {
		deck := slices.Clone(kinds)
		rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		for _, k := range deck {
			// Drawn for every kind, so that a machine that lacks one does the
			// others as any machine.
			s := step{
				kind: k.name, target: k.targets[rng.IntN(len(k.targets))],
				pause: time.Duration(rng.Int64N(int64(2500 * time.Millisecond))),
				hold:  k.least + time.Duration(rng.Int64N(int64(k.most-k.least)+1)), pick: rng.Uint64(),
			}
			if able(k.needs) && (len(only) == 0 || slices.Contains(only, k.name)) {
				plan = append(plan, s)
			}
		}
	}
	return plan
}

// mischief carries a plan out.
type mischief struct {
	c        *cluster
	h        *history
	faults   []fault
	founders int // nodes the run began with
}

// able says whether this cluster can have what a kind needs.
func (m *mischief) able(needs string) bool {
	switch needs {
	case "network":
		return m.c.net != nil
	case "volumes":
		return m.c.volumes
	case "clocks":
		return noClocks() == nil
	case "room":
		return m.hasRoom()
	}
	return true
}

// carryOut does what is planned until time is up, and heals.
func (m *mischief) carryOut(plan []step, lasts time.Duration) error {
	end := m.h.now() + lasts
	for _, s := range plan {
		left := end - m.h.now()
		if left <= s.pause {
			break
		}
		time.Sleep(s.pause)
		s.hold = min(s.hold, max(0, end-m.h.now()))
		f := fault{Kind: s.kind, Target: s.target, At: m.h.now().Milliseconds()}
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == s.kind })
		if err := kinds[i].run(m, s, &f); err != nil {
			f.Failed = err.Error()
		}
		f.Held = m.h.now().Milliseconds() - f.At
		m.faults = append(m.faults, f)
	}
	return m.recover()
}

// recover undoes everything and starts every node that belongs to the cluster.
func (m *mischief) recover() error {
	err := m.c.heal()
	for _, n := range m.c.nodes {
		if !n.left {
			err = errors.Join(err, n.start())
		}
	}
	return err
}

// victims are the nodes a step is about.
func (m *mischief) victims(s step, f *fault) []*node {
	members := slices.DeleteFunc(slices.Clone(m.c.nodes), func(n *node) bool { return n.left || n.lives == 0 })
	if s.target == "all" {
		for _, n := range members {
			f.Nodes = append(f.Nodes, n.id)
		}
		return members
	}
	n := m.c.node(m.pick(s))
	if n == nil || n.left {
		n = members[s.pick%uint64(len(members))]
		f.Target += " (unknown)"
	}
	f.Nodes = []int32{n.id}
	return []*node{n}
}

// pick is the id of the node that is what the target says, 0 when nobody knows.
func (m *mischief) pick(s step) int32 {
	switch s.target {
	case "controller":
		return m.c.controller()
	case "coordinator":
		return m.c.coordinator(groupName)
	case "leader", "follower":
		for _, n := range m.c.running() {
			all, err := partitions(n.kafka, events)
			if err != nil || len(all) == 0 {
				continue
			}
			p := all[s.pick%uint64(len(all))]
			if s.target == "leader" {
				return p.Leader
			}
			for _, id := range p.ISR {
				if id != p.Leader {
					return id
				}
			}
		}
	default:
		all := m.c.running()
		if len(all) > 0 {
			return all[s.pick%uint64(len(all))].id
		}
	}
	return 0
}

func (m *mischief) killNodes(s step, f *fault) error {
	nodes := m.victims(s, f)
	for _, n := range nodes {
		n.kill()
	}
	time.Sleep(s.hold)
	return startAll(nodes)
}

// killTwice kills a node again while it recovers.
func (m *mischief) killTwice(s step, f *fault) error {
	nodes := m.victims(s, f)
	for _, n := range nodes {
		n.kill()
		if err := n.start(); err != nil {
			return err
		}
		time.Sleep(s.hold)
		n.kill()
	}
	return startAll(nodes)
}

func startAll(nodes []*node) error {
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.start())
	}
	return errors.Join(errs...)
}

func (m *mischief) pauseNodes(s step, f *fault) error {
	nodes := m.victims(s, f)
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.pause())
	}
	time.Sleep(s.hold)
	for _, n := range nodes {
		errs = append(errs, n.resume())
	}
	return errors.Join(errs...)
}

// stopLimit is how long a node may take to hand over and end. Beyond it it is
// killed, which is told.
const stopLimit = 20 * time.Second

func (m *mischief) restartNode(s step, f *fault) error {
	n := m.victims(s, f)[0]
	err := n.stop(stopLimit)
	if err != nil {
		m.h.complain("a restart: %v", err)
	}
	time.Sleep(s.hold)
	return errors.Join(err, n.start())
}

// rollingRestart restarts each node once the one before is ready again.
func (m *mischief) rollingRestart(_ step, f *fault) error {
	for _, n := range m.c.nodes {
		if n.left || n.lives == 0 {
			continue
		}
		f.Nodes = append(f.Nodes, n.id)
		if err := n.stop(stopLimit); err != nil {
			m.h.complain("a rolling restart: %v", err)
			return errors.Join(err, n.start())
		}
		if err := n.start(); err != nil {
			return err
		}
		if err := await(20*time.Second, n.ready); err != nil {
			return fmt.Errorf("node %d is not ready again: %w", n.id, err)
		}
	}
	return nil
}

// ready asks the node itself.
func (n *node) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.http+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // its status says it
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s", resp.Status)
	}
	return nil
}

// isolate cuts a node off the others, or each from each: both ways, outward,
// inward, or both ways from one other only. Clients reach it all the while.
func (m *mischief) isolate(s step, f *fault) error {
	victims := m.victims(s, f)
	for _, n := range victims {
		others := slices.DeleteFunc(slices.Clone(m.c.nodes), func(o *node) bool { return o == n || o.left })
		if s.kind == "cut a pair" {
			o := others[s.pick%uint64(len(others))]
			others = []*node{o}
			f.Nodes = append(f.Nodes, o.id)
		}
		for _, o := range others {
			if s.kind != "isolate inward" {
				if err := m.c.net.cut(int(n.id), int(o.id)); err != nil {
					return err
				}
			}
			if s.kind != "isolate outward" && len(victims) == 1 { // else the other's turn comes
				if err := m.c.net.cut(int(o.id), int(n.id)); err != nil {
					return err
				}
			}
		}
	}
	time.Sleep(s.hold)
	return m.c.net.heal()
}

func (m *mischief) fillDisk(s step, f *fault) error {
	victims := m.victims(s, f)
	var errs []error
	for _, n := range victims {
		errs = append(errs, n.volume.fill())
	}
	time.Sleep(s.hold)
	for _, n := range victims {
		errs = append(errs, n.volume.clear())
	}
	return errors.Join(errs...)
}

func (m *mischief) freezeDisk(s step, f *fault) error {
	n := m.victims(s, f)[0]
	if err := n.volume.freeze(); err != nil {
		return err
	}
	time.Sleep(s.hold)
	return n.volume.thaw()
}

// slowDisk writes and syncs beside the node on its disk, so that its own syncs
// have to wait.
func (m *mischief) slowDisk(s step, f *fault) error {
	n := m.victims(s, f)[0]
	name := filepath.Join(n.dir, "disk", "hog")
	hog, err := os.Create(name)
	if err != nil {
		return err
	}
	chunk := make([]byte, 4<<20)
	for end := time.Now().Add(s.hold); time.Now().Before(end); {
		if _, err := hog.WriteAt(chunk, 0); err != nil {
			break // the disk is full: slow enough
		}
		if err := hog.Sync(); err != nil {
			break
		}
	}
	return errors.Join(hog.Close(), os.Remove(name))
}

// complete waits until every replica is in sync and three nodes at least vote on
// the metadata: what a node loses from then on must not meet another's loss.
func (m *mischief) complete() error {
	return await(10*time.Second, func() error {
		if q := m.c.quorum(); len(q.CurrentVoters) < min(3, m.founders) {
			return fmt.Errorf("%d nodes vote", len(q.CurrentVoters))
		}
		return m.c.healed(m.c.topics...)
	})
}

// cutPower takes the power of one node: what it hadn't synced is gone.
func (m *mischief) cutPower(s step, f *fault) error {
	if err := m.complete(); err != nil {
		return err
	}
	n := m.victims(s, f)[0]
	if err := n.powerCut(); err != nil {
		return err
	}
	time.Sleep(s.hold)
	return n.start()
}

// replaceDisk ends a node and starts it again with nothing on its disk.
func (m *mischief) replaceDisk(s step, f *fault) error {
	if err := m.complete(); err != nil {
		return err
	}
	n := m.victims(s, f)[0]
	n.kill()
	if err := os.RemoveAll(n.data()); err != nil {
		return err
	}
	time.Sleep(s.hold)
	return n.start()
}

// misleadClock sets a node's wall clock off by up to ten hours, forth or back,
// less than what retention and producers' memory last; every other time the
// node is killed meanwhile and begins again by the wrong clock.
func (m *mischief) misleadClock(s step, f *fault) error {
	n := m.victims(s, f)[0]
	off := time.Duration(int64(s.pick>>8%72_000)-36_000) * time.Second
	f.Note = off.String()
	err := n.setClock(off)
	time.Sleep(s.hold / 2)
	if s.pick%2 == 0 {
		n.kill()
		err = errors.Join(err, n.start())
	}
	time.Sleep(s.hold / 2)
	return errors.Join(err, n.setClock(0))
}

// reassign gives some partitions replicas drawn anew, and after a while again.
func (m *mischief) reassign(s step, f *fault) error {
	rng := rand.New(rand.NewPCG(s.pick, 1))
	for range 2 {
		var ids []int32
		for _, n := range m.c.running() {
			if !n.left {
				ids = append(ids, n.id)
			}
		}
		if len(ids) == 0 {
			return errors.New("no node runs")
		}
		to := map[place][]int32{}
		for range 3 {
			rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			to[place{events, int32(rng.IntN(eventsPartitions))}] = slices.Clone(ids[:min(3, len(ids))])
		}
		// Back to two, so that the third has to be copied to again.
		if rng.IntN(2) == 0 && len(ids) > 2 {
			to[place{state, int32(rng.IntN(statePartitions))}] = slices.Clone(ids[:2])
		}
		if err := m.c.move(to); err != nil {
			return err
		}
		for p := range to {
			f.Note += p.String() + " "
		}
		time.Sleep(s.hold)
	}
	return nil
}

func (m *mischief) elect(step, *fault) error { return m.c.electPreferred() }
