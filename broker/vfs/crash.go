package vfs

import "maps"

import "math/rand/v2"

// CrashClone returns the file system as a power cut at this moment could leave
// it; the original goes on unharmed. With a nil rnd it is what a killed process
// leaves instead: everything written, synced or not.
//
// What survives:
//
//   - all synced bytes and names;
//   - of the unsynced changes of names a random prefix (a journal that was not
//     written to its end) or, half of the time, a random subset in order; a
//     rename survives whole or not at all;
//   - of the unsynced pages of a file a random subset, each of them new, old or
//     torn at a multiple of 512 bytes;
//   - the old size of a file, the new one, or one between: what was not written
//     reads as zeros, as after delayed allocation.
func (m *Mem) CrashClone(rnd *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := map[*memNode]map[string]*memNode{}
	of := func(dir *memNode) map[string]*memNode {
		if names[dir] == nil {
			names[dir] = make(map[string]*memNode, len(dir.durable))
			maps.Copy(names[dir], dir.durable)
		}
		return names[dir]
	}
	prefix, subset := len(m.pending), false
	if rnd != nil {
		prefix, subset = rnd.IntN(len(m.pending)+1), rnd.IntN(2) == 0
	}
	for i, op := range m.pending {
		if subset && rnd.IntN(2) == 0 || !subset && i >= prefix {
			continue
		}
		op.settle(of)
	}
	c := &crash{rnd: rnd, of: of, done: map[*memNode]*memNode{}}
	return &Mem{root: c.copy(m.root), locks: map[string]bool{}}
}

// crash copies what survives.
type crash struct {
	rnd  *rand.Rand
	of   func(dir *memNode) map[string]*memNode
	done map[*memNode]*memNode // files with two names stay one file
}

func (c *crash) copy(n *memNode) *memNode {
	if have := c.done[n]; have != nil {
		return have
	}
	out := &memNode{dir: n.dir, mode: n.mode, mod: n.mod}
	c.done[n] = out
	if !n.dir {
		out.data = c.content(n)
		out.synced = append([]byte(nil), out.data...)
		out.dirty = map[int64]struct{}{}
		return out
	}
	out.entries, out.durable = map[string]*memNode{}, map[string]*memNode{}
	names := c.of(n)
	for _, name := range sortedNames(names) { // in order, so that a seed repeats
		out.entries[name] = c.copy(names[name])
		out.durable[name] = out.entries[name]
	}
	return out
}

// content is what remains of a file.
func (c *crash) content(n *memNode) []byte {
	if c.rnd == nil || len(n.dirty) == 0 {
		return append([]byte(nil), n.data...)
	}
	low, high := len(n.synced), len(n.data)
	if low > high {
		low, high = high, low
	}
	size := low
	switch c.rnd.IntN(4) {
	case 0:
		size = high
	case 1:
		size = low + c.rnd.IntN(high-low+1)
	case 2:
		size = len(n.data)
	}
	out := make([]byte, size)
	copy(out, n.synced)
	for page := 0; page*pageSize < size; page++ {
		if _, dirty := n.dirty[int64(page)]; !dirty {
			continue
		}
		from, to := page*pageSize, min((page+1)*pageSize, size)
		switch c.rnd.IntN(8) {
		case 0, 1, 2: // stays old
			continue
		case 3: // torn
			to = min(to, from+512*(1+c.rnd.IntN(7)))
		}
		clear(out[from:to])
		if from < len(n.data) {
			copy(out[from:to], n.data[from:])
		}
	}
	return out
}
