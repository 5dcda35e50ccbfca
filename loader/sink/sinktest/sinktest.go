// Package sinktest is the one conformance suite of sinks: what a ledger relies
// on, checked on any implementation.
package sinktest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"sawlog/loader/sink"
)

// Run checks an implementation; open returns a sink with an empty root, which
// may not exist yet.
func Run(t *testing.T, open func(t *testing.T) sink.Sink) {
	tests := []struct {
		name string
		test func(t *testing.T, s sink.Sink)
	}{
		{"absent root", absentRoot},
		{"folders", folders},
		{"create", create},
		{"read", read},
		{"upload", upload},
		{"rename", rename},
		{"put if absent", putIfAbsent},
		{"racing puts", racingPuts},
		{"remove", remove},
		{"list", list},
		{"sync", durable},
		{"paths", paths},
		{"above", above},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// is fails the test unless err is the sentinel, from a sink, and names the path.
func is(t *testing.T, what string, err, sentinel error, name string) {
	t.Helper()
	var e *sink.Error
	if !errors.Is(err, sentinel) || !errors.As(err, &e) {
		t.Fatalf("%s: error is %v, want a sink error that is %v", what, err, sentinel)
	}
	if !strings.Contains(e.Error(), name) {
		t.Errorf("%s: error %q does not name %s", what, e, name)
	}
	if sink.ClassOf(err) != sink.Permanent {
		t.Errorf("%s: error %v is %v, an answer is permanent", what, err, sink.ClassOf(err))
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func holds(t *testing.T, s sink.Sink, name, want string) {
	t.Helper()
	data, err := s.ReadFile(name)
	if err != nil || string(data) != want {
		t.Fatalf("%s holds %q (%v), want %q", name, data, err, want)
	}
}

func absentRoot(t *testing.T, s sink.Sink) {
	if s.Root() == "" {
		t.Error("the root has no name")
	}
	_, err := s.List("")
	if err != nil {
		is(t, "list", err, sink.ErrNotExist, "root")
	}
	_, err = s.ReadFile("a")
	is(t, "read", err, sink.ErrNotExist, "a")
	_, err = s.Stat("a/b")
	is(t, "stat", err, sink.ErrNotExist, "a/b")
	ok(t, s.MkdirAll(""))
	ok(t, sink.Write(s, "a", []byte("x")))
	holds(t, s, "a", "x")
}

func folders(t *testing.T, s sink.Sink) {
	ok(t, s.MkdirAll("a/b"))
	ok(t, s.MkdirAll("a/b"))
	is(t, "mkdir twice", s.Mkdir("a/b"), sink.ErrExist, "a/b")
	is(t, "mkdir without parent", s.Mkdir("a/c/d"), sink.ErrNotExist, "a/c/d")
	ok(t, s.Mkdir("a/c"))
	e, err := s.Stat("a/c")
	ok(t, err)
	if !e.Dir || e.Name != "c" || e.Size != 0 {
		t.Errorf("stat of a folder: %+v", e)
	}
}

func create(t *testing.T, s sink.Sink) {
	ok(t, s.MkdirAll("d"))
	w, err := s.Create("d/f")
	ok(t, err)
	for _, part := range []string{"one ", "two ", strings.Repeat("3", 100_000)} {
		_, err := io.WriteString(w, part)
		ok(t, err)
	}
	ok(t, w.Close())
	holds(t, s, "d/f", "one two "+strings.Repeat("3", 100_000))
	_, err = s.Create("d/f")
	is(t, "create twice", err, sink.ErrExist, "d/f")
	_, err = s.Create("gone/f")
	is(t, "create in no folder", err, sink.ErrNotExist, "gone/f")
	w, err = s.Create("d/empty")
	ok(t, err)
	ok(t, w.Close())
	holds(t, s, "d/empty", "")
}

func read(t *testing.T, s sink.Sink) {
	ok(t, s.MkdirAll("d"))
	body := make([]byte, 300_000)
	for i := range body {
		body[i] = byte(i * 7 / 3)
	}
	ok(t, sink.Write(s, "d/f", body))
	f, err := s.Open("d/f")
	ok(t, err)
	if f.Size() != int64(len(body)) {
		t.Errorf("size %d, want %d", f.Size(), len(body))
	}
	for _, r := range [][2]int64{{0, 10}, {299_990, 10}, {123_456, 100_000}, {0, 300_000}} {
		p := make([]byte, r[1])
		if n, err := f.ReadAt(p, r[0]); n != len(p) || err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("read %d at %d: %d, %v", r[1], r[0], n, err)
		} else if !bytes.Equal(p, body[r[0]:r[0]+r[1]]) {
			t.Errorf("read %d at %d: other bytes", r[1], r[0])
		}
	}
	if n, err := f.ReadAt(make([]byte, 20), 299_990); n != 10 || !errors.Is(err, io.EOF) {
		t.Errorf("read over the end: %d, %v", n, err)
	}
	ok(t, f.Close())
	_, err = s.Open("d/gone")
	is(t, "open", err, sink.ErrNotExist, "d/gone")
	if _, err := s.Open("d"); err == nil {
		t.Error("a folder was opened as a file")
	}
	e, err := s.Stat("d/f")
	ok(t, err)
	if e.Dir || e.Name != "f" || e.Size != int64(len(body)) || e.ModTime.IsZero() {
		t.Errorf("stat of a file: %+v", e)
	}
}

func upload(t *testing.T, s sink.Sink) {
	body := strings.Repeat("upload ", 50_000)
	src, size := strings.NewReader(body), int64(len(body))
	ok(t, s.MkdirAll("d"))
	ok(t, s.Upload(src, size, "d/f"))
	holds(t, s, "d/f", body)
	is(t, "upload twice", s.Upload(src, size, "d/f"), sink.ErrExist, "d/f")
	is(t, "upload into no folder", s.Upload(src, size, "gone/f"), sink.ErrNotExist, "gone/f")
	if err := s.Upload(src, size+1, "d/g"); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "d/g") {
		t.Errorf("upload of more than there is: %v", err)
	}
	if _, err := s.Stat("d/g"); !errors.Is(err, sink.ErrNotExist) {
		t.Errorf("an upload that failed left a file: %v", err)
	}
}

func rename(t *testing.T, s sink.Sink) {
	ok(t, s.MkdirAll("a"))
	ok(t, s.MkdirAll("b"))
	ok(t, sink.Write(s, "a/f", []byte("new")))
	ok(t, s.Rename("a/f", "b/f"))
	holds(t, s, "b/f", "new")
	_, err := s.Stat("a/f")
	is(t, "stat of the old name", err, sink.ErrNotExist, "a/f")
	ok(t, sink.Write(s, "a/f", []byte("newer")))
	ok(t, s.Rename("a/f", "b/f"))
	holds(t, s, "b/f", "newer")
	is(t, "rename of nothing", s.Rename("a/f", "b/f"), sink.ErrNotExist, "a/f")
	holds(t, s, "b/f", "newer")
	is(t, "rename into no folder", s.Rename("b/f", "c/f"), sink.ErrNotExist, "c/f")
	holds(t, s, "b/f", "newer")
}

func putIfAbsent(t *testing.T, s sink.Sink) {
	ok(t, s.PutIfAbsent("l/000/commit.json", []byte("first")))
	holds(t, s, "l/000/commit.json", "first")
	is(t, "put twice", s.PutIfAbsent("l/000/commit.json", []byte("second")), sink.ErrExist, "l/000/commit.json")
	holds(t, s, "l/000/commit.json", "first")
	entries, err := s.List("l/000")
	ok(t, err)
	if len(entries) != 1 {
		t.Errorf("the folder of a put holds %v, want the one file", entries)
	}
	entries, err = s.List("l")
	ok(t, err)
	if len(entries) != 1 {
		t.Errorf("puts left something beside their folder: %v", entries)
	}
	ok(t, s.PutIfAbsent("l/001/commit.json", []byte("other")))
	holds(t, s, "l/000/commit.json", "first")
	holds(t, s, "l/001/commit.json", "other")
}

func racingPuts(t *testing.T, s sink.Sink) {
	const racers = 8
	for round := range 20 {
		name := fmt.Sprintf("l/%03d/commit.json", round)
		errs := make([]error, racers)
		var wg sync.WaitGroup
		for i := range racers {
			wg.Go(func() { errs[i] = s.PutIfAbsent(name, fmt.Appendf(nil, "racer %d", i)) })
		}
		wg.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				t.Fatalf("round %d: racers %d and %d both won", round, winner, i)
			case err == nil:
				winner = i
			case !errors.Is(err, sink.ErrExist):
				t.Fatalf("round %d: racer %d: %v", round, i, err)
			}
		}
		if winner < 0 {
			t.Fatalf("round %d: nobody won", round)
		}
		holds(t, s, name, fmt.Sprintf("racer %d", winner))
	}
}

func remove(t *testing.T, s sink.Sink) {
	ok(t, s.MkdirAll("a/b/c"))
	ok(t, sink.Write(s, "a/b/f", []byte("x")))
	if err := s.Remove("a/b"); err == nil {
		t.Error("a folder that holds something was removed")
	}
	ok(t, s.Remove("a/b/f"))
	is(t, "remove twice", s.Remove("a/b/f"), sink.ErrNotExist, "a/b/f")
	ok(t, s.Remove("a/b/c"))
	ok(t, sink.Write(s, "a/b/g", []byte("x")))
	ok(t, s.RemoveAll("a"))
	_, err := s.Stat("a")
	is(t, "stat", err, sink.ErrNotExist, "a")
	ok(t, s.RemoveAll("a"))
}

func list(t *testing.T, s sink.Sink) {
	ok(t, s.MkdirAll("d/sub"))
	var want []string
	for i := range 50 {
		name := fmt.Sprintf("f%02d", (i*37)%50)
		ok(t, sink.Write(s, "d/"+name, make([]byte, i)))
		want = append(want, name)
	}
	want = append(want, "sub")
	slices.Sort(want)
	entries, err := s.List("d")
	ok(t, err)
	var have []string
	for _, e := range entries {
		have = append(have, e.Name)
		if e.Dir != (e.Name == "sub") {
			t.Errorf("%s: folder %v", e.Name, e.Dir)
		}
	}
	if !slices.Equal(have, want) {
		t.Errorf("listed %v, want %v", have, want)
	}
	_, err = s.List("gone")
	is(t, "list", err, sink.ErrNotExist, "gone")
}

func durable(t *testing.T, s sink.Sink) {
	ok(t, s.MkdirAll("a/b"))
	ok(t, sink.Write(s, "a/b/f", []byte("x")))
	ok(t, s.Sync("a/b/f", "a/b", "a", ""))
	ok(t, s.Sync())
	holds(t, s, "a/b/f", "x")
	ok(t, s.MkdirAll("tmp"))
	ok(t, replace(s, "a/b/f", []byte("y")))
	holds(t, s, "a/b/f", "y")
	ok(t, replace(s, "a/b/g", []byte("z")))
	holds(t, s, "a/b/g", "z")
	entries, err := s.List("tmp")
	ok(t, err)
	if len(entries) != 0 {
		t.Errorf("replacing left %v", entries)
	}
}

// above holds that a root isn't above itself; its folders need not be there.
func above(t *testing.T, s sink.Sink) {
	for range 2 {
		found, err := s.Above("name of nothing")
		ok(t, err)
		if found != "" {
			t.Errorf("found in %s", found)
		}
		ok(t, s.MkdirAll("name of nothing"))
	}
	_, err := s.Above("../up")
	if err == nil {
		t.Error("a path that leaves the root was taken")
	}
}

func paths(t *testing.T, s sink.Sink) {
	ok(t, s.MkdirAll("a"))
	for _, name := range []string{"/a", "../a", "a/../../b", "a//b", "a/", "./a", ".", "..", "a\x00b"} {
		if _, err := s.Stat(name); err == nil || errors.Is(err, sink.ErrNotExist) {
			t.Errorf("stat %q: %v, want a refusal", name, err)
		}
		if _, err := s.Create(name); err == nil || errors.Is(err, sink.ErrExist) {
			t.Errorf("create %q: %v, want a refusal", name, err)
		}
	}
	odd := "a/dt=2026-11-29+hr=14 ü%20#?.part"
	ok(t, sink.Write(s, odd, []byte("odd")))
	holds(t, s, odd, "odd")
}

// replace gives a file new bytes in one step, as marks of hours are written.
func replace(s sink.Sink, name string, data []byte) error {
	const temp = "tmp/1"
	return errors.Join(sink.Write(s, temp, data), s.Sync(temp), s.Rename(temp, name), s.Sync(name))
}
