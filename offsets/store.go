package offsets

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// StoreConfig sets a Store up; zero values take the defaults.
type StoreConfig struct {
	Path   string // the bbolt file; empty = in memory only, everything is applied anew at each start
	Logger *slog.Logger
	// MaxOverlay bounds the bytes applied but not yet flushed (default 64 MiB).
	MaxOverlay int64
	// Mmap is the initial size of the file's memory map (default 1 GiB); a map
	// large enough never has to be moved under readers.
	Mmap int
	// Timeout bounds the wait for the file's lock (default 1 s).
	Timeout time.Duration
}

// compactAbove is the size from which a file of mostly free pages is rewritten
// at start; bbolt never gives pages back.
const compactAbove = 64 << 20

// Position is how far a log was applied: every record below Offset, the last of
// them written in Epoch.
type Position struct {
	Offset Offset
	Epoch  Epoch
}

// Committed is one committed group offset.
type Committed struct {
	Offset      Offset
	LeaderEpoch Epoch // of the record before Offset, NoEpoch if the client knows none
	Metadata    string
	Time        int64   // of the commit, ms since 1970
	Expires     int64   // ms since 1970 as very old clients ask for, -1 = by the broker's retention
	TopicID     TopicID // zero if not recorded
}

// Change is one record of __consumer_offsets as the store sees it: an offset of
// Topic when Topic is set, else the metadata of the group. A nil Commit or nil
// Meta is a tombstone.
type Change struct {
	Group     string
	Topic     string
	Partition int32
	Commit    *Committed
	Meta      []byte
}

// Store keeps committed group offsets and the groups' own metadata rows: a
// memory overlay over a bbolt file, applied in log order by one writer.
//
// Nothing waits for the disk: what is applied can be read at once, and the log
// it came from is the truth. Flush moves the overlay into the file in one synced
// transaction together with the position it reaches, so a crash costs a replay
// of what was applied since, never a wrong answer.
type Store struct {
	c  StoreConfig
	db *bolt.DB // nil = in memory only

	flushing sync.Mutex // held by the one flush under way

	mu      sync.RWMutex
	active  overlay // newest
	frozen  overlay // being flushed; read below active, above the file
	applied map[int32]Position
}

// OpenStore opens or makes the store; a damaged file is renamed to PATH.bad, and
// the store starts empty, to be filled from the log again.
func OpenStore(c StoreConfig) (*Store, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.MaxOverlay <= 0 {
		c.MaxOverlay = 64 << 20
	}
	if c.Mmap <= 0 {
		c.Mmap = 1 << 30
	}
	if c.Timeout <= 0 {
		c.Timeout = time.Second
	}
	s := &Store{c: c, active: overlay{}, applied: map[int32]Position{}}
	if c.Path == "" {
		return s, nil
	}
	err := s.open()
	if err != nil && !damaged(err) {
		return nil, fmt.Errorf("offsets store %s: %w", c.Path, err)
	}
	if err != nil {
		c.Logger.Warn("offsets store is damaged; renamed aside, rebuilding from the log", "path", c.Path, "error", err)
		if err := os.Rename(c.Path, c.Path+".bad"); err != nil {
			return nil, fmt.Errorf("offsets store %s: put aside: %w", c.Path, err)
		}
		if err := s.open(); err != nil {
			return nil, fmt.Errorf("offsets store %s: %w", c.Path, err)
		}
	}
	return s, nil
}

// damaged tells a file that cannot be used from one that cannot be reached.
func damaged(err error) bool {
	var errno syscall.Errno
	var path *fs.PathError
	return !errors.Is(err, berrors.ErrTimeout) && !errors.As(err, &errno) && !errors.As(err, &path)
}

// open checks the file and opens it for writing.
func (s *Store) open() (err error) {
	applied, err := checkFile(s.c.Path)
	if err != nil {
		return err
	}
	db, err := s.openBolt(s.c.Path)
	if err != nil {
		return err
	}
	if db, err = s.compact(db); err == nil {
		err = db.Update(markFormat)
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	s.db, s.applied = db, applied
	return nil
}

func (s *Store) openBolt(path string) (*bolt.DB, error) {
	return bolt.Open(path, 0o600, &bolt.Options{
		Timeout:         s.c.Timeout,
		NoFreelistSync:  true,
		FreelistType:    bolt.FreelistMapType,
		InitialMmapSize: s.c.Mmap,
	})
}

// compact rewrites a large file that is more than half empty.
// The database it gives back is the one to go on with, or to close.
func (s *Store) compact(db *bolt.DB) (*bolt.DB, error) {
	info, err := os.Stat(s.c.Path)
	if err != nil {
		return db, err
	}
	free := int64(db.Stats().FreePageN) * int64(db.Info().PageSize)
	if info.Size() < compactAbove || free*2 < info.Size() {
		return db, nil
	}
	temp := s.c.Path + ".compact"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return db, err
	}
	to, err := s.openBolt(temp)
	if err != nil {
		return db, err
	}
	err = bolt.Compact(to, db, 16<<20)
	if err = errors.Join(err, to.Close()); err != nil {
		return db, errors.Join(err, os.Remove(temp))
	}
	if err := os.Rename(temp, s.c.Path); err != nil {
		return db, err
	}
	if err := db.Close(); err != nil { // the file under it is unlinked
		return db, err
	}
	fresh, err := s.openBolt(s.c.Path)
	if err != nil {
		return db, err
	}
	s.c.Logger.Info("offsets store compacted", "path", s.c.Path, "bytes", info.Size(), "free", free)
	return fresh, nil
}

// Close flushes what is applied and closes the file.
func (s *Store) Close() error {
	if s.db == nil {
		return nil
	}
	err := s.Flush()
	if closed := s.db.Close(); closed != nil {
		err = errors.Join(err, fmt.Errorf("offsets store %s: %w", s.c.Path, closed))
	}
	return err
}

// Applied is how far a partition was applied; the zero offset if nothing was.
func (s *Store) Applied(partition int32) Position {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if at, ok := s.applied[partition]; ok {
		return at
	}
	return Position{Offset: 0, Epoch: NoEpoch}
}

// Apply takes the changes of [Applied, at) of a partition's log, in log order.
// Changes are kept; their memory belongs to the store from now on.
func (s *Store) Apply(partition int32, at Position, changes []Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.active.layer(partition)
	for _, c := range changes {
		if !fits(c) {
			s.c.Logger.Warn("offsets store: key too long, record not kept", "partition", partition, "bytes", len(c.Group))
			continue
		}
		l.apply(c)
	}
	l.at = at
	s.applied[partition] = at
}

// Drop forgets all of a partition, which must then be applied from its log start.
func (s *Store) Drop(partition int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active[partition] = newLayer(true)
	delete(s.applied, partition)
}

// Dirty is the number of rows and the bytes applied but not yet in the file.
func (s *Store) Dirty() (rows int, bytes int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, o := range []overlay{s.active, s.frozen} {
		for _, l := range o {
			rows += l.rows
			bytes += l.bytes
		}
	}
	return rows, bytes
}

// Full tells that the overlay is at its bound: flush before applying more.
func (s *Store) Full() bool { return s.beyond(s.c.MaxOverlay) }

// Overfull tells that the overlay holds twice what it should.
func (s *Store) Overfull() bool { return s.beyond(2 * s.c.MaxOverlay) }

func (s *Store) beyond(bound int64) bool {
	_, bytes := s.Dirty()
	return s.db != nil && bytes >= bound
}
