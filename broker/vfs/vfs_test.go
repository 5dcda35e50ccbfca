package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"strings"
	"syscall"
	"testing"
)

// TestConformance holds both file systems to the same behaviour.
func TestConformance(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) (FS, string){
		"os":  func(t *testing.T) (FS, string) { return OS, t.TempDir() },
		"mem": func(*testing.T) (FS, string) { return NewMem(), "/" },
	} {
		t.Run(name, func(t *testing.T) {
			fs, dir := make(t)
			for step, run := range map[string]func(t *testing.T, fs FS, dir string){
				"write": conformWrite, "names": conformNames, "lock": conformLock, "replace": conformReplace,
			} {
				t.Run(step, func(t *testing.T) {
					sub := path.Join(dir, step)
					must(t, fs.MkdirAll(path.Join(sub, "deep/er"), 0o755))
					run(t, fs, sub)
				})
			}
		})
	}
}

func conformWrite(t *testing.T, fs FS, dir string) {
	name := path.Join(dir, "f")
	f, err := fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	must(t, err)
	must(t, f.Allocate(0, 1<<16))
	bufs := make([][]byte, 2000) // more than one pwritev takes
	var want []byte
	for i := range bufs {
		bufs[i] = fmt.Appendf(nil, "<%d>", i)
		want = append(want, bufs[i]...)
	}
	n, err := f.Writev(bufs, 0)
	must(t, err)
	st, err := f.Stat()
	must(t, err)
	if n != int64(len(want)) || st.Size() != n {
		t.Fatalf("wrote %d, size %d, want %d", n, st.Size(), len(want))
	}
	must(t, f.Truncate(10))
	_, err = f.WriteAt([]byte("x"), 12)
	must(t, err)
	must(t, f.Sync())
	got := make([]byte, 100)
	k, err := f.ReadAt(got, 8)
	if k != 5 || !errors.Is(err, io.EOF) || string(got[:k]) != string(want[8:10])+"\x00\x00x" {
		t.Fatalf("read %q, %v", got[:k], err)
	}
	must(t, f.Close())
	if _, err := f.ReadAt(got, 0); err == nil {
		t.Fatal("read of a closed file")
	}
	_, err = fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if !errors.Is(err, os.ErrExist) {
		t.Fatalf("exclusive create of an existing file: %v", err)
	}
}

func conformNames(t *testing.T, fs FS, dir string) {
	put(t, fs, path.Join(dir, "a"), "one")
	put(t, fs, path.Join(dir, "b"), "two")
	open, err := fs.OpenFile(path.Join(dir, "a"), os.O_RDONLY, 0)
	must(t, err)
	must(t, fs.Rename(path.Join(dir, "b"), path.Join(dir, "a")))
	must(t, fs.Link(path.Join(dir, "a"), path.Join(dir, "deep/c")))
	if err := fs.Link(path.Join(dir, "a"), path.Join(dir, "deep/c")); !errors.Is(err, os.ErrExist) {
		t.Fatalf("second link: %v", err)
	}
	old, err := io.ReadAll(open)
	must(t, err)
	must(t, open.Close())
	if now := get(t, fs, path.Join(dir, "deep/c")); string(old) != "one" || now != "two" {
		t.Fatalf("open file reads %q, new name %q", old, now)
	}
	if err := fs.Remove(path.Join(dir, "deep")); err == nil {
		t.Fatal("removed a folder that is not empty")
	}
	if err := fs.Mkdir(path.Join(dir, "deep"), 0o755); !errors.Is(err, os.ErrExist) {
		t.Fatalf("mkdir twice: %v", err)
	}
	must(t, fs.SyncDir(dir))
	entries, err := fs.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, fmt.Sprint(e.Name(), e.IsDir()))
	}
	if got := strings.Join(names, " "); got != "afalse deeptrue" {
		t.Fatalf("names %s", got)
	}
	must(t, fs.RemoveAll(path.Join(dir, "deep")))
	must(t, fs.RemoveAll(path.Join(dir, "deep")))
	if _, err := fs.Stat(path.Join(dir, "deep/c")); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("stat of a removed name: %v", err)
	}
}

func conformLock(t *testing.T, fs FS, dir string) {
	name := path.Join(dir, "lock")
	held, err := fs.Lock(name)
	must(t, err)
	_, err = fs.Lock(name)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), name) {
		t.Fatalf("second lock: %v", err)
	}
	must(t, held.Close())
	again, err := fs.Lock(name)
	must(t, err)
	must(t, again.Close())
}

func conformReplace(t *testing.T, fs FS, dir string) {
	name := path.Join(dir, "small")
	for _, want := range []string{"first, longer", "second"} {
		must(t, Replace(fs, name, []byte(want)))
		if got := get(t, fs, name); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	if _, err := fs.Stat(name + TempSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("temporary file: %v", err)
	}
}

// A process that is being started holds copies of all files for a moment; a lock
// that is let go is free all the same.
func TestLockIsFreeBesideItsCopy(t *testing.T) {
	name := path.Join(t.TempDir(), "lock")
	held, err := OS.Lock(name)
	must(t, err)
	fd, err := syscall.Dup(int(held.(*osLock).Fd()))
	must(t, err)
	defer func() { _ = syscall.Close(fd) }() // of no use
	must(t, held.Close())
	again, err := OS.Lock(name)
	must(t, err)
	must(t, again.Close())
}

func TestLockNamesItsOwner(t *testing.T) {
	name := path.Join(t.TempDir(), "lock")
	held, err := OS.Lock(name)
	must(t, err)
	defer func() { must(t, held.Close()) }()
	_, err = OS.Lock(name)
	if want := fmt.Sprintf("(pid %d)", os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("%v does not name %s", err, want)
	}
}

// TestCrashReplace cuts the power at every step of replacing a file.
func TestCrashReplace(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		fs := NewMem()
		must(t, Replace(fs, "f", bytes.Repeat([]byte("a"), 9000)))
		var seen [2]int
		fs.Inject(func(Op, string) error {
			got := get(t, fs.CrashClone(rnd), "f")
			switch got {
			case strings.Repeat("a", 9000):
				seen[0]++
			case strings.Repeat("b", 8000):
				seen[1]++
			default:
				t.Fatalf("seed %d: %d bytes, neither old nor new", seed, len(got))
			}
			return nil
		})
		must(t, Replace(fs, "f", bytes.Repeat([]byte("b"), 8000)))
		fs.Inject(nil)
		if got := get(t, fs.CrashClone(rnd), "f"); got != strings.Repeat("b", 8000) {
			t.Fatalf("seed %d: replaced file is lost", seed)
		}
	}
}

// TestCrashLosesWhatWasNotSynced shows that the model is not kinder than a disk.
func TestCrashLosesWhatWasNotSynced(t *testing.T) {
	lost, kept, zeros, torn := 0, 0, 0, 0
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		fs := NewMem()
		put(t, fs, "synced", strings.Repeat("s", 10000))
		must(t, fs.SyncDir("/"))
		f, err := fs.OpenFile("synced", os.O_RDWR, 0)
		must(t, err)
		must(t, f.Sync())
		_, err = f.WriteAt(bytes.Repeat([]byte("n"), 20000), 10000)
		must(t, err)
		put(t, fs, "unsynced-name", "x")
		after := fs.CrashClone(rnd)
		got := get(t, after, "synced")
		if len(got) < 10000 || got[:10000] != strings.Repeat("s", 10000) {
			t.Fatalf("seed %d: synced bytes are lost", seed)
		}
		tail := got[10000:]
		zeros += min(1, strings.Count(tail, "\x00"))
		if strings.Contains(tail, "n\x00") {
			torn++
		}
		if _, err := after.Stat("unsynced-name"); err != nil {
			lost++
		} else {
			kept++
		}
		killed := fs.CrashClone(nil)
		if get(t, killed, "synced") != strings.Repeat("s", 10000)+strings.Repeat("n", 20000) || get(t, killed, "unsynced-name") != "x" {
			t.Fatal("a killed process lost what it had written")
		}
	}
	if lost == 0 || kept == 0 || zeros == 0 || torn == 0 {
		t.Fatalf("lost %d, kept %d, zeros %d, torn %d: every one must happen", lost, kept, zeros, torn)
	}
}

func TestInject(t *testing.T) {
	fs := NewMem()
	f, err := fs.OpenFile("f", os.O_RDWR|os.O_CREATE, 0o644)
	must(t, err)
	fs.Inject(func(op Op, name string) error {
		switch {
		case op == OpWrite && name == "f":
			return &PartialWrite{N: 3, Err: syscall.EIO}
		case op == OpAllocate:
			return syscall.ENOSPC
		case op == OpSync:
			return syscall.EIO
		}
		return nil
	})
	n, err := f.Writev([][]byte{[]byte("ab"), []byte("cd")}, 0)
	if n != 3 || !errors.Is(err, syscall.EIO) {
		t.Fatalf("short write: %d, %v", n, err)
	}
	if err := f.Allocate(0, 10); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("allocate: %v", err)
	}
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("sync: %v", err)
	}
	fs.Inject(nil)
	if got := get(t, fs, "f"); got != "abc" {
		t.Fatalf("content %q", got)
	}
}

func TestRegionDone(t *testing.T) {
	n := 0
	Region{}.Done()
	Region{Release: func() { n++ }}.Done()
	if n != 1 {
		t.Fatalf("released %d times", n)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, fs FS, name, content string) {
	t.Helper()
	f, err := fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	must(t, err)
	_, err = f.Write([]byte(content))
	must(t, err)
	must(t, f.Close())
}

func get(t *testing.T, fs FS, name string) string {
	t.Helper()
	b, err := ReadFile(fs, name)
	must(t, err)
	return string(b)
}

// TestRelieved: what fails for want of room is done again once there is some,
// and nothing else is.
func TestRelieved(t *testing.T) {
	under := NewMem()
	full, relieved, makesRoom := true, 0, true
	fs := Relieved(under, func() bool {
		relieved++
		full = full && !makesRoom
		return makesRoom
	})
	put(t, under, "old", "content")
	under.Inject(func(op Op, _ string) error {
		switch {
		case !full:
		case op == OpWrite:
			return &PartialWrite{N: 2, Err: syscall.ENOSPC}
		case op == OpCreate, op == OpMkdir, op == OpLink, op == OpRename, op == OpAllocate, op == OpSync:
			return syscall.ENOSPC
		}
		return nil
	})
	f, err := fs.OpenFile("old", os.O_RDWR, 0)
	must(t, err)
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"create", func() error { _, err := fs.OpenFile("new", os.O_RDWR|os.O_CREATE, 0o644); return err }},
		{"mkdir", func() error { return fs.Mkdir("dir", 0o755) }},
		{"mkdirall", func() error { return fs.MkdirAll("deep/er", 0o755) }},
		{"link", func() error { return fs.Link("old", "linked") }},
		{"rename", func() error { return fs.Rename("linked", "renamed") }},
		{"allocate", func() error { return f.Allocate(0, 10) }},
		{"write at", func() error { _, err := f.WriteAt([]byte("WRITT"), 0); return err }},
		{"writev", func() error { _, err := f.Writev([][]byte{[]byte("te"), []byte("n")}, 4); return err }},
	} {
		full, relieved, makesRoom = true, 0, false
		if err := c.do(); !errors.Is(err, syscall.ENOSPC) || relieved != 1 {
			t.Fatalf("%s without room: %v, asked %d times", c.name, err, relieved)
		}
		makesRoom, relieved = true, 0
		if err := c.do(); err != nil || relieved != 1 {
			t.Fatalf("%s with room made: %v, asked %d times", c.name, err, relieved)
		}
	}
	full, relieved = true, 0
	w, err := fs.OpenFile("appended", os.O_RDWR|os.O_CREATE, 0o644)
	must(t, err)
	full, relieved = true, 0
	if n, err := w.Write([]byte("in two parts")); n != 12 || err != nil || relieved != 1 {
		t.Fatalf("write: %d, %v, asked %d times", n, err, relieved)
	}
	if got := get(t, under, "appended"); got != "in two parts" {
		t.Fatalf("%q", got)
	}
	full, relieved = true, 0
	if err := f.Sync(); !errors.Is(err, syscall.ENOSPC) || relieved != 0 {
		t.Fatalf("a failed sync: %v, asked %d times", err, relieved)
	}
	full = false
	got := make([]byte, 7)
	if _, err := f.ReadAt(got, 0); err != nil || string(got) != "WRITten" {
		t.Fatalf("%q, %v", got, err)
	}
	under.Inject(func(Op, string) error { return syscall.EIO })
	if err := fs.Mkdir("x", 0o755); !errors.Is(err, syscall.EIO) || relieved != 0 {
		t.Fatalf("another error: %v, asked %d times", err, relieved)
	}
}
