package offsets

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// pageRows is how many rows one read transaction visits at most: a long one
// would keep the pages freed meanwhile from being used again.
const pageRows = 1000

// layers lists a partition's layers, newest first, and whether the file below
// them counts. The caller holds mu.
func (s *Store) layers(partition int32) (ls []*layer, file bool) {
	for _, o := range []overlay{s.active, s.frozen} {
		if l := o[partition]; l != nil {
			ls = append(ls, l)
			if l.dropped {
				return ls, false
			}
		}
	}
	return ls, s.db != nil
}

// Offset is the offset a group has committed for one partition.
func (s *Store) Offset(partition int32, group string, tp TopicPartition) (Committed, bool, error) {
	s.mu.RLock()
	ls, file := s.layers(partition)
	for _, l := range ls {
		if g := l.groups[group]; g != nil {
			if c, ok := g.commits[tp]; ok {
				s.mu.RUnlock()
				if c == nil {
					return Committed{}, false, nil
				}
				return *c, true, nil
			}
		}
	}
	s.mu.RUnlock()
	var c Committed
	found := false
	if !file {
		return c, false, nil
	}
	err := s.view(partition, func(b *bolt.Bucket) (err error) {
		if v := b.Get(offsetKey(group, tp)); v != nil {
			found = true
			c, err = decodeCommitted(v)
		}
		return err
	})
	return c, found, err
}

// Group is the metadata row of a group.
func (s *Store) Group(partition int32, group string) (meta []byte, ok bool, err error) {
	s.mu.RLock()
	ls, file := s.layers(partition)
	for _, l := range ls {
		if g := l.groups[group]; g != nil && g.changed {
			meta = g.meta
			s.mu.RUnlock()
			return meta, meta != nil, nil
		}
	}
	s.mu.RUnlock()
	if !file {
		return nil, false, nil
	}
	err = s.view(partition, func(b *bolt.Bucket) error {
		if v := b.Get(groupKey(rowGroup, group)); v != nil {
			meta, ok = bytes.Clone(v), true
		}
		return nil
	})
	return meta, ok, err
}

// Offsets lists all offsets of a group, in no order.
func (s *Store) Offsets(partition int32, group string, fn func(TopicPartition, Committed)) error {
	s.mu.RLock()
	ls, file := s.layers(partition)
	newer := map[TopicPartition]*Committed{}
	for _, l := range slices.Backward(ls) {
		if g := l.groups[group]; g != nil {
			maps.Copy(newer, g.commits)
		}
	}
	s.mu.RUnlock()
	for tp, c := range newer {
		if c != nil {
			fn(tp, *c)
		}
	}
	if !file {
		return nil
	}
	return s.scan(partition, groupKey(rowOffset, group), func(k, v []byte) error {
		_, tp, ok := parseOffsetKey(k)
		if !ok {
			return errRow
		}
		if _, seen := newer[tp]; seen {
			return nil
		}
		c, err := decodeCommitted(v)
		if err == nil {
			fn(tp, c)
		}
		return err
	})
}

// HasOffsets tells whether a group has any offset.
func (s *Store) HasOffsets(partition int32, group string) (bool, error) {
	has := false
	err := s.Offsets(partition, group, func(TopicPartition, Committed) { has = true })
	return has, err
}

// Groups lists the groups of a partition that have a metadata row, by name.
func (s *Store) Groups(partition int32, fn func(group string, meta []byte)) error {
	s.mu.RLock()
	ls, file := s.layers(partition)
	newer := map[string][]byte{}
	for _, l := range slices.Backward(ls) {
		for name, g := range l.groups {
			if g.changed {
				newer[name] = g.meta
			}
		}
	}
	s.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(newer)) {
		if meta := newer[name]; meta != nil {
			fn(name, meta)
		}
	}
	if !file {
		return nil
	}
	return s.scan(partition, []byte{rowGroup}, func(k, v []byte) error {
		name, _, ok := cutText(k[1:])
		if !ok {
			return errRow
		}
		if _, seen := newer[name]; !seen {
			fn(name, bytes.Clone(v))
		}
		return nil
	})
}

// OffsetGroups lists the groups of a partition that have offsets, sorted.
func (s *Store) OffsetGroups(partition int32) ([]string, error) {
	s.mu.RLock()
	ls, file := s.layers(partition)
	touched := map[string]bool{}
	for _, l := range ls {
		for name, g := range l.groups {
			if len(g.commits) > 0 {
				touched[name] = true
			}
		}
	}
	s.mu.RUnlock()
	names := map[string]bool{}
	for name := range touched {
		has, err := s.HasOffsets(partition, name)
		if err != nil {
			return nil, err
		}
		if has {
			names[name] = true
		}
	}
	if file {
		err := s.view(partition, func(b *bolt.Bucket) error {
			cursor := b.Cursor()
			for k, _ := cursor.Seek([]byte{rowOffset}); k != nil; {
				name, _, ok := cutText(k[1:])
				if !ok {
					return errRow
				}
				if !touched[name] {
					names[name] = true
				}
				k, _ = cursor.Seek(after(groupKey(rowOffset, name)))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// after is the smallest key above all keys with the prefix.
func after(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			prefix[i]++
			return prefix[:i+1]
		}
	}
	return binary.BigEndian.AppendUint64(nil, 1<<64-1)
}

// view reads one partition's bucket; none is as good as an empty one.
func (s *Store) view(partition int32, fn func(*bolt.Bucket) error) error {
	err := s.db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket(bucketName(partition)); b != nil {
			return fn(b)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("offsets store %s: partition %d: %w", s.c.Path, partition, err)
	}
	return nil
}

// scan visits the rows of a prefix in short transactions.
func (s *Store) scan(partition int32, prefix []byte, fn func(k, v []byte) error) error {
	from := prefix
	for from != nil {
		next := []byte(nil)
		err := s.view(partition, func(b *bolt.Bucket) error {
			cursor := b.Cursor()
			k, v := cursor.Seek(from)
			for n := 0; k != nil && bytes.HasPrefix(k, prefix); n++ {
				if n == pageRows {
					next = bytes.Clone(k)
					return nil
				}
				if err := fn(k, v); err != nil {
					return err
				}
				k, v = cursor.Next()
			}
			return nil
		})
		if err != nil {
			return err
		}
		from = next
	}
	return nil
}
