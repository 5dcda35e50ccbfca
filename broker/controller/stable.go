package controller

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"sawlog/broker/vfs"
)

// stable is the small file of what a voter must never forget: its term and
// whom it voted for. The layout is drawn in doc.go. It is a raft.StableStore.
type stable struct {
	fs   vfs.FS
	path string

	mu     sync.Mutex
	values map[string][]byte
}

const (
	stableMagic   = "SLST"
	stableVersion = 1
)

// Keys of the stable store. Raft chooses the names of its own.
const (
	termKey = "CurrentTerm"
	voteKey = "LastVoteTerm"
	// floorKey holds the last index of the log at a clean stop: it can't end
	// before that.
	floorKey = "floor"
	// addressesKey holds where the nodes of the quorum are reached, in any order:
	// array of (server id string | epoch of the registration i64 | address string).
	addressesKey = "addresses"
)

func openStable(filesystem vfs.FS, path string) (*stable, error) {
	s := &stable{fs: filesystem, path: path, values: make(map[string][]byte)}
	src, err := vfs.ReadFile(filesystem, path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		s.values, err = decodeStable(src)
	}
	if err != nil {
		return nil, fmt.Errorf("stable store %s: %w", path, err)
	}
	return s, nil
}

func encodeStable(values map[string][]byte) []byte {
	dst := append([]byte(stableMagic), stableVersion)
	dst = appendUvarint(dst, uint64(len(values))+1)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		dst = appendString(appendString(dst, key), string(values[key]))
	}
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst, crc32.MakeTable(crc32.Castagnoli)))
}

func decodeStable(src []byte) (map[string][]byte, error) {
	const head, tail = len(stableMagic) + 1, 4
	if len(src) < head+tail || string(src[:len(stableMagic)]) != stableMagic {
		return nil, fmt.Errorf("%w: %d bytes that do not begin as they should", errFormat, len(src))
	}
	body := src[:len(src)-tail]
	if sum := binary.BigEndian.Uint32(src[len(body):]); sum != crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) {
		return nil, fmt.Errorf("%w: wrong checksum", errFormat)
	}
	if v := src[head-1]; v != stableVersion {
		return nil, fmt.Errorf("%w: version %d is not known to this build", errFormat, v)
	}
	r := &reader{src: body[head:]}
	values := make(map[string][]byte)
	for range r.arrayLen(2) {
		key := r.string()
		values[key] = []byte(r.string())
	}
	return values, r.done()
}

// Set stores a value; it is on disk when Set returns.
func (s *stable) Set(key, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := maps.Clone(s.values)
	next[string(key)] = slices.Clone(value)
	if err := vfs.Replace(s.fs, s.path, encodeStable(next)); err != nil {
		return fmt.Errorf("stable store %s: %w", s.path, err)
	}
	s.values = next
	return nil
}

// Get reads a value; nil when there is none.
func (s *stable) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.values[string(key)]), nil
}

// SetUint64 stores a number.
func (s *stable) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 reads a number; 0 when there is none.
func (s *stable) GetUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	switch {
	case err != nil || len(value) == 0:
		return 0, err
	case len(value) != 8:
		return 0, fmt.Errorf("stable store %s: %w: %s has %d bytes", s.path, errFormat, key, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}

// clear forgets everything: a cluster's founding that was cut short is begun
// again.
func (s *stable) clear() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := vfs.Replace(s.fs, s.path, encodeStable(nil)); err != nil {
		return fmt.Errorf("stable store %s: %w", s.path, err)
	}
	s.values = make(map[string][]byte)
	return nil
}
