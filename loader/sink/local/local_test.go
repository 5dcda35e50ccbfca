package local_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sawlog/broker/vfs"
	"sawlog/loader/sink"
	"sawlog/loader/sink/local"
	"sawlog/loader/sink/sinktest"
)

func TestOnDisk(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sink.Sink {
		s, err := local.Open("file://" + filepath.Join(t.TempDir(), "new", "root"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestInMemory(t *testing.T) {
	sinktest.Run(t, func(*testing.T) sink.Sink { return local.New(vfs.NewMem(), "/data/root") })
}

func TestOpen(t *testing.T) {
	for uri, want := range map[string]string{
		"file:///var/lib/x":          "file:///var/lib/x",
		"file:/var/lib/x":            "file:///var/lib/x",
		"file://localhost/var/lib/x": "file:///var/lib/x",
		"/var/lib/x/":                "file:///var/lib/x",
		"file:///a%20b":              "file:///a%20b",
	} {
		s, err := local.Open(uri)
		if err != nil || s.Root() != want {
			t.Errorf("%s: root %v, error %v, want %s", uri, s, err, want)
		}
	}
	for _, uri := range []string{"", "x/y", "hdfs://nn/x", "file://host/x", "file:x", "file:///x?y", "file:///%zz"} {
		if s, err := local.Open(uri); err == nil {
			t.Errorf("%s: opened as %s", uri, s.Root())
		}
	}
}

// TestSyncOfNothing asks nothing of a root that is still to be made, below
// folders that are.
func TestSyncOfNothing(t *testing.T) {
	s, err := local.Open("file://" + filepath.Join(t.TempDir(), "not", "yet"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(); err != nil {
		t.Error(err)
	}
}

// TestFaults fails each operation of a put in turn: the error names a path, and
// says truthfully whether the file may be there.
func TestFaults(t *testing.T) {
	for n := 1; ; n++ {
		mem := vfs.NewMem()
		s := local.New(mem, "/root")
		if err := s.MkdirAll("ledger"); err != nil {
			t.Fatal(err)
		}
		count := 0
		var failed vfs.Op
		mem.Inject(func(op vfs.Op, _ string) error {
			if count++; count == n {
				failed = op
				return syscall.EIO
			}
			return nil
		})
		err := s.PutIfAbsent("ledger/000/commit.json", []byte("body"))
		mem.Inject(nil)
		if count < n {
			return // every operation had its turn
		}
		data, look := s.ReadFile("ledger/000/commit.json")
		there := look == nil && string(data) == "body"
		if look != nil && !errors.Is(look, sink.ErrNotExist) {
			t.Fatalf("operation %d (%s): %v", n, failed, look)
		}
		switch {
		case err == nil && !there:
			t.Errorf("operation %d (%s): put said yes, the file is not there", n, failed)
		case err != nil && there && sink.ClassOf(err) != sink.Ambiguous:
			t.Errorf("operation %d (%s): the file is there, the error is %v: %v", n, failed, sink.ClassOf(err), err)
		case err != nil && !strings.Contains(err.Error(), "ledger/000"):
			t.Errorf("operation %d (%s): error does not say where: %v", n, failed, err)
		case errors.Is(err, sink.ErrExist):
			t.Errorf("operation %d (%s): nobody else was there: %v", n, failed, err)
		}
	}
}

// TestPutIsSwept has a sweep take what is about to be put, before it has its name and
// after: the put may be repeated, or is done.
func TestPutIsSwept(t *testing.T) {
	for _, at := range []vfs.Op{vfs.OpLink, vfs.OpRemove} {
		mem := vfs.NewMem()
		s := local.New(mem, "/root")
		swept := false
		mem.Inject(func(op vfs.Op, _ string) error {
			if op != at || swept {
				return nil
			}
			swept = true
			entries, err := s.List("ledger")
			if err != nil || len(entries) != 2 || !strings.HasPrefix(entries[0].Name, sink.PutPrefix) {
				t.Fatalf("what is about to be put: %v, %v", entries, err)
			}
			return s.Remove("ledger/" + entries[0].Name)
		})
		err := s.PutIfAbsent("ledger/000/commit.json", []byte("body"))
		if !swept {
			t.Fatalf("a put calls no %v", at)
		}
		if at == vfs.OpLink {
			if sink.ClassOf(err) != sink.Retryable || !errors.Is(err, sink.ErrSwept) {
				t.Errorf("told %v (%v)", err, sink.ClassOf(err))
			}
			err = s.PutIfAbsent("ledger/000/commit.json", []byte("body"))
		}
		if data, look := s.ReadFile("ledger/000/commit.json"); err != nil || look != nil || string(data) != "body" {
			t.Errorf("swept before %v: %v; there is %q, %v", at, err, data, look)
		}
	}
}

func TestClasses(t *testing.T) {
	for errno, want := range map[syscall.Errno]sink.Class{
		syscall.ENOSPC: sink.Retryable, syscall.EINTR: sink.Retryable, syscall.ESTALE: sink.Retryable,
		syscall.EIO: sink.Permanent, syscall.EROFS: sink.Permanent, syscall.EACCES: sink.Permanent,
	} {
		mem := vfs.NewMem()
		s := local.New(mem, "/root")
		mem.Inject(func(vfs.Op, string) error { return errno })
		err := s.MkdirAll("a")
		if sink.ClassOf(err) != want || !errors.Is(err, errno) {
			t.Errorf("%v: error %v of class %v, want %v", errno, err, sink.ClassOf(err), want)
		}
	}
	if text := fmt.Sprint(sink.Ambiguous, sink.Retryable, sink.Permanent, sink.Class(9)); text != "ambiguous retryable permanent class(9)" {
		t.Error(text)
	}
}

// TestPowerCut cuts the power after each operation of a put, a write and sync,
// and a rename and sync: what was answered nil is there in whole, and a name
// never holds half of its bytes.
func TestPowerCut(t *testing.T) {
	body := strings.Repeat("0123456789", 2000)
	steps := []struct {
		name string
		act  func(s sink.Sink) error
	}{
		{"put/a/commit.json", func(s sink.Sink) error { return s.PutIfAbsent("put/a/commit.json", []byte(body)) }},
		{"hour/dt=1/f", func(s sink.Sink) error {
			return errors.Join(s.MkdirAll("stage/1"), sink.Write(s, "stage/1/f.part", []byte(body)), s.Sync("stage/1/f.part"),
				s.MkdirAll("hour/dt=1"), s.Rename("stage/1/f.part", "hour/dt=1/f"), s.Sync("hour/dt=1"))
		}},
	}
	cuts := 0
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		mem := vfs.NewMem()
		s := local.New(mem, "/new/root")
		var done []string
		check := func() {
			cuts++
			after := local.New(mem.CrashClone(rnd), "/new/root")
			for _, step := range steps {
				data, err := after.ReadFile(step.name)
				if err == nil && string(data) != body {
					t.Fatalf("seed %d: %s holds %d bytes of %d", seed, step.name, len(data), len(body))
				}
			}
			for _, name := range done {
				if _, err := after.ReadFile(name); err != nil {
					t.Fatalf("seed %d: %s was durable and is gone: %v", seed, name, err)
				}
			}
		}
		mem.Inject(func(vfs.Op, string) error { check(); return nil })
		for _, step := range steps {
			if err := step.act(s); err != nil {
				t.Fatal(err)
			}
			done = append(done, step.name)
			check()
		}
	}
	if cuts < 200 {
		t.Errorf("only %d cuts: the operations were not seen", cuts)
	}
}

func TestUploadFails(t *testing.T) {
	mem := vfs.NewMem()
	s := local.New(mem, "/root")
	if err := s.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	mem.Inject(func(op vfs.Op, _ string) error {
		if op == vfs.OpWrite {
			return syscall.ENOSPC
		}
		return nil
	})
	err := s.Upload(strings.NewReader("body"), 4, "d/f")
	mem.Inject(nil)
	if sink.ClassOf(err) != sink.Retryable || !strings.Contains(err.Error(), "d/f") {
		t.Errorf("error %v", err)
	}
	if _, err := s.Stat("d/f"); !errors.Is(err, sink.ErrNotExist) {
		t.Errorf("half an upload stayed: %v", err)
	}
}

// TestRootThatDangles: a link that leads nowhere is told as what it is, wherever in
// the path it stands.
func TestRootThatDangles(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "gone"), link); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{link, filepath.Join(link, "new", "views")} {
		if _, err := local.Open("file://" + root); !errors.Is(err, sink.ErrRefused) || !strings.Contains(err.Error(), link+" is a link to "+filepath.Join(dir, "gone")) {
			t.Errorf("%s: %v", root, err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "gone"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{link, filepath.Join(link, "new", "views"), filepath.Join(dir, "new", "views")} {
		if _, err := local.Open("file://" + root); err != nil {
			t.Error(err)
		}
	}
}

// TestAbove: the nearest folder above the root is found, by the path links lead to.
func TestAbove(t *testing.T) {
	dir, away := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "outer", "mark"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "outer", "in", "own"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "outer", "in"), filepath.Join(away, "link")); err != nil {
		t.Fatal(err)
	}
	outer := "file://" + filepath.Join(dir, "outer")
	for root, want := range map[string]string{
		filepath.Join(dir, "outer", "in"):       outer,
		filepath.Join(dir, "outer", "new", "a"): outer,
		filepath.Join(away, "link", "new"):      outer,
		filepath.Join(dir, "outer"):             "",
		dir:                                     "",
	} {
		s, err := local.Open("file://" + root)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Above("mark"); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", root, got, err, want)
		}
	}
}
