//go:build linux

package chaos

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

// cluster is nodes that know each other.
type cluster struct {
	t       testing.TB
	dir     string
	net     *network // nil: all on loopback, no cuts
	nodes   []*node  // ids 1, 2, …
	notes   []string // what this machine can't do
	volumes bool
	binary  string
	key     string
	flags   []string
	topics  []string // of a run, the broker's own among them
}

// shape says what a cluster is made of.
type shape struct {
	size    int // nodes at first
	most    int // nodes there may ever be
	volumes bool
	network bool
	flags   []string // more flags of serve
	config  string   // a settings file's content
}

// patience is how long a process of a machine under load may take to serve.
const patience = 60 * time.Second

// openCluster starts a cluster under dir and waits until every node knows every
// other. Its nodes end with the test.
func openCluster(t testing.TB, dir string, s shape) (*cluster, error) {
	t.Helper()
	c := &cluster{t: t, dir: dir, volumes: s.volumes, binary: peer.Binary(t), flags: s.flags}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	c.key = filepath.Join(dir, "cluster.key")
	if err := os.WriteFile(c.key, []byte(hex.EncodeToString(secret)+"\n"), 0o600); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "sawlog.yaml")
	if err := os.WriteFile(config, []byte(s.config), 0o600); err != nil {
		return nil, err
	}
	c.flags = append(slices.Clone(s.flags), "--config", config)
	s.most = max(s.most, s.size)
	if s.network {
		var err error
		if c.net, err = openNetwork(t, s.most); err != nil {
			c.notes = append(c.notes, "no network faults: "+err.Error())
			c.net = nil
		}
	}
	if err := noClocks(); err != nil {
		c.notes = append(c.notes, "no clock faults: "+err.Error())
	}
	t.Cleanup(c.killAll)
	for range s.size {
		n, err := c.add()
		if err != nil {
			return nil, err
		}
		if err := n.start(); err != nil {
			return nil, err
		}
		if n.id == 1 {
			if err := c.awaitBrokers(1, patience); err != nil {
				return nil, err
			}
		}
	}
	// With an empty disk the founder joins, too: see serve --help.
	var others []string
	for _, n := range c.nodes[1:] {
		others = append(others, n.peer)
	}
	if len(others) > 0 {
		c.nodes[0].argv = append(c.nodes[0].argv, "--join", strings.Join(others, ","))
	}
	return c, c.awaitBrokers(s.size, patience)
}

// add makes the next node, without starting it.
func (c *cluster) add() (*node, error) {
	id := len(c.nodes) + 1
	n := &node{id: int32(id), dir: filepath.Join(c.dir, fmt.Sprintf("node%d", id))}
	if err := os.MkdirAll(filepath.Join(n.dir, "disk"), 0o755); err != nil {
		return nil, err
	}
	if c.volumes {
		v, err := openVolume(c.t, filepath.Join(n.dir, "disk.img"), filepath.Join(n.dir, "disk"))
		if err != nil {
			c.notes = append(c.notes, "no disk faults: "+err.Error())
			c.volumes = false
		} else {
			n.volume = v
		}
	}
	if c.net != nil {
		host := c.net.address(id)
		n.world.space = c.net.namespace(id)
		n.kafka, n.peer, n.http = host+":9092", host+":9093", host+":8088"
	} else {
		for _, to := range []*string{&n.kafka, &n.peer, &n.http} {
			*to = peer.Address(c.t)
		}
	}
	n.argv = append([]string{
		c.binary, "serve", "--data", n.data(), "--listen", n.kafka, "--http", n.http, "--peer", n.peer,
		"--node-id", fmt.Sprint(id), "--cluster-key", c.key, "--advertise", n.kafka, "--insecure",
	}, c.flags...)
	if id > 1 {
		var others []string
		for _, o := range c.nodes {
			others = append(others, o.peer)
		}
		n.argv = append(n.argv, "--join", strings.Join(others, ","))
	}
	c.nodes = append(c.nodes, n)
	return n, nil
}

// killAll ends every process.
func (c *cluster) killAll() {
	for _, n := range c.nodes {
		if n.volume != nil {
			_ = n.volume.thaw() // it may not be frozen
		}
		n.kill()
	}
}

// stopAll ends every process with SIGTERM, all at a time.
func (c *cluster) stopAll(limit time.Duration) error {
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() { errs[i] = n.stop(limit) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// running are the nodes that have a process.
func (c *cluster) running() []*node {
	var all []*node
	for _, n := range c.nodes {
		if n.running() {
			all = append(all, n)
		}
	}
	return all
}

// seeds are the addresses of all nodes there are.
func (c *cluster) seeds() []string {
	var all []string
	for _, n := range c.nodes {
		all = append(all, n.kafka)
	}
	return all
}

// node is that of an id, nil when there is none.
func (c *cluster) node(id int32) *node {
	if id < 1 || int(id) > len(c.nodes) {
		return nil
	}
	return c.nodes[id-1]
}

// heal ends every fault but dead processes: cuts, pauses, full and frozen disks,
// wrong clocks.
func (c *cluster) heal() error {
	var errs []error
	if c.net != nil {
		errs = append(errs, c.net.heal())
	}
	for _, n := range c.nodes {
		if n.volume != nil {
			_ = n.volume.thaw() // it may not be frozen
			errs = append(errs, n.volume.clear())
		}
		errs = append(errs, n.resume())
		if n.world.clock != 0 {
			errs = append(errs, n.setClock(0))
		}
	}
	return errors.Join(errs...)
}

// awaitBrokers waits until each running node names so many brokers, itself
// among them.
func (c *cluster) awaitBrokers(count int, limit time.Duration) error {
	return await(limit, func() error {
		for _, n := range c.running() {
			m, err := metadata(n.kafka)
			if err != nil {
				return fmt.Errorf("node %d: %w", n.id, err)
			}
			if len(m.Brokers) != count || m.ControllerID < 0 {
				return fmt.Errorf("node %d knows %d brokers and controller %d", n.id, len(m.Brokers), m.ControllerID)
			}
		}
		for _, n := range c.nodes {
			if n.lives > 0 && !n.running() {
				return fmt.Errorf("node %d has ended: %s", n.id, tail(n.logFile()))
			}
		}
		return nil
	})
}

// await asks until there is no error; what happens happens in other processes.
func await(limit time.Duration, ask func() error) error {
	end := time.Now().Add(limit)
	for {
		err := ask()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within %s: %w", limit, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// tail is the end of a log, for a message.
func tail(file string) string {
	const most = 3 << 10
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-most):])
}
