//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// hasRoom says whether another node can be had.
func (m *mischief) hasRoom() bool { return m.c.net == nil || len(m.c.nodes) < m.c.net.size }

// joinBroker starts another node and gives it partitions.
func (m *mischief) joinBroker(s step, f *fault) error {
	if !m.hasRoom() {
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

// leaveBroker drains the node that came last, stops it and takes it out of the
// cluster, by the commands an operator has. Where none has come yet one comes
// first.
func (m *mischief) leaveBroker(s step, f *fault) error {
	n := m.c.nodes[len(m.c.nodes)-1]
	if int(n.id) <= m.founders || n.left {
		if err := m.joinBroker(s, f); err != nil {
			return err
		}
		n = m.c.nodes[len(m.c.nodes)-1]
	}
	f.Nodes = []int32{n.id}
	if err := m.command("cluster", "drain", fmt.Sprint(n.id)); err != nil {
		return err
	}
	n.left = true
	if err := n.stop(stopLimit); err != nil {
		m.h.complain("a node that leaves: %v", err)
	}
	return await(10*time.Second, func() error { return m.command("cluster", "forget", fmt.Sprint(n.id), "--yes") })
}

// command runs the command line beside the cluster.
func (m *mischief) command(args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	args = append(args, "-b", strings.Join(m.c.seeds(), ","), "--progress", "none")
	if out, err := exec.CommandContext(ctx, m.c.binary, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("sawlog %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
