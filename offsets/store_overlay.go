package offsets

import (
	"bytes"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// overlay is what was applied and is not in the file, by partition.
type overlay map[int32]*layer

// layer is one partition's part of an overlay.
type layer struct {
	dropped bool // what lies below is void
	at      Position
	groups  map[string]*groupLayer
	rows    int
	bytes   int64
}

// groupLayer holds a group's changed rows; nil values are tombstones.
type groupLayer struct {
	changed bool // meta is set
	meta    []byte
	commits map[TopicPartition]*Committed
}

// rowCost is what a row takes in memory beyond its own bytes, roughly.
const rowCost = 160

func newLayer(dropped bool) *layer {
	return &layer{dropped: dropped, at: Position{Epoch: NoEpoch}, groups: map[string]*groupLayer{}}
}

func (o overlay) layer(partition int32) *layer {
	l := o[partition]
	if l == nil {
		l = newLayer(false)
		o[partition] = l
	}
	return l
}

func (l *layer) group(name string) *groupLayer {
	g := l.groups[name]
	if g == nil {
		g = &groupLayer{commits: map[TopicPartition]*Committed{}}
		l.groups[name] = g
		l.bytes += int64(len(name)) + rowCost
	}
	return g
}

func (l *layer) apply(c Change) {
	g := l.group(c.Group)
	if c.Topic == "" {
		if !g.changed {
			l.rows++
		}
		l.bytes += int64(len(c.Meta) - len(g.meta))
		g.changed, g.meta = true, c.Meta
		return
	}
	tp := TopicPartition{c.Topic, c.Partition}
	old, had := g.commits[tp]
	if !had {
		l.rows++
		l.bytes += int64(len(c.Topic)) + rowCost
	}
	if old != nil {
		l.bytes -= int64(len(old.Metadata))
	}
	if c.Commit != nil {
		l.bytes += int64(len(c.Commit.Metadata))
	}
	g.commits[tp] = c.Commit
}

// under puts an older layer below this one, newer rows winning.
func (l *layer) under(old *layer) {
	if l.dropped {
		return
	}
	l.dropped = old.dropped
	for name, og := range old.groups {
		if og.changed && !l.group(name).changed {
			l.apply(Change{Group: name, Meta: og.meta})
		}
		for tp, commit := range og.commits {
			if _, newer := l.group(name).commits[tp]; !newer {
				l.apply(Change{Group: name, Topic: tp.Topic, Partition: tp.Partition, Commit: commit})
			}
		}
	}
}

// Flush moves what was applied into the file in one synced transaction. After
// an error nothing is lost: it is still in memory, and in the log.
func (s *Store) Flush() error {
	if s.db == nil {
		return nil
	}
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.mu.Lock()
	if len(s.active) == 0 {
		s.mu.Unlock()
		return nil
	}
	s.frozen, s.active = s.active, overlay{}
	s.mu.Unlock()

	err := s.write(s.frozen)

	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		for partition, old := range s.frozen {
			if l := s.active[partition]; l != nil {
				l.under(old)
			} else {
				s.active[partition] = old
			}
		}
		err = fmt.Errorf("offsets store %s: %w", s.c.Path, err)
	}
	s.frozen = nil
	return err
}

// write is Flush's transaction; keys go in ascending order, which costs bbolt
// the fewest page splits. A panic of bbolt means damaged pages.
func (s *Store) write(o overlay) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged pages: %v", p)
		}
	}()
	return s.db.Update(func(tx *bolt.Tx) error {
		for partition, l := range o {
			name := bucketName(partition)
			if l.dropped && tx.Bucket(name) != nil {
				if err := tx.DeleteBucket(name); err != nil {
					return err
				}
			}
			b, err := tx.CreateBucketIfNotExists(name)
			if err != nil {
				return err
			}
			if err := l.write(b); err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *layer) write(b *bolt.Bucket) error {
	type row struct{ key, value []byte }
	rows := make([]row, 0, l.rows+1)
	for name, g := range l.groups {
		if g.changed {
			rows = append(rows, row{groupKey(rowGroup, name), g.meta})
		}
		for tp, commit := range g.commits {
			r := row{key: offsetKey(name, tp)}
			if commit != nil {
				r.value = encodeCommitted(commit)
			}
			rows = append(rows, r)
		}
	}
	if l.at.Offset > 0 {
		rows = append(rows, row{appliedRow, encodePosition(l.at)})
	}
	slices.SortFunc(rows, func(a, b row) int { return bytes.Compare(a.key, b.key) })
	for _, r := range rows {
		if r.value == nil {
			if err := b.Delete(r.key); err != nil {
				return err
			}
		} else if err := b.Put(r.key, r.value); err != nil {
			return err
		}
	}
	return nil
}
