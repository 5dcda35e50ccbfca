package loader

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"sawlog/formats"
)

type spilledCopy struct {
	bucket int64
	rng    int
	msg    string
}

func spillAll(t *testing.T, limit int, in []spilledCopy, msgs []formats.Message) ([]spilledCopy, int) {
	t.Helper()
	dir := t.TempDir()
	s := newSpill(dir, 1<<20)
	s.limit = limit
	for i := range msgs {
		if err := s.Add(in[i].bucket, in[i].rng, &msgs[i]); err != nil {
			t.Fatal(err)
		}
	}
	var out []spilledCopy
	err := s.Each(func(r *spilled) error {
		out = append(out, spilledCopy{r.bucket, r.rng, fmt.Sprintf("%+v", copyOf(&r.msg))})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	runs := len(s.runs)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	return out, runs
}

// copyOf keeps null and empty apart in print.
func copyOf(m *formats.Message) any {
	blob := func(b []byte) string {
		if b == nil {
			return "null"
		}
		return fmt.Sprintf("%q", b)
	}
	out := []any{m.Offset, m.Timestamp, blob(m.Key), blob(m.Value)}
	for _, h := range m.Headers {
		out = append(out, h.Key, blob(h.Value))
	}
	return out
}

// The order is (bucket, arrival), and nothing of a record is lost, whether all
// of it fits in memory or hardly a record does.
func TestSpillSortsStably(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	const n = 3000
	msgs := make([]formats.Message, n)
	in := make([]spilledCopy, n)
	for i := range msgs {
		m := &msgs[i]
		m.Offset, m.Timestamp = int64(i), int64(rnd.IntN(100))-1
		switch rnd.IntN(4) {
		case 0:
			m.Key = []byte{}
		case 1:
			m.Key = fmt.Append(nil, "key", i)
		}
		if rnd.IntN(10) > 0 {
			m.Value = bytes.Repeat([]byte{byte(i)}, rnd.IntN(200))
		}
		for range rnd.IntN(3) {
			h := formats.Header{Key: fmt.Sprint("h", rnd.IntN(9))}
			if rnd.IntN(2) == 0 {
				h.Value = []byte("v")
			}
			m.Headers = append(m.Headers, h)
		}
		in[i] = spilledCopy{int64(rnd.IntN(40)) - 20, i * 3 / n, fmt.Sprintf("%+v", copyOf(m))}
	}
	msgs[1500].Value = bytes.Repeat([]byte("x"), 300_000) // larger than the limit
	in[1500].msg = fmt.Sprintf("%+v", copyOf(&msgs[1500]))
	want := slices.Clone(in)
	slices.SortStableFunc(want, func(a, b spilledCopy) int { return int(a.bucket - b.bucket) })
	for _, limit := range []int{64 << 20, 100_000, 4_000} {
		got, runs := spillAll(t, limit, in, msgs)
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: order or content differs", limit)
		}
		if spills := limit < 1<<20; spills != (runs > 1) {
			t.Errorf("limit %d: %d runs", limit, runs)
		}
	}
}

func TestSpillEmpty(t *testing.T) {
	if got, _ := spillAll(t, 1000, nil, nil); len(got) != 0 {
		t.Error(got)
	}
}

func TestSpillDamaged(t *testing.T) {
	s := newSpill(t.TempDir(), 1<<20)
	s.limit = 1000
	for i := range 100 {
		if err := s.Add(int64(i%3), 0, &formats.Message{Offset: int64(i), Value: bytes.Repeat([]byte("v"), 50)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.file.Truncate(s.size - 10); err != nil {
		t.Fatal(err)
	}
	if err := s.Each(func(*spilled) error { return nil }); err == nil {
		t.Error("a truncated file was read without an error")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	var r spilled
	for n := range 30 {
		if err := r.parse(make([]byte, n)); n < 28 && !errors.Is(err, errSpillDamaged) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
