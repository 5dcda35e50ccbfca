package log

import (
	"hash/maphash"
	"math/bits"

	"sawlog/offsets"
)

// latestMap remembers for each key of a stretch of log the offset of its
// youngest record. Keys are kept as 128-bit hashes, 24 bytes an entry, in open
// addressing that grows with need up to a fixed size. The hashes are keyed at
// random by each map: nobody can choose keys that collide, and by chance two of
// five million do with a probability of 10⁻²⁵.
//
// It is made of shards, each of which grows by itself, so that growing never
// holds much more memory than the limit.
type latestMap struct {
	shards   [latestShards]latestShard
	seed     [2]maphash.Seed
	most     int // slots of a shard at most
	entries  int
	occupied int64 // bytes of all slots
}

type latestShard struct {
	slots []latestSlot
	n     int
}

// latestSlot is one key.
type latestSlot struct {
	high, low uint64
	after     offsets.Offset // the offset + 1, 0 where the slot is free
}

const (
	latestShards   = 64
	latestSlotSize = 24
	latestFirst    = 16 // slots of a shard that begins
)

// newLatestMap returns a map that takes at most that many bytes.
func newLatestMap(bytes int64) *latestMap {
	most := max(bytes/latestSlotSize/latestShards, latestFirst)
	return &latestMap{seed: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, most: int(most)}
}

// hash is a key's place and name.
func (m *latestMap) hash(key []byte) (*latestShard, latestSlot) {
	s := latestSlot{high: maphash.Bytes(m.seed[0], key), low: maphash.Bytes(m.seed[1], key)}
	return &m.shards[s.low%latestShards], s
}

// find is the slot of a key, or the free one where it belongs.
func (s *latestShard) find(want *latestSlot) *latestSlot {
	i, _ := bits.Mul64(want.high, uint64(len(s.slots)))
	for {
		at := &s.slots[i]
		if at.after == 0 || at.high == want.high && at.low == want.low {
			return at
		}
		if i++; i == uint64(len(s.slots)) {
			i = 0
		}
	}
}

// put notes a key's record; false when the map has no room for another key.
func (m *latestMap) put(key []byte, at offsets.Offset) bool {
	shard, want := m.hash(key)
	if 10*shard.n >= 8*len(shard.slots) && len(shard.slots) < m.most {
		m.grow(shard)
	}
	slot := shard.find(&want)
	if slot.after == 0 {
		if 10*shard.n >= 9*len(shard.slots) {
			return false
		}
		*slot = want
		shard.n++
		m.entries++
	}
	slot.after = max(slot.after, at+1)
	return true
}

// get is the offset of a key's youngest record.
func (m *latestMap) get(key []byte) (offsets.Offset, bool) {
	shard, want := m.hash(key)
	if shard.n == 0 {
		return 0, false
	}
	slot := shard.find(&want)
	return slot.after - 1, slot.after != 0
}

// grow doubles a shard, as far as it may.
func (m *latestMap) grow(s *latestShard) {
	old := s.slots
	size := min(max(2*len(old), latestFirst), m.most)
	s.slots = make([]latestSlot, size)
	for i := range old {
		if old[i].after != 0 {
			*s.find(&old[i]) = old[i]
		}
	}
	m.occupied += int64(size-len(old)) * latestSlotSize
}
