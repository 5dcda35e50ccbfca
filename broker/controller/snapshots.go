package controller

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/raft"

	"sawlog/broker/vfs"
)

// snapshotsKept is how many snapshots stay on disk.
const snapshotsKept = 2

const (
	snapshotMagic   = "SLSN"
	snapshotVersion = 1
	snapshotSuffix  = ".snapshot"
)

// snapshots is the folder of snapshots; a file is whole, named in doc.go and
// checked by its sha256, or an error (guard G6). It is a raft.SnapshotStore.
type snapshots struct {
	fs     vfs.FS
	dir    string
	levels Levels      // format levels this node knows
	fail   func(error) // told of a snapshot of another level

	mu    sync.Mutex
	metas []*raft.SnapshotMeta // newest first
}

// openSnapshots lists the folder and reads its newest snapshot.
func openSnapshots(filesystem vfs.FS, dir string, levels Levels, fail func(error)) (*snapshots, error) {
	s := &snapshots{fs: filesystem, dir: dir, levels: levels, fail: fail}
	if err := filesystem.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	files, err := filesystem.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		switch name := f.Name(); {
		case strings.HasSuffix(name, snapshotSuffix):
			names = append(names, name)
		case strings.HasSuffix(name, vfs.TempSuffix):
			if err := filesystem.Remove(path.Join(dir, name)); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(b, a) })
	for _, name := range names[:min(len(names), snapshotsKept)] {
		meta, body, err := s.read(name)
		if err != nil {
			return nil, err
		}
		if _, err := levels.decodeImage(body); err != nil {
			return nil, fmt.Errorf("snapshot %s: %w", path.Join(dir, name), err)
		}
		s.metas = append(s.metas, meta)
	}
	return s, s.prune(names)
}

// prune removes the files of all but the newest snapshots.
func (s *snapshots) prune(names []string) error {
	if len(names) <= snapshotsKept {
		return nil
	}
	for _, name := range names[snapshotsKept:] {
		if err := s.fs.Remove(path.Join(s.dir, name)); err != nil {
			return err
		}
	}
	return s.fs.SyncDir(s.dir)
}

func snapshotName(index, term uint64) string {
	return fmt.Sprintf("%020d-%020d%s", index, term, snapshotSuffix)
}

func encodeSnapshot(meta *raft.SnapshotMeta, body []byte) []byte {
	config := raft.EncodeConfiguration(meta.Configuration)
	dst := make([]byte, 0, len(body)+len(config)+128)
	dst = append(append(dst, snapshotMagic...), snapshotVersion)
	dst = appendInt64(appendInt64(dst, meta.Index), meta.Term)
	dst = appendInt64(dst, meta.ConfigurationIndex)
	dst = append(appendUvarint(dst, uint64(len(config))), config...)
	dst = append(appendUvarint(dst, uint64(len(body))), body...)
	sum := sha256.Sum256(dst)
	return append(dst, sum[:]...)
}

func decodeSnapshot(src []byte) (meta *raft.SnapshotMeta, body []byte, err error) {
	const head = len(snapshotMagic) + 1
	if len(src) < head+sha256.Size || string(src[:len(snapshotMagic)]) != snapshotMagic {
		return nil, nil, fmt.Errorf("%w: %d bytes that do not begin as they should", errFormat, len(src))
	}
	content := src[:len(src)-sha256.Size]
	if sum := sha256.Sum256(content); !bytes.Equal(sum[:], src[len(content):]) {
		return nil, nil, fmt.Errorf("%w: wrong checksum", errFormat)
	}
	if v := src[head-1]; v != snapshotVersion {
		return nil, nil, fmt.Errorf("%w: version %d is not known to this build", errFormat, v)
	}
	r := &reader{src: content[head:]}
	meta = &raft.SnapshotMeta{Version: raft.SnapshotVersionMax}
	meta.Index, meta.Term = uint64(r.int64()), uint64(r.int64())
	meta.ConfigurationIndex = uint64(r.int64())
	config := r.bytes(r.uvarint())
	body = r.bytes(r.uvarint())
	if err := r.done(); err != nil {
		return nil, nil, err
	}
	meta.ID = snapshotName(meta.Index, meta.Term)
	meta.Size = int64(len(body))
	meta.Configuration = raft.DecodeConfiguration(config)
	return meta, body, nil
}

func (s *snapshots) read(name string) (*raft.SnapshotMeta, []byte, error) {
	file := path.Join(s.dir, name)
	src, err := vfs.ReadFile(s.fs, file)
	if err != nil {
		return nil, nil, fmt.Errorf("snapshot %s: %w", file, err)
	}
	meta, body, err := decodeSnapshot(src)
	if err == nil && meta.ID != name {
		err = fmt.Errorf("%w: it is %s", errFormat, meta.ID)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("snapshot %s: %w", file, err)
	}
	return meta, body, nil
}

// newest is the newest snapshot, nil when there is none.
func (s *snapshots) newest() *raft.SnapshotMeta {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.metas) == 0 {
		return nil
	}
	return s.metas[0]
}

// covered is the last entry that the newest snapshot covers; 0 = there is none.
func (s *snapshots) covered() (index, term uint64) {
	if m := s.newest(); m != nil {
		return m.Index, m.Term
	}
	return 0, 0
}

// List lists the snapshots, newest first.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.metas), nil
}

// Open opens a snapshot's body.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, body, err := s.read(id)
	if err != nil {
		return nil, nil, err
	}
	return meta, io.NopCloser(bytes.NewReader(body)), nil
}

// Create begins a snapshot.
func (s *snapshots) Create(version raft.SnapshotVersion, index, term uint64, config raft.Configuration, configIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	if version != raft.SnapshotVersionMax {
		return nil, fmt.Errorf("%w: snapshot version %d of raft", errFormat, version)
	}
	return &snapshotSink{store: s, meta: &raft.SnapshotMeta{
		Version: version, ID: snapshotName(index, term), Index: index, Term: term,
		Configuration: config, ConfigurationIndex: configIndex,
	}}, nil
}

// snapshotSink gathers a snapshot in memory and writes it in one piece.
type snapshotSink struct {
	store *snapshots
	meta  *raft.SnapshotMeta
	body  bytes.Buffer
	ended bool
}

var errSinkEnded = errors.New("snapshot was ended before")

// ID names the snapshot.
func (k *snapshotSink) ID() string { return k.meta.ID }

// Write takes the next piece of the body.
func (k *snapshotSink) Write(p []byte) (int, error) { return k.body.Write(p) }

// Cancel drops the snapshot.
func (k *snapshotSink) Cancel() error {
	k.ended = true
	return nil
}

// Close puts the snapshot in place and removes those no longer kept.
func (k *snapshotSink) Close() error {
	if k.ended {
		return errSinkEnded
	}
	k.ended = true
	if _, err := k.store.levels.decodeImage(k.body.Bytes()); err != nil {
		if errors.Is(err, ErrFormatLevel) { // all that come will be like it
			k.store.fail(fmt.Errorf("metadata snapshot: %w", err))
		}
		return fmt.Errorf("snapshot %s, which is not kept: %w", k.meta.ID, err) // it may come from another node
	}
	k.meta.Size = int64(k.body.Len())
	file := path.Join(k.store.dir, k.meta.ID)
	if err := vfs.Replace(k.store.fs, file, encodeSnapshot(k.meta, k.body.Bytes())); err != nil {
		return fmt.Errorf("snapshot %s: %w", file, err)
	}
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	k.store.metas = slices.Insert(slices.DeleteFunc(k.store.metas, func(m *raft.SnapshotMeta) bool { return m.ID == k.meta.ID }), 0, k.meta)
	names := make([]string, len(k.store.metas))
	for i, m := range k.store.metas {
		names[i] = m.ID
	}
	k.store.metas = k.store.metas[:min(len(names), snapshotsKept)]
	return k.store.prune(names)
}
