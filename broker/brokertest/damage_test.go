package brokertest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/broker/brokertest"
	"sawlog/broker/vfs"
)

// TestDamage: all brokers of a cluster end, and on the disk of one of them a file
// is damaged, or gone. When they start again that one either starts, and then
// all that was acknowledged is there and all replicas are equal in the end; or
// it does not, and names the file, and the others have everything.
func TestDamage(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    func(*brokertest.Node)
		victim int
	}{
		{"the last to stop", (*brokertest.Node).Stop, 2},
		{"a founder that was killed", (*brokertest.Node).Kill, 0},
		{"one of all that were killed", (*brokertest.Node).Kill, 1},
	} {
		if testing.Short() && c.victim != 1 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			was := makeLedger(t, c.end)
			was.victim = c.victim
			started, refused := 0, 0
			for _, file := range victims(t, was.disks[c.victim]) {
				for _, d := range damages {
					if d.folder != strings.HasSuffix(file, "/") || d.name == "flipped" && rots(file) {
						continue
					}
					t.Run(d.name+" "+file, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							if was.survives(t, strings.TrimSuffix(file, "/"), d.do) {
								started++
							} else {
								refused++
							}
						})
					})
				}
			}
			t.Logf("started %d times, refused %d times", started, refused)
		})
	}
}

// ledger is a cluster that has ended: what is on its disks, and what clients
// were told.
type ledger struct {
	disks  []*vfs.Mem
	victim int // whose disk is damaged
	load   *load
}

const lastCommit = 70

// makeLedger runs a cluster for some time: leaders change, a group commits.
func makeLedger(t *testing.T, end func(*brokertest.Node)) *ledger {
	l := &ledger{load: newLoad()}
	inBubble(t, 3, func(t *testing.T, c *brokertest.Cluster, cl *kgo.Client) {
		l.load.send(t, cl, "first", 30)
		for _, n := range c.Nodes {
			n.Kill()
			n.Start()
			c.Settle()
			awaitISR(t, c, 3)
			l.load.send(t, cl, fmt.Sprint("after", n.ID), 30)
		}
		eventually(t, "the commit is taken", func() bool { return commit(t.Context(), cl, lastCommit) })
		time.Sleep(3 * time.Minute) // all is synced, and noted as such
		cl.Close()
		for _, n := range c.Nodes {
			end(n)
		}
		for _, n := range c.Nodes {
			l.disks = append(l.disks, n.FS.CrashClone(nil))
		}
	})
	return l
}

// eventually asks again for half a minute.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	for range 300 {
		if yes() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("not within half a minute: %s", what)
}

// damages are what may become of a file, and of a folder.
var damages = []struct {
	name   string
	folder bool
	do     func(fs vfs.FS, name string) error
}{
	{"flipped", false, rewritten(func(b []byte) []byte {
		if len(b) > 0 {
			b[len(b)/3] ^= 0x10
		}
		return b
	})},
	{"cut", false, rewritten(func(b []byte) []byte { return b[:len(b)/2] })},
	{"zeroed", false, rewritten(func(b []byte) []byte { return make([]byte, len(b)) })},
	{"emptied", false, rewritten(func([]byte) []byte { return nil })},
	{"removed", false, func(fs vfs.FS, name string) error { return fs.Remove(name) }},
	{"removed", true, func(fs vfs.FS, name string) error { return fs.RemoveAll(name) }},
}

func rewritten(change func([]byte) []byte) func(fs vfs.FS, name string) error {
	return func(fs vfs.FS, name string) error {
		b, err := vfs.ReadFile(fs, name)
		if err != nil {
			return err
		}
		return vfs.Replace(fs, name, change(b))
	}
}

// rots tells of a file in which a bit may turn over without being seen at
// start: of synced batches only the headers are read then. Who reads such a
// batch, client or follower, sees its checksum.
func rots(file string) bool {
	return strings.HasSuffix(file, ".log") && !strings.HasPrefix(file, "/data/controller/")
}

// victims are the files worth damaging, a slash behind folders: all but the lock
// and the ballast, and of the partitions the largest one of each topic.
func victims(t *testing.T, fs vfs.FS) []string {
	t.Helper()
	out := []string{"/data/", "/data/controller/", "/data/controller/log/", "/data/controller/log/raft-0/"}
	largest, size := map[string]string{}, map[string]int64{}
	var walk func(dir string) (bytes int64)
	walk = func(dir string) (bytes int64) {
		entries, err := fs.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			if !e.IsDir() {
				info, err := e.Info()
				if err != nil {
					t.Fatal(err)
				}
				bytes += info.Size()
				if skipped := []string{"lock", "ballast"}; !slices.Contains(skipped, e.Name()) {
					out = append(out, name)
				}
				continue
			}
			below := walk(name)
			if topic := name[:max(strings.LastIndex(name, "-"), 0)]; dir == "/data" && topic != "" && below >= size[topic] {
				largest[topic], size[topic] = name, below
			}
		}
		return bytes
	}
	walk("/data")
	out = slices.DeleteFunc(out, func(name string) bool {
		folder, topic := "/data/"+strings.Split(name+"///", "/")[2], ""
		if i := strings.LastIndex(folder, "-"); i > 0 {
			topic = folder[:i]
		}
		return largest[topic] != "" && largest[topic] != folder
	})
	for _, folder := range largest {
		out = append(out, folder+"/")
	}
	return out
}

// survives starts the cluster with one file of a node damaged, and tells whether
// that node came up.
func (l *ledger) survives(t *testing.T, file string, damage func(fs vfs.FS, name string) error) (started bool) {
	time.Sleep(time.Hour) // later than what is on the disks
	c := brokertest.NewCluster(t, 3)
	for i, n := range c.Nodes {
		n.FS = l.disks[i].CrashClone(nil)
	}
	victim := c.Nodes[l.victim]
	if err := damage(victim.FS, file); err != nil {
		t.Fatal(err)
	}
	errs := make([]error, 3)
	var starting sync.WaitGroup
	for i, n := range c.Nodes {
		starting.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			errs[i] = n.Open(ctx)
		})
	}
	starting.Wait()
	refusal := errs[l.victim]
	errs[l.victim] = nil
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if refusal != nil {
		wiped := file == "/data" && strings.Contains(refusal.Error(), "--join")
		named := wiped || strings.Contains(refusal.Error(), file) || strings.HasSuffix(file, ".log") && strings.Contains(refusal.Error(), path.Dir(file))
		if !named || errors.Is(refusal, context.DeadlineExceeded) {
			t.Errorf("the error does not name %s: %v", file, refusal)
		}
		t.Log(refusal)
		c.Nodes = slices.Delete(c.Nodes, l.victim, l.victim+1)
	}
	c.Settle()
	if refusal == nil {
		awaitISR(t, c, 3)
	}
	cl := c.Client("client", kgo.DefaultProduceTopic("t"))
	defer cl.Close()
	eventually(t, "the group stands where it committed", func() bool {
		at, ok := committed(t.Context(), cl)
		return ok && at == lastCommit
	})
	now := newLoad()
	maps.Copy(now.acked, l.load.acked)
	now.send(t, cl, "later", 10)
	cl.Close()
	check(t, c, now)
	return refusal == nil
}
