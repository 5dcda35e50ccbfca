package hdfs

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sawlog/loader/sink"
	"sawlog/loader/sink/hdfs/mini"
)

// tripwire is the bytes of a file, and what happens once they are read up to
// some place.
type tripwire struct {
	*bytes.Reader
	at   int64
	trip func()
	once sync.Once
}

func (w *tripwire) ReadAt(p []byte, off int64) (int, error) {
	if off >= w.at {
		w.once.Do(w.trip)
	}
	return w.Reader.ReadAt(p, off)
}

// survives writes a file of several blocks, has something happen in the middle
// of it, and wants the file whole, alone in its folder, and a commit put beside.
func survives(t *testing.T, s *Sink, folder string, happens func()) {
	t.Helper()
	body := bytes.Repeat([]byte("0123456789abcdef"), 3<<20/16+100)
	if err := s.MkdirAll(folder); err != nil {
		t.Fatal(err)
	}
	name := folder + "/f"
	out, err := s.create(name)
	if err != nil {
		t.Fatal(err)
	}
	src := &tripwire{Reader: bytes.NewReader(body), at: 3 << 19, trip: happens}
	if err := s.send(out, name, src, int64(len(body))); err != nil {
		t.Fatal(err)
	}
	got, err := s.ReadFile(name)
	if err != nil || !bytes.Equal(got, body) {
		t.Fatalf("read %d bytes (%v), want the %d that were written", len(got), err, len(body))
	}
	if list, err := s.List(folder); err != nil || len(list) != 1 {
		t.Errorf("the folder holds %v (%v), want the one file", list, err)
	}
	if err := s.PutIfAbsent(folder+"/slot/commit.json", []byte("mine")); err != nil {
		t.Errorf("a commit after it: %v", err)
	}
}

func TestFilesSurviveWhatHappensInTheirMiddle(t *testing.T) {
	c := mini.Start(t, mini.Options{DataNodes: 2})
	for what, happens := range map[string]func(){
		"a DataNode ends":        func() { c.Do("stop-dn 0") },
		"the NameNode restarts":  func() { c.Do("restart-nn") },
		"all DataNodes are away": func() { c.Do("stop-dn 0"); c.Do("stop-dn 0"); later(t, c, 3*time.Second, "start-dn") },
		"the store stands still": func() { c.Freeze(); time.AfterFunc(10*time.Second, c.Thaw) },
	} {
		t.Run(what, func(t *testing.T) {
			s := open(t, c, "/faults/"+strings.ReplaceAll(what, " ", "-"))
			s.limits.call = 4 * time.Second           // less than the store stands still
			s.limits.longest = 200 * time.Millisecond // so that tries are many, and end with the time alone
			survives(t, s, "d", happens)
			c.Do("start-dn")
		})
	}
	t.Run("a DataNode is not missed in time", func(t *testing.T) {
		s := open(t, c, "/faults/not-missed")
		s.limits.patient, s.limits.longest = time.Second, 20*time.Millisecond
		if err := s.MkdirAll(""); err != nil {
			t.Fatal(err)
		}
		c.Do("stop-dn 0")
		defer c.Do("start-dn")
		err := sink.Write(s, "f", []byte("x"))
		if !errors.Is(err, errPipeline) || sink.ClassOf(err) != sink.Retryable {
			t.Errorf("%v (%v), want a retryable error that says whom the NameNode waits for", err, sink.ClassOf(err))
		}
		if list, err := s.List(""); err != nil || len(list) != 0 {
			t.Errorf("the folder holds %v (%v), want nothing", list, err)
		}
	})
}

// later has the cluster do something after a while, before the test ends.
func later(t *testing.T, c *mini.Cluster, after time.Duration, command string) {
	var wg sync.WaitGroup
	wg.Go(func() {
		time.Sleep(after)
		if _, err := c.Try("%s", command); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(wg.Wait)
}

// One name stands for two NameNodes, whichever is the active one.
func TestFailover(t *testing.T) {
	c := mini.Start(t, mini.Options{HA: true, DataNodes: 1})
	site := prop("dfs.nameservices", "blue") + prop("dfs.ha.namenodes.blue", "a,b") +
		prop("dfs.namenode.rpc-address.blue.a", c.NameNodes[0]) + prop("dfs.namenode.rpc-address.blue.b", c.NameNodes[1])
	t.Setenv("HADOOP_CONF_DIR", confOf(t, map[string]string{"hdfs-site.xml": site})("HADOOP_CONF_DIR"))
	for what, s := range map[string]*Sink{
		"by the configuration": openAs(t, "hdfs://blue/by-conf", sink.Access{}),
		"by the job":           openAs(t, "hdfs://green/by-job", sink.Access{Namenodes: c.NameNodes}),
	} {
		t.Run(what, func(t *testing.T) {
			survives(t, s, "d", func() { c.Do("failover") })
			survives(t, s, "back", func() { c.Do("failover") })
		})
	}
	c.Do("failover") // the first of the list is a standby now
	if err := openAs(t, "hdfs://blue/other", sink.Access{}).MkdirAll("d"); err != nil {
		t.Errorf("with the active one second: %v", err)
	}
	// The standby alone answers, and says what it is.
	s := openAs(t, c.URI("/alone"), sink.Access{})
	s.limits.patient = 3 * time.Second
	err := s.MkdirAll("d")
	if sink.ClassOf(err) != sink.Retryable || !strings.Contains(err.Error(), "standby") {
		t.Errorf("a standby asked alone: %v (%v), want a retryable error that says so", err, sink.ClassOf(err))
	}
}

// What the store refuses is told at once and by name; what passes is waited for.
func TestRefusals(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys.jceks")
	c := mini.Start(t, mini.Options{DataNodes: 1, Conf: []string{"hadoop.security.key.provider.path=jceks://file" + keys}})
	for _, command := range []string{
		"ec /coded", "ez /encrypted", "mkdir /names 777", "quota /names 5", "mkdir /bytes 777", "space-quota /bytes 100000", "mkdir /theirs 700",
	} {
		c.Do("%s", command)
	}
	t.Setenv("HADOOP_USER_NAME", "loader")
	write := func(s *Sink) error {
		return cmp.Or(s.MkdirAll("a/b/c"), sink.Write(s, "a/b/c/f", make([]byte, 10_000)), sink.Write(s, "a/b/c/g", make([]byte, 10_000)))
	}
	for _, r := range []struct {
		root string
		is   error
		want string
	}{
		{"/coded", sink.ErrRefused, "/coded is erasure-coded (policy XOR-2-1-1024k)"},
		{"/coded/deeper/root", sink.ErrRefused, "/coded is erasure-coded"},
		{"/encrypted", sink.ErrRefused, "/encrypted is in an encryption zone"},
		{"/encrypted/root", sink.ErrRefused, "/encrypted is in an encryption zone"},
		{"/names/root", sink.ErrRefused, "quota (directories and files) of directory /names is exceeded"},
		{"/bytes/root", sink.ErrRefused, "quota of /bytes is exceeded"},
		{"/theirs/root", fs.ErrPermission, "permission denied"},
	} {
		start := time.Now()
		err := write(openAs(t, c.URI(r.root), sink.Access{}))
		if !errors.Is(err, r.is) || sink.ClassOf(err) != sink.Permanent || !strings.Contains(err.Error(), r.want) {
			t.Errorf("%s: %v (%v), want %q", r.root, err, sink.ClassOf(err), r.want)
		}
		if took := time.Since(start); took > usual.patient/2 {
			t.Errorf("%s: was tried for %v", r.root, took)
		}
	}
	t.Run("safe mode", func(t *testing.T) {
		c.Do("mkdir /w 777")
		c.Do("safemode on")
		s := openAs(t, c.URI("/w/safe"), sink.Access{})
		s.limits.patient = 2 * time.Second
		if err := s.MkdirAll("d"); sink.ClassOf(err) != sink.Retryable || !strings.Contains(err.Error(), "safe mode") {
			t.Errorf("a safe mode that doesn't end: %v (%v)", err, sink.ClassOf(err))
		}
		s.limits = usual
		later(t, c, 2*time.Second, "safemode off")
		if err := s.MkdirAll("d"); err != nil {
			t.Errorf("a safe mode that ends: %v", err)
		}
	})
	t.Run("doctor", func(t *testing.T) { examined(t, c) })
}
