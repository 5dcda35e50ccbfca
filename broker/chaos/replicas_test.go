//go:build linux

package chaos

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/maphash"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sawlog/broker/record"
)

// stored is a batch as it lies in a segment.
type stored struct {
	First, Next int64 // offsets, half-open
	Epoch       int32
	Hash        uint64 // of all its bytes, offset and epoch included
	bytes       record.Batch
}

// hashSeed makes hashes of one test process comparable.
var hashSeed = maphash.MakeSeed()

// replicaLog reads the segments of a replica that nobody writes to.
func replicaLog(dir string) ([]stored, error) {
	segments, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return nil, err
	}
	slices.Sort(segments) // named by first offset, of one length
	var all []stored
	for _, path := range segments {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for pos := 0; len(b) > 0; {
			if len(b) < record.HeaderSize || binary.BigEndian.Uint32(b[8:]) == 0 {
				if strings.Trim(string(b), "\x00") == "" {
					break // room taken ahead of time
				}
				return nil, fmt.Errorf("%s: %d bytes at %d are no batch", path, len(b), pos)
			}
			size := 12 + int(binary.BigEndian.Uint32(b[8:]))
			if size < record.HeaderSize || size > len(b) {
				return nil, fmt.Errorf("%s: a batch of %d bytes at %d, %d are left", path, size, pos, len(b))
			}
			batch := b[:size]
			if got, want := crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)), binary.BigEndian.Uint32(batch[17:]); got != want {
				return nil, fmt.Errorf("%s: checksum %08x at %d, want %08x", path, got, pos, want)
			}
			first := int64(binary.BigEndian.Uint64(batch))
			all = append(all, stored{
				First: first, Next: first + int64(binary.BigEndian.Uint32(batch[23:])) + 1,
				Epoch: int32(binary.BigEndian.Uint32(batch[12:])), Hash: maphash.Bytes(hashSeed, batch), bytes: batch,
			})
			b, pos = b[size:], pos+size
		}
	}
	return all, nil
}

// replicas are the logs of nodes: replicas[place][node].
type replicas map[place]map[int32][]stored

// readReplicas reads what each node holds of the partitions that are its own.
func readReplicas(dirs map[int32]string, own map[place][]int32) (replicas, error) {
	all := replicas{}
	for p, nodes := range own {
		all[p] = map[int32][]stored{}
		for _, n := range nodes {
			dir := filepath.Join(dirs[n], p.Topic+"-"+strconv.Itoa(int(p.Partition)))
			log, err := replicaLog(dir)
			if err != nil {
				return nil, fmt.Errorf("node %d: %w", n, err)
			}
			all[p][n] = log
		}
	}
	return all, nil
}

// checkReplicas wants replicas to be equal: the same batches, byte by byte; of a
// compacted topic the same records where both have one, and the same last one of
// each key. Quiet topics end at the same offset too.
func checkReplicas(all replicas, compacted, quiet func(topic string) bool) []violation {
	v := &violations{check: "replicas unequal"}
	for _, p := range slices.SortedFunc(maps.Keys(all), func(a, b place) int { return cmp.Compare(a.String(), b.String()) }) {
		logs := all[p]
		nodes := slices.Sorted(maps.Keys(logs))
		for _, n := range nodes[min(1, len(nodes)):] {
			a, b := logs[nodes[0]], logs[n]
			if endOf(a) != endOf(b) && quiet(p.Topic) {
				v.add("%s ends at %d on node %d and at %d on node %d", p, endOf(a), nodes[0], endOf(b), n)
			}
			if compacted(p.Topic) {
				if err := compareKeyed(a, b); err != nil {
					v.add("%s on nodes %d and %d: %v", p, nodes[0], n, err)
				}
			} else if err := compareBatches(a, b); err != nil {
				v.add("%s on nodes %d and %d: %v", p, nodes[0], n, err)
			}
		}
	}
	return v.list()
}

func startOf(log []stored) int64 {
	if len(log) == 0 {
		return 0
	}
	return log[0].First
}

func endOf(log []stored) int64 {
	if len(log) == 0 {
		return 0
	}
	return log[len(log)-1].Next
}

// compareBatches compares where both have a log.
func compareBatches(a, b []stored) error {
	from, to := max(startOf(a), startOf(b)), min(endOf(a), endOf(b))
	within := func(s stored) bool { return s.First >= from && s.Next <= to }
	a, b = slices.Collect(filter(a, within)), slices.Collect(filter(b, within))
	for i := range min(len(a), len(b)) {
		if a[i].Hash != b[i].Hash {
			return fmt.Errorf("batch [%d, %d) of epoch %d beside [%d, %d) of epoch %d", a[i].First, a[i].Next, a[i].Epoch, b[i].First, b[i].Next, b[i].Epoch)
		}
	}
	if len(a) != len(b) {
		return fmt.Errorf("%d batches beside %d in [%d, %d)", len(a), len(b), from, to)
	}
	return nil
}

func filter[T any](all []T, keep func(T) bool) func(func(T) bool) {
	return func(yield func(T) bool) {
		for _, x := range all {
			if keep(x) && !yield(x) {
				return
			}
		}
	}
}

// cell is a record of a compacted log.
type cell struct {
	offset int64
	value  string
	gone   bool // a tombstone
}

// compareKeyed compares what compaction left: each replica compacts by itself.
func compareKeyed(a, b []stored) error {
	to := min(endOf(a), endOf(b))
	at, last, err := cells(a, to)
	if err != nil {
		return err
	}
	otherAt, otherLast, err := cells(b, to)
	if err != nil {
		return err
	}
	for offset, what := range at {
		if other, ok := otherAt[offset]; ok && other != what {
			return fmt.Errorf("offset %d holds %.80q and %.80q", offset, what, other)
		}
	}
	for i, pair := range [2][2]map[string]cell{{last, otherLast}, {otherLast, last}} {
		for key, have := range pair[0] {
			if other, ok := pair[1][key]; (!ok && !have.gone) || (ok && other != have) {
				return fmt.Errorf("key %.80q ends with %v on replica %d and %v on the other", key, have, i, other)
			}
		}
	}
	return nil
}

// cells are the records of a log below an offset, and the last of each key.
func cells(log []stored, to int64) (map[int64]string, map[string]cell, error) {
	at, last := map[int64]string{}, map[string]cell{}
	var it record.Iterator
	for _, s := range log {
		if err := it.Reset(s.bytes); err != nil {
			return nil, nil, fmt.Errorf("batch [%d, %d): %w", s.First, s.Next, err)
		}
		for it.Next() {
			r := it.Record()
			if int64(r.Offset) >= to {
				continue
			}
			at[int64(r.Offset)] = string(r.Key) + "=" + string(r.Value)
			last[string(r.Key)] = cell{int64(r.Offset), string(r.Value), r.Value == nil}
		}
		if err := it.Err(); err != nil {
			return nil, nil, fmt.Errorf("batch [%d, %d): %w", s.First, s.Next, err)
		}
	}
	return at, last, nil
}

// checkEpochs wants epochs to go up along a log, and each to begin at the same
// offset on every replica that has its begin. Compaction takes begins away: there
// each record is of one epoch wherever it is left.
func checkEpochs(all replicas, compacted func(topic string) bool) []violation {
	v := &violations{check: "epochs unequal"}
	for p, logs := range all {
		began := map[int32]mark{}
		of := map[int64]mark{}
		for _, n := range slices.Sorted(maps.Keys(logs)) {
			epoch := int32(-1)
			for i, s := range logs[n] {
				if s.Epoch < epoch {
					v.add("%s on node %d: epoch %d at %d follows epoch %d", p, n, s.Epoch, s.First, epoch)
				}
				begins := s.Epoch > epoch && i > 0
				epoch = max(epoch, s.Epoch)
				if compacted(p.Topic) {
					for offset := s.First; offset < s.Next; offset++ {
						if m, ok := of[offset]; ok && m.at != int64(s.Epoch) {
							v.add("%s@%d is of epoch %d on node %d and of %d on node %d", p, offset, m.at, m.node, s.Epoch, n)
						}
						of[offset] = mark{n, int64(s.Epoch)}
					}
				} else if begins {
					if b, ok := began[s.Epoch]; ok && b.at != s.First {
						v.add("%s: epoch %d begins at %d on node %d and at %d on node %d", p, s.Epoch, b.at, b.node, s.First, n)
					}
					began[s.Epoch] = mark{n, s.First}
				}
			}
		}
	}
	return v.list()
}

// mark is what a node has: an offset or an epoch.
type mark struct {
	node int32
	at   int64
}

// replicated writes a log's segment and reads it back: batches of (epoch, key,
// values…).
func replicated(t *testing.T, epochs []int32, from int64) []stored {
	t.Helper()
	dir := t.TempDir()
	var file []byte
	next := from
	for i, epoch := range epochs {
		w := record.NewBuilder(record.None, record.DefaultLevel)
		w.Append(record.Record{Timestamp: 1, Key: []byte("k" + strconv.Itoa(i%2)), Value: []byte(strconv.Itoa(int(from) + i))})
		w.Append(record.Record{Timestamp: 1, Key: []byte("l"), Value: []byte(strconv.Itoa(int(from) + i))})
		b, err := w.Batch()
		if err != nil {
			t.Fatal(err)
		}
		binary.BigEndian.PutUint64(b, uint64(next))
		binary.BigEndian.PutUint32(b[12:], uint32(epoch))
		next += 2
		file = append(file, b...)
	}
	file = append(file, make([]byte, 4096)...)
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%020d.log", from)), file, 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := replicaLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// Replicas that are equal are found so, whatever was deleted at their starts;
// each way to be unequal is seen.
func TestReplicasAreCompared(t *testing.T) {
	p := place{"events", 0}
	full := func() []stored { return replicated(t, []int32{1, 1, 2, 2}, 0) }
	no, yes := func(string) bool { return false }, func(string) bool { return true }
	for _, keyed := range []func(string) bool{no, yes} {
		if got := checkReplicas(replicas{p: {1: full(), 2: full(), 3: full()[1:]}}, no, yes); len(got) != 0 {
			t.Errorf("equal ones: %v", got)
		}
		for name, doctor := range map[string]func(log []stored) []stored{
			"shorter": func(log []stored) []stored { return log[:3] },
			"another": func(log []stored) []stored {
				log[2] = replicated(t, []int32{2}, 4)[0]
				binary.BigEndian.PutUint64(log[2].bytes, 4)
				return log
			},
			"empty": func([]stored) []stored { return nil },
		} {
			if got := checkReplicas(replicas{p: {1: full(), 2: doctor(full()), 3: full()}}, keyed, yes); len(got) == 0 {
				t.Errorf("%s, compacted %v: nothing was seen", name, keyed(""))
			}
		}
	}
	if got := checkReplicas(replicas{p: {1: full(), 2: slices.Delete(full(), 1, 2)}}, no, yes); len(got) == 0 {
		t.Error("a hole was not seen")
	}
	// Compaction may have gone further on one of them.
	if got := checkReplicas(replicas{p: {1: full(), 2: slices.Delete(full(), 1, 2)}}, yes, yes); len(got) != 0 {
		t.Errorf("compacted: %v", got)
	}
	if got := checkEpochs(replicas{p: {1: full(), 2: full()[1:]}}, no); len(got) != 0 {
		t.Errorf("epochs: %v", got)
	}
	if got := checkEpochs(replicas{p: {1: full(), 2: replicated(t, []int32{1, 2, 2, 2}, 0)}}, no); len(got) == 0 {
		t.Error("an epoch with two begins was not seen")
	}
	if got := checkEpochs(replicas{p: {1: replicated(t, []int32{1, 2, 1}, 0)}}, no); len(got) == 0 {
		t.Error("an epoch that goes back was not seen")
	}
	// A begin that was compacted away on one of them says nothing; a record does.
	if got := checkEpochs(replicas{p: {1: full(), 2: slices.Delete(full(), 2, 3)}}, yes); len(got) != 0 {
		t.Errorf("epochs of a compacted log: %v", got)
	}
	if got := checkEpochs(replicas{p: {1: full(), 2: replicated(t, []int32{1, 2, 2, 2}, 0)}}, yes); len(got) == 0 {
		t.Error("a record of two epochs was not seen")
	}
}

// Damage in a segment is told, not skipped.
func TestReplicaLogIsChecked(t *testing.T) {
	dir := t.TempDir()
	b := replicated(t, []int32{1}, 0)[0].bytes
	for name, file := range map[string][]byte{
		"torn":    b[:len(b)-1],
		"damaged": append(slices.Clone(b[:len(b)-1]), b[len(b)-1]+1),
		"garbage": append(slices.Clone(b), []byte("garbage")...),
	} {
		if err := os.WriteFile(filepath.Join(dir, "00000000000000000000.log"), file, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := replicaLog(dir); err == nil {
			t.Errorf("%s: nothing was said", name)
		}
	}
}
