package offsets

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

var update = flag.Bool("update", false, "write the golden files anew")

func openStore(t testing.TB, path string) *Store {
	t.Helper()
	s, err := OpenStore(StoreConfig{Path: path, Mmap: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
			t.Error(err)
		}
	})
	return s
}

func flush(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
}

func commitOf(group, topic string, partition int32, offset Offset) Change {
	return Change{Group: group, Topic: topic, Partition: partition, Commit: &Committed{
		Offset: offset, LeaderEpoch: 3, Metadata: "m" + fmt.Sprint(offset), Time: 1_700_000_000_000, Expires: -1, TopicID: TopicID{9},
	}}
}

// contents is everything a partition holds, as text.
func contents(t testing.TB, s *Store, partition int32) string {
	t.Helper()
	var lines []string
	err := s.Groups(partition, func(group string, meta []byte) {
		lines = append(lines, fmt.Sprintf("group %s = %q", group, meta))
	})
	if err != nil {
		t.Fatal(err)
	}
	groups, err := s.OffsetGroups(partition)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		err := s.Offsets(partition, g, func(tp TopicPartition, c Committed) {
			lines = append(lines, fmt.Sprintf("offset %s %s = %+v", g, tp, c))
			one, ok, err := s.Offset(partition, g, tp)
			if err != nil || !ok || one != c {
				t.Errorf("%s %s: alone %+v %v %v, listed %+v", g, tp, one, ok, err, c)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestStoreReadsOverlayOverFile(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "offsets.db"))
	s.Apply(7, Position{3, 1}, []Change{
		commitOf("a", "t", 0, 10), commitOf("a", "t", 1, 11), commitOf("b", "t", 0, 12), {Group: "a", Meta: []byte("one")},
	})
	flush(t, s)
	s.Apply(7, Position{7, 2}, []Change{
		commitOf("a", "t", 0, 20), {Group: "a", Topic: "t", Partition: 1}, {Group: "b", Topic: "t"}, {Group: "a"}, commitOf("c", "u", 2, 13),
	})
	want := fmt.Sprintf("offset a t/0 = %+v\noffset c u/2 = %+v", *commitOf("", "", 0, 20).Commit, *commitOf("", "", 0, 13).Commit)
	for _, when := range []string{"in memory", "in the file"} {
		if have := contents(t, s, 7); have != want {
			t.Errorf("%s:\n%s\nwant\n%s", when, have, want)
		}
		if at := s.Applied(7); at != (Position{7, 2}) {
			t.Errorf("%s: applied %+v", when, at)
		}
		if _, ok, err := s.Group(7, "a"); ok || err != nil {
			t.Errorf("%s: a deleted group is there (%v)", when, err)
		}
		if has, err := s.HasOffsets(7, "b"); has || err != nil {
			t.Errorf("%s: b still has offsets (%v)", when, err)
		}
		flush(t, s)
	}
	if have := contents(t, s, 8); have != "" || s.Applied(8) != (Position{0, NoEpoch}) {
		t.Errorf("another partition holds %q", have)
	}
	if rows, size := s.Dirty(); rows != 0 || size != 0 {
		t.Errorf("after a flush %d rows, %d bytes are dirty", rows, size)
	}
}

func TestStoreDrop(t *testing.T) {
	path := filepath.Join(t.TempDir(), "offsets.db")
	s := openStore(t, path)
	s.Apply(1, Position{2, 1}, []Change{commitOf("a", "t", 0, 1), {Group: "a", Meta: []byte("x")}})
	s.Apply(2, Position{2, 1}, []Change{commitOf("b", "t", 0, 1)})
	flush(t, s)
	s.Drop(1)
	s.Apply(1, Position{1, 4}, []Change{commitOf("c", "t", 0, 5)})
	for range 2 {
		if have := contents(t, s, 1); !strings.HasPrefix(have, "offset c t/0") || strings.Contains(have, "\n") {
			t.Errorf("after the drop: %s", have)
		}
		if at := s.Applied(1); at != (Position{1, 4}) {
			t.Errorf("applied %+v", at)
		}
		flush(t, s)
	}
	s.Drop(2)
	flush(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := openStore(t, path)
	if at := again.Applied(2); at.Offset != 0 || contents(t, again, 2) != "" {
		t.Errorf("a dropped partition came back, applied %+v", at)
	}
	if at := again.Applied(1); at != (Position{1, 4}) {
		t.Errorf("applied %+v", at)
	}
}

// TestStoreModel: overlay, flushes, drops and restarts in any order are a map.
func TestStoreModel(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		path := filepath.Join(t.TempDir(), fmt.Sprint(seed))
		s := openStore(t, path)
		model := map[string]string{}
		at := Offset(0)
		for range 200 {
			switch n := rnd.IntN(30); {
			case n == 0:
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = openStore(t, path)
			case n == 1:
				s.Drop(5)
				clear(model)
				at = 0
			case n < 6:
				flush(t, s)
			default:
				group, topic := fmt.Sprint("g", rnd.IntN(5)), []string{"", "t", "tt"}[rnd.IntN(3)]
				c := Change{Group: group, Topic: topic, Partition: int32(rnd.IntN(3))}
				k := fmt.Sprintf("offset %s %s", group, TopicPartition{topic, c.Partition})
				if topic == "" {
					k = "group " + group
				}
				delete(model, k)
				if rnd.IntN(3) > 0 {
					if topic == "" {
						c.Meta = fmt.Append(nil, at)
						model[k] = fmt.Sprintf("%q", c.Meta)
					} else {
						c.Commit = commitOf("", "", 0, at).Commit
						model[k] = fmt.Sprintf("%+v", *c.Commit)
					}
				}
				at++
				s.Apply(5, Position{at, 1}, []Change{c})
			}
			var lines []string
			for _, k := range slices.Sorted(maps.Keys(model)) {
				lines = append(lines, k+" = "+model[k])
			}
			if have := contents(t, s, 5); have != strings.Join(lines, "\n") {
				t.Fatalf("seed %d at %d:\n%s\nwant\n%s", seed, at, have, strings.Join(lines, "\n"))
			}
			if s.Applied(5).Offset != at {
				t.Fatalf("seed %d: applied %d, want %d", seed, s.Applied(5).Offset, at)
			}
		}
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestStoreCrash: the process is killed between and before flushes. What is on
// disk is the state of some flush, its position and its rows together; applying
// the log from there on gives the whole state again.
func TestStoreCrash(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "offsets.db")
	s := openStore(t, path)
	log := make([]Change, 300) // offset i of the log
	rnd := rand.New(rand.NewPCG(3, 3))
	for i := range log {
		log[i] = commitOf(fmt.Sprint("g", rnd.IntN(4)), "t", int32(rnd.IntN(4)), Offset(i))
		switch rnd.IntN(5) {
		case 0:
			log[i].Commit = nil
		case 1:
			log[i] = Change{Group: log[i].Group, Meta: fmt.Append(nil, i)}
		}
	}
	for i, c := range log {
		s.Apply(0, Position{Offset(i + 1), Epoch(i / 100)}, []Change{c})
		if rnd.IntN(9) == 0 {
			flush(t, s)
		}
		if i%20 == 0 {
			copyFile(t, path, filepath.Join(dir, fmt.Sprint("copy", i)))
		}
	}
	want := contents(t, s, 0)
	replayed := 0
	for i := 0; i < len(log); i += 20 {
		r := openStore(t, filepath.Join(dir, fmt.Sprint("copy", i)))
		at := r.Applied(0)
		if int(at.Offset) > i+1 || at.Offset > 0 && at.Epoch != Epoch((at.Offset-1)/100) {
			t.Fatalf("the copy of %d is applied up to %+v", i, at)
		}
		for j := int(at.Offset); j < len(log); j++ {
			replayed++
			r.Apply(0, Position{Offset(j + 1), Epoch(j / 100)}, log[j:j+1])
		}
		if have := contents(t, r, 0); have != want {
			t.Fatalf("after a crash at %d:\n%s\nwant\n%s", i, have, want)
		}
	}
	if replayed == 0 {
		t.Fatal("nothing was lost, so nothing was proved")
	}
}

// TestStoreDamaged: files that make no sense are put aside, never an error and
// never a panic, wherever the damage lies.
func TestStoreDamaged(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	s := openStore(t, whole)
	for i := range 400 {
		s.Apply(int32(i%3), Position{Offset(i + 1), 1}, []Change{commitOf(fmt.Sprint("group-", i), "topic", 0, Offset(i))})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	var used []int
	for page := 0; page < len(good); page += 4096 {
		if !bytes.Equal(good[page:page+4096], make([]byte, 4096)) {
			used = append(used, page)
		}
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	aside := 0
	open := func(name string, b []byte) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		s := openStore(t, path)
		if _, err := os.Stat(path + ".bad"); err == nil {
			aside++
			if s.Applied(0).Offset != 0 || contents(t, s, 0) != "" {
				t.Errorf("%s: put aside, yet something is left", name)
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		s.Apply(0, Position{1000, 2}, []Change{commitOf("new", "t", 0, 1)})
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	open("text", []byte(strings.Repeat("not a database\n", 10_000)))
	open("short", good[:100])
	open("half", good[:len(good)/2])
	for i := range 20 {
		b := bytes.Clone(good)
		page := used[rnd.IntN(len(used))]
		for j := range 64 {
			b[page+j] = byte(rnd.Uint32())
		}
		open(fmt.Sprint("page", i), b)
	}
	for i := range 150 { // single bits of page and element headers
		b := bytes.Clone(good)
		b[used[rnd.IntN(len(used))]+rnd.IntN(48)] ^= 1 << rnd.IntN(8)
		open(fmt.Sprint("bit", i), b)
	}
	if aside < 40 {
		t.Errorf("only %d of 173 damaged files were found", aside)
	}
}

// TestStoreUnreachable: a file that is only out of reach is left alone.
func TestStoreUnreachable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "offsets.db")
	s := openStore(t, path)
	s.Apply(0, Position{1, 1}, nil)
	flush(t, s)
	if _, err := OpenStore(StoreConfig{Path: path, Timeout: 1}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a locked file was opened, or the error names no path: %v", err)
	}
	if _, err := OpenStore(StoreConfig{Path: filepath.Join(path, "x")}); err == nil {
		t.Error("a path below a file was opened")
	}
	if _, err := os.Stat(path + ".bad"); err == nil {
		t.Error("a locked file was put aside")
	}
}

func TestStoreMemoryOnly(t *testing.T) {
	s, err := OpenStore(StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s.Apply(0, Position{1, 1}, []Change{commitOf("g", "t", 0, 1)})
	flush(t, s)
	if have := contents(t, s, 0); !strings.HasPrefix(have, "offset g t/0") {
		t.Errorf("holds %q", have)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestStoreBounds(t *testing.T) {
	s, err := OpenStore(StoreConfig{Path: filepath.Join(t.TempDir(), "x"), Mmap: 1 << 20, MaxOverlay: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	s.Apply(0, Position{1, 1}, []Change{commitOf(strings.Repeat("g", 40_000), "t", 0, 1)}) // no key of bbolt's
	if rows, _ := s.Dirty(); rows != 0 {
		t.Error("a key that cannot be stored was taken")
	}
	for i := range 10 {
		s.Apply(0, Position{Offset(i), 1}, []Change{commitOf("g", "t", 0, 1)})
	}
	if s.Full() {
		t.Error("one row written ten times fills the overlay")
	}
	for i := range 100 {
		s.Apply(0, Position{Offset(i), 1}, []Change{commitOf("g", "t", int32(i), 1)})
	}
	if !s.Full() {
		t.Error("a hundred rows do not fill it")
	}
	flush(t, s)
	if s.Full() {
		t.Error("full after a flush")
	}
}

// TestStoreGolden: the rows are what the package doc draws, and a file written
// long ago can be read.
func TestStoreGolden(t *testing.T) {
	changes := []Change{
		{Group: "g", Meta: []byte("kafka's bytes")},
		{Group: "g", Topic: "topic", Partition: 258, Commit: &Committed{
			Offset: 0x0102030405060708, LeaderEpoch: 0x0a0b0c0d, Metadata: "é", Time: 1_700_000_000_001, Expires: -1,
			TopicID: TopicID{0xaa, 15: 0xbb},
		}},
		{Group: "", Topic: "t", Commit: &Committed{Offset: 0, LeaderEpoch: NoEpoch, Expires: 1_800_000_000_002}},
	}
	path := filepath.Join(t.TempDir(), "offsets.db")
	s, err := OpenStore(StoreConfig{Path: path, Mmap: 1 << 15})
	if err != nil {
		t.Fatal(err)
	}
	s.Apply(49, Position{0x1122, 0x33}, changes)
	want := contents(t, s, 49)
	flush(t, s)
	var dump strings.Builder
	err = s.db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			fmt.Fprintf(&dump, "bucket %x\n", name)
			return b.ForEach(func(k, v []byte) error {
				fmt.Fprintf(&dump, "%s\n  %s\n", hex.EncodeToString(k), hex.EncodeToString(v))
				return nil
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("testdata/store.golden", []byte(dump.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		copyFile(t, path, "testdata/store-1.db")
	}
	golden, err := os.ReadFile("testdata/store.golden")
	if err != nil {
		t.Fatal(err)
	}
	if dump.String() != string(golden) {
		t.Errorf("rows:\n%s\nwant\n%s", dump.String(), golden)
	}
	old := filepath.Join(t.TempDir(), "old.db")
	copyFile(t, "testdata/store-1.db", old)
	s = openStore(t, old)
	if have := contents(t, s, 49); have != want {
		t.Errorf("the old file holds\n%s\nwant\n%s", have, want)
	}
	if at := s.Applied(49); at != (Position{0x1122, 0x33}) {
		t.Errorf("applied %+v", at)
	}
}

func FuzzStoreRows(f *testing.F) {
	f.Add([]byte{rowApplied}, encodePosition(Position{5, 6}))
	f.Add(groupKey(rowGroup, "g"), []byte("x"))
	f.Add(offsetKey("g", TopicPartition{"t", 1}), encodeCommitted(&Committed{Offset: 1, Metadata: "m"}))
	f.Fuzz(func(t *testing.T, k, v []byte) {
		if err := checkRow(k, v); err != nil {
			return
		}
		if k[0] == rowOffset {
			group, tp, _ := parseOffsetKey(k)
			c, _ := decodeCommitted(v)
			if !bytes.Equal(offsetKey(group, tp), k) || !bytes.Equal(encodeCommitted(&c), v) {
				t.Errorf("%x = %x is not what it is read as", k, v)
			}
		}
	})
}

// BenchmarkStoreLoad applies and flushes 100,000 offsets, then reads them.
func BenchmarkStoreLoad(b *testing.B) {
	for b.Loop() {
		s := openStore(b, filepath.Join(b.TempDir(), "offsets.db"))
		for i := range 100 {
			changes := make([]Change, 1000)
			for j := range changes {
				changes[j] = commitOf(fmt.Sprint("group-", (i*1000+j)%5000), "topic", int32(i), Offset(j))
			}
			s.Apply(0, Position{Offset(i*1000 + 1000), 1}, changes)
		}
		flush(b, s)
		n := 0
		groups, err := s.OffsetGroups(0)
		for _, g := range groups {
			err = errors.Join(err, s.Offsets(0, g, func(TopicPartition, Committed) { n++ }))
		}
		if err != nil || n != 100_000 {
			b.Fatalf("%d offsets, %v", n, err)
		}
	}
}
