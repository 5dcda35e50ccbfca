package offsets

import (
	"log/slog"
	"time"
)

// StoreConfig sets a Store up; zero values take the defaults.
type StoreConfig struct {
	Path   string // the bbolt file; empty = in memory only, everything is applied anew at each start
	Logger *slog.Logger
	// MaxOverlay bounds the bytes applied but not yet flushed (default 64 MiB).
	MaxOverlay int64
	// Mmap is the initial size of the file's memory map (default 1 GiB).
	Mmap int
	// Timeout bounds the wait for the file's lock (default 1 s).
	Timeout time.Duration
}

// Store keeps committed group offsets: a memory overlay over a bbolt file.
type Store struct{}

// OpenStore opens or makes the store; a damaged file is renamed aside.
func OpenStore(c StoreConfig) (*Store, error) { panic("unwritten") }

// Close flushes what is applied and closes the file.
func (s *Store) Close() error { panic("unwritten") }
