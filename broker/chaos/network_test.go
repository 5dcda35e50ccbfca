//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

// network is a namespace for each node, all behind one router namespace that
// the test process is behind as well:
//
//	node i   eth0 10.N.i.2/24 ── NAMEri 10.N.i.1 ┐
//	                                             router namespace NAMEr
//	the test NAMEh 10.N.0.2/24 ── NAMErh 10.N.0.1 ┘
//
// A rule of the router drops without a word what one address sends another.
type network struct {
	name  string // prefix of its namespaces and links, PID included
	octet int
	size  int
}

const prefix = "slc" // of namespaces and links; a PID follows

// openNetwork makes a network of size nodes. Its error says why this machine
// can't have one.
func openNetwork(t testing.TB, size int) (*network, error) {
	t.Helper()
	if os.Getuid() != 0 {
		return nil, errors.New("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return nil, err
	}
	sweepNetworks()
	w := &network{name: fmt.Sprintf("%s%d", prefix, os.Getpid()), octet: 64 + os.Getpid()%128, size: size}
	t.Cleanup(w.close)
	if err := w.lay(); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *network) lay() error {
	r := w.name + "r"
	steps := []string{
		"netns add " + r,
		fmt.Sprintf("link add %sh type veth peer name %srh netns %s", w.name, w.name, r),
		fmt.Sprintf("addr add 10.%d.0.2/24 dev %sh", w.octet, w.name),
		fmt.Sprintf("link set %sh up", w.name),
		fmt.Sprintf("-n %s addr add 10.%d.0.1/24 dev %srh", r, w.octet, w.name),
		fmt.Sprintf("-n %s link set %srh up", r, w.name),
		fmt.Sprintf("route add 10.%d.0.0/16 via 10.%d.0.1", w.octet, w.octet),
		"netns exec " + r + " sysctl -qw net.ipv4.ip_forward=1",
	}
	for i := 1; i <= w.size; i++ {
		ns, link := w.namespace(i), fmt.Sprintf("%sr%d", w.name, i)
		steps = append(steps,
			"netns add "+ns,
			fmt.Sprintf("link add %s netns %s type veth peer name eth0 netns %s", link, r, ns),
			fmt.Sprintf("-n %s addr add 10.%d.%d.1/24 dev %s", r, w.octet, i, link),
			fmt.Sprintf("-n %s link set %s up", r, link),
			fmt.Sprintf("-n %s addr add %s/24 dev eth0", ns, w.address(i)),
			fmt.Sprintf("-n %s link set eth0 up", ns),
			fmt.Sprintf("-n %s link set lo up", ns),
			fmt.Sprintf("-n %s route add default via 10.%d.%d.1", ns, w.octet, i),
		)
	}
	for _, step := range steps {
		if err := ip(step); err != nil {
			return err
		}
	}
	return nil
}

// namespace is the name of node i's.
func (w *network) namespace(i int) string { return w.name + "n" + strconv.Itoa(i) }

// address is node i's; 0 is the test's.
func (w *network) address(i int) string { return fmt.Sprintf("10.%d.%d.2", w.octet, i) }

// cut drops from now on what node from sends node to.
func (w *network) cut(from, to int) error {
	return ip(fmt.Sprintf("-n %sr rule add from %s to %s blackhole", w.name, w.address(from), w.address(to)))
}

// heal ends all cuts.
func (w *network) heal() error {
	for {
		out, err := exec.Command("ip", "-n", w.name+"r", "rule", "show").Output()
		if err != nil {
			return err
		}
		cuts := 0
		for line := range strings.Lines(string(out)) {
			if priority, rule, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && strings.Contains(rule, "blackhole") {
				cuts++
				if err := ip("-n " + w.name + "r rule del pref " + priority); err != nil {
					return err
				}
			}
		}
		if cuts == 0 {
			return nil
		}
	}
}

// close takes the network away.
func (w *network) close() { removeNetworks(w.name) }

// sweepNetworks removes what test processes left behind that were killed.
func sweepNetworks() {
	spaces, err := filepath.Glob("/run/netns/" + prefix + "*r")
	if err != nil {
		return
	}
	for _, path := range spaces {
		name := strings.TrimSuffix(filepath.Base(path), "r")
		if _, err := os.Stat("/proc/" + strings.TrimPrefix(name, prefix)); os.IsNotExist(err) {
			removeNetworks(name)
		}
	}
}

// removeNetworks removes the namespaces of a name; their links go with them.
func removeNetworks(name string) {
	spaces, err := filepath.Glob("/run/netns/" + name + "[rn]*")
	if err != nil {
		return
	}
	for _, path := range spaces {
		_ = ip("netns del " + filepath.Base(path)) // what can't be removed stays
	}
	_ = ip("link del " + name + "h") // it has gone with the router, or soon
}

func ip(args string) error {
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", args, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// A cut drops one way or both, on connections that exist and on new ones,
// without a word; once healed what was sent arrives.
func TestNetworkCuts(t *testing.T) {
	w, err := openNetwork(t, 2)
	if err != nil {
		peer.Lacks(t, fmt.Sprintf("network namespaces: %v", err))
	}
	listen := func(i int) net.Listener {
		var l net.Listener
		err := inNamespace(w.namespace(i), func() (err error) {
			l, err = net.Listen("tcp", w.address(i)+":7000")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	dial := func(from, to int, limit time.Duration) (net.Conn, error) {
		var c net.Conn
		err := inNamespace(w.namespace(from), func() (err error) {
			c, err = net.DialTimeout("tcp", w.address(to)+":7000", limit)
			return err
		})
		return c, err
	}
	l := listen(2)
	defer func() { _ = l.Close() }()
	c, err := dial(1, 2, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	passes := func(from, to net.Conn, limit time.Duration) bool {
		if _, err := from.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := to.SetReadDeadline(time.Now().Add(limit)); err != nil {
			t.Fatal(err)
		}
		_, err := to.Read(make([]byte, 1))
		return err == nil
	}
	if !passes(c, s, 20*time.Second) || !passes(s, c, 20*time.Second) {
		t.Fatal("nothing passes an uncut network")
	}
	if err := w.cut(2, 1); err != nil {
		t.Fatal(err)
	}
	if !passes(c, s, 20*time.Second) {
		t.Error("1 to 2 was not cut, and nothing passes")
	}
	if passes(s, c, 300*time.Millisecond) {
		t.Error("2 to 1 was cut, and something passes")
	}
	if err := w.cut(1, 2); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if again, err := dial(1, 2, 500*time.Millisecond); err == nil {
		_ = again.Close()
		t.Error("a connection came about over a cut")
	} else if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a dial over a cut ends with %v, not in silence", err)
	}
	if err := w.heal(); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Errorf("what was sent during the cut never came: %v", err)
	}
	// A port nobody listens at refuses: that is how a dead process is known.
	_ = l.Close()
	if _, err := dial(1, 2, 20*time.Second); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("a dial to nobody: %v", err)
	}
}
