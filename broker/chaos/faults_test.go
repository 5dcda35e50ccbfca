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
}

// kind is a way to do harm: run does it, holds it for the step's time, and
// undoes it.
type kind struct {
	name    string
	targets []string
	least   time.Duration
	most    time.Duration
	needs   string // network, volumes, room for more nodes, or nothing
	run     func(*mischief, step, *fault) error
}

var (
	anyone  = []string{"leader", "follower", "controller", "coordinator", "any"}
	anyAll  = append(slices.Clone(anyone), "all")
	nothing = []string{""}
)

// kinds are all of them. A long pause is one beyond every session.
var kinds = []kind{
	{"kill", anyAll, 0, 4 * time.Second, "", (*mischief).killNodes},
	{"kill twice", anyone, 100 * time.Millisecond, time.Second, "", (*mischief).killTwice},
	{"stop", anyAll, 100 * time.Millisecond, 2 * time.Second, "", (*mischief).pauseNodes},
	{"stop long", anyone, 3 * time.Second, 20 * time.Second, "", (*mischief).pauseNodes},
	{"restart", anyone, 0, time.Second, "", (*mischief).restartNode},
	{"rolling restart", nothing, 0, 0, "", (*mischief).rollingRestart},
	{"isolate", anyone, time.Second, 8 * time.Second, "network", (*mischief).isolate},
	{"isolate outward", anyone, time.Second, 8 * time.Second, "network", (*mischief).isolate},
	{"isolate inward", anyone, time.Second, 8 * time.Second, "network", (*mischief).isolate},
	{"cut a pair", anyone, time.Second, 6 * time.Second, "network", (*mischief).isolate},
	{"disk full", anyone, 2 * time.Second, 6 * time.Second, "volumes", (*mischief).fillDisk},
	{"disk stalls", anyone, 300 * time.Millisecond, 4 * time.Second, "volumes", (*mischief).freezeDisk},
	{"slow disk", anyone, 2 * time.Second, 6 * time.Second, "", (*mischief).slowDisk},
	{"reassign", nothing, time.Second, 3 * time.Second, "", (*mischief).reassign},
	{"elect preferred", nothing, 0, 0, "", (*mischief).elect},
	{"broker joins", nothing, 2 * time.Second, 4 * time.Second, "room", (*mischief).joinBroker},
	{"broker leaves", nothing, 0, 0, "room", (*mischief).leaveBroker},
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
	c      *cluster
	h      *history
	faults []fault
}

// able says whether this cluster can have what a kind needs.
func (m *mischief) able(needs string) bool {
	switch needs {
	case "network":
		return m.c.net != nil
	case "volumes":
		return m.c.volumes
	case "room":
		return m.c.net == nil || len(m.c.nodes) < m.c.net.size
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
			f.Note = err.Error()
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
	all := slices.DeleteFunc(slices.Clone(m.c.nodes), func(n *node) bool { return n.left || n.lives == 0 })
	if s.target == "all" {
		for _, n := range all {
			f.Nodes = append(f.Nodes, n.id)
		}
		return all
	}
	n := m.c.node(m.pick(s))
	if n == nil || n.left {
		n = all[s.pick%uint64(len(all))]
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

// isolate cuts a node off the others: both ways, outward, inward, or both ways
// from one other only. Clients reach it all the while.
func (m *mischief) isolate(s step, f *fault) error {
	n := m.victims(s, f)[0]
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
		if s.kind != "isolate outward" {
			if err := m.c.net.cut(int(o.id), int(n.id)); err != nil {
				return err
			}
		}
	}
	time.Sleep(s.hold)
	return m.c.net.heal()
}

func (m *mischief) fillDisk(s step, f *fault) error {
	n := m.victims(s, f)[0]
	err := n.volume.fill()
	time.Sleep(s.hold)
	return errors.Join(err, n.volume.clear())
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

// joinBroker starts another node and gives it partitions.
func (m *mischief) joinBroker(s step, f *fault) error {
	if m.c.net != nil && len(m.c.nodes) >= m.c.net.size {
		return errors.New("no room for another node")
	}
	n, err := m.c.add()
	if err != nil {
		return err
	}
	f.Nodes = []int32{n.id}
	if err := n.start(); err != nil {
		return err
	}
	if err := await(15*time.Second, n.ready); err != nil {
		return fmt.Errorf("node %d is not ready: %w", n.id, err)
	}
	to := map[place][]int32{}
	for p := range 2 {
		to[place{events, int32(p)}] = []int32{n.id, 1 + int32(s.pick%2), 3}
	}
	if err := m.c.move(to); err != nil {
		return err
	}
	time.Sleep(s.hold)
	return nil
}

// leaveBroker moves everything off the node that came last, stops it and takes
// it out of the cluster.
func (m *mischief) leaveBroker(_ step, f *fault) error {
	n := m.c.nodes[len(m.c.nodes)-1]
	if n.id <= 3 || n.left {
		return errors.New("nobody is there to leave")
	}
	f.Nodes = []int32{n.id}
	if err := await(15*time.Second, func() error { return m.moveOff(n.id) }); err != nil {
		return err
	}
	n.left = true
	if err := n.stop(stopLimit); err != nil {
		m.h.complain("a node that leaves: %v", err)
	}
	return m.c.unregister(n.id)
}

// moveOff reassigns what a node holds, and is content once it holds nothing.
func (m *mischief) moveOff(id int32) error {
	all := m.c.running()
	if len(all) == 0 {
		return errors.New("no node runs")
	}
	parts, err := partitions(all[0].kafka, everyTopic...)
	if err != nil {
		return err
	}
	to := map[place][]int32{}
	for _, p := range parts {
		if !slices.Contains(p.Replicas, id) {
			continue
		}
		replicas := slices.DeleteFunc(slices.Clone(p.Replicas), func(r int32) bool { return r == id })
		for other := int32(1); len(replicas) < len(p.Replicas) && other <= 3; other++ {
			if !slices.Contains(replicas, other) {
				replicas = append(replicas, other)
			}
		}
		to[p.place] = replicas
	}
	if len(to) == 0 {
		return nil
	}
	return errors.Join(fmt.Errorf("%d partitions are on node %d", len(to), id), m.c.move(to))
}

// everyTopic are those of a run and the broker's own.
var everyTopic = []string{events, state, "__consumer_offsets", "__sawlog_jobs"}
