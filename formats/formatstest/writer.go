package formatstest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"runtime"
	"testing"

	"sawlog/formats"
)

// Writer is what the writers of all formats are.
type Writer interface {
	Write(*formats.Columns) error
	Close() error
	Restart(to io.Writer) error
}

// Open begins a file.
type Open func(to io.Writer) (Writer, error)

// File is a file in memory, of rows that go to its writer batch by batch.
func File(tb testing.TB, open Open, batches ...*formats.Columns) []byte {
	tb.Helper()
	var out bytes.Buffer
	w, err := open(&out)
	if err != nil {
		tb.Fatal(err)
	}
	if err := fill(w, batches); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// fill writes batches and closes.
func fill(w Writer, batches []*formats.Columns) error {
	for _, c := range batches {
		if err := w.Write(c); err != nil {
			return err
		}
	}
	return w.Close()
}

// Hash is the start of a file's sha256. It wants the same bytes of a writer that
// was halfway in another file, on one processor.
func Hash(tb testing.TB, open Open, batches ...*formats.Columns) string {
	tb.Helper()
	first := File(tb, open, batches...)
	w, err := open(io.Discard)
	if err != nil {
		tb.Fatal(err)
	}
	var again bytes.Buffer
	was := runtime.GOMAXPROCS(1)
	err = errors.Join(w.Write(batches[0]), w.Restart(&again), fill(w, batches))
	runtime.GOMAXPROCS(was)
	if err != nil {
		tb.Fatal(err)
	}
	if !bytes.Equal(first, again.Bytes()) {
		tb.Error("another file of a writer has other bytes")
	}
	sum := sha256.Sum256(first)
	return hex.EncodeToString(sum[:8])
}

// errFull is the error of a sink that has no room.
var errFull = errors.New("disk full")

// sink fails, or writes short, once its room is used up.
type sink struct {
	room  int
	short bool
}

func (s *sink) Write(b []byte) (int, error) {
	if len(b) <= s.room {
		s.room -= len(b)
		return len(b), nil
	}
	n := s.room
	s.room = 0
	if s.short {
		return n, nil
	}
	return n, errFull
}

// KeepsErrors lets the sink fail, and write short, at many places: each error
// comes back, and stays, until the writer begins another file.
func KeepsErrors(tb testing.TB, open Open, batches ...*formats.Columns) {
	tb.Helper()
	whole := File(tb, open, batches...)
	for room := 0; room < len(whole); room += 1 + len(whole)/20 {
		for short, want := range map[bool]error{false: errFull, true: io.ErrShortWrite} {
			w, err := open(&sink{room, short})
			if err == nil {
				err = fill(w, batches)
			}
			if !errors.Is(err, want) {
				tb.Errorf("a sink with room for %d of %d bytes: %v, want %v", room, len(whole), err, want)
			}
			if w == nil || err == nil {
				continue
			}
			if again := errors.Join(w.Write(batches[0]), w.Close()); !errors.Is(again, want) {
				tb.Errorf("a sink with room for %d of %d bytes: then %v", room, len(whole), again)
			}
			var out bytes.Buffer
			if err := errors.Join(w.Restart(&out), fill(w, batches)); err != nil || !bytes.Equal(out.Bytes(), whole) {
				tb.Errorf("after a sink with room for %d bytes: another file has other bytes, %v", room, err)
			}
		}
	}
	w, err := open(&sink{room: len(whole)})
	if err == nil {
		err = fill(w, batches)
	}
	if err != nil {
		tb.Errorf("a sink with room for all: %v", err)
	}
	if err := w.Write(batches[0]); err == nil {
		tb.Error("a closed writer takes rows")
	}
}
