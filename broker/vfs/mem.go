package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Op names an operation for fault injection.
type Op string

// The operations Mem asks its injected function about.
const (
	OpOpen     Op = "open"
	OpCreate   Op = "create"
	OpRead     Op = "read"
	OpWrite    Op = "write"
	OpSync     Op = "sync"
	OpTruncate Op = "truncate"
	OpAllocate Op = "allocate"
	OpRename   Op = "rename"
	OpLink     Op = "link"
	OpRemove   Op = "remove"
	OpMkdir    Op = "mkdir"
	OpReadDir  Op = "readdir"
	OpStat     Op = "stat"
	OpSyncDir  Op = "syncdir"
	OpLock     Op = "lock"
)

// PartialWrite, returned by an injected function for OpWrite, lets the first N
// bytes through before Err is returned.
type PartialWrite struct {
	N   int
	Err error
}

func (e *PartialWrite) Error() string { return "partial write: " + e.Err.Error() }
func (e *PartialWrite) Unwrap() error { return e.Err }

// Mem is a file system in memory that can lose power. Every file has its
// present content and the content as of its last Sync, every folder its
// present names and a list of changes not yet synced; CrashClone makes a file
// system out of the synced half and a random part of the rest.
type Mem struct {
	mu      sync.Mutex
	root    *memNode
	pending []nameOp
	locks   map[string]bool
	inject  func(op Op, name string) error
}

// nameOp is one change of names that is not yet synced: all of its entries
// survive a power cut, or none does.
type nameOp []nameChange

type nameChange struct {
	dir  *memNode
	name string
	node *memNode // nil = the name goes
}

// memNode is a file or a folder.
type memNode struct {
	dir  bool
	mode os.FileMode
	mod  time.Time

	entries map[string]*memNode // of a folder, now
	durable map[string]*memNode // of a folder, after a power cut

	data   []byte             // of a file, now
	synced []byte             // of a file, as of the last Sync
	dirty  map[int64]struct{} // pages of data that may differ from synced
}

// NewMem returns an empty file system; the root folder "/" and "." are one.
func NewMem() *Mem {
	return &Mem{root: newDir(0o755), locks: map[string]bool{}}
}

func newDir(perm os.FileMode) *memNode {
	return &memNode{
		dir: true, mode: perm | os.ModeDir, mod: time.Now(),
		entries: map[string]*memNode{}, durable: map[string]*memNode{},
	}
}

// Inject has fn asked before every operation; an error it returns becomes the
// operation's error and nothing is done. No lock is held meanwhile, so fn may
// call CrashClone. A nil fn ends the injection.
func (m *Mem) Inject(fn func(op Op, name string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inject = fn
}

// ask calls the injected function.
func (m *Mem) ask(op Op, name string) error {
	m.mu.Lock()
	fn := m.inject
	m.mu.Unlock()
	if fn == nil {
		return nil
	}
	if err := fn(op, name); err != nil {
		return &os.PathError{Op: string(op), Path: name, Err: err}
	}
	return nil
}

// walk finds the node of a name; mu is held.
func (m *Mem) walk(name string) (*memNode, error) {
	n := m.root
	for part := range strings.SplitSeq(path.Clean("/"+name), "/") {
		if part == "" {
			continue
		}
		if !n.dir {
			return nil, syscall.ENOTDIR
		}
		next, ok := n.entries[part]
		if !ok {
			return nil, os.ErrNotExist
		}
		n = next
	}
	return n, nil
}

// parent finds the folder of a name and the last part of it; mu is held.
func (m *Mem) parent(name string) (*memNode, string, error) {
	dir, base := path.Split(path.Clean("/" + name))
	if base == "" {
		return nil, "", syscall.EINVAL
	}
	n, err := m.walk(dir)
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	return n, base, err
}

// apply changes names now and remembers the change as not yet synced.
func (m *Mem) apply(op nameOp) {
	for _, c := range op {
		if c.node == nil {
			delete(c.dir.entries, c.name)
		} else {
			c.dir.entries[c.name] = c.node
		}
	}
	m.pending = append(m.pending, op)
}

// OpenFile opens or creates a file.
func (m *Mem) OpenFile(name string, flag int, perm os.FileMode) (File, error) {
	if err := m.ask(OpOpen, name); err != nil {
		return nil, err
	}
	m.mu.Lock()
	_, missing := m.walk(name)
	m.mu.Unlock()
	if flag&os.O_CREATE != 0 && missing != nil {
		if err := m.ask(OpCreate, name); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.walk(name)
	switch {
	case errors.Is(err, os.ErrNotExist) && flag&os.O_CREATE != 0:
		dir, base, err := m.parent(name)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
		n = &memNode{mode: perm, mod: time.Now(), dirty: map[int64]struct{}{}}
		m.apply(nameOp{{dir, base, n}})
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	case flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrExist}
	case n.dir:
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	case flag&os.O_TRUNC != 0:
		n.resize(0)
	}
	return &memFile{fs: m, node: n, name: name, flag: flag}, nil
}

// Remove removes a file or an empty folder.
func (m *Mem) Remove(name string) error {
	if err := m.ask(OpRemove, name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.remove(name)
}

func (m *Mem) remove(name string) error {
	n, err := m.walk(name)
	if err == nil && n.dir && len(n.entries) > 0 {
		err = syscall.ENOTEMPTY
	}
	if err != nil {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	dir, base, err := m.parent(name)
	if err != nil {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	m.apply(nameOp{{dir, base, nil}})
	return nil
}

// RemoveAll removes a name and all below it, leaves first.
func (m *Mem) RemoveAll(name string) error {
	if err := m.ask(OpRemove, name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.removeAll(name)
}

func (m *Mem) removeAll(name string) error {
	n, err := m.walk(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	if n.dir {
		for _, base := range sortedNames(n.entries) {
			if err := m.removeAll(path.Join(name, base)); err != nil {
				return err
			}
		}
	}
	return m.remove(name)
}

// Rename moves a name, replacing a file of the new name.
func (m *Mem) Rename(from, to string) error {
	if err := m.ask(OpRename, from); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	fail := func(err error) error {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	n, err := m.walk(from)
	if err != nil {
		return fail(err)
	}
	fromDir, fromBase, err := m.parent(from)
	if err != nil {
		return fail(err)
	}
	toDir, toBase, err := m.parent(to)
	if err != nil {
		return fail(err)
	}
	if old, ok := toDir.entries[toBase]; ok {
		switch {
		case old == n:
			return nil
		case old.dir != n.dir, old.dir && len(old.entries) > 0:
			return fail(os.ErrExist)
		}
	}
	m.apply(nameOp{{fromDir, fromBase, nil}, {toDir, toBase, n}})
	return nil
}

// Link gives a file a second name.
func (m *Mem) Link(from, to string) error {
	if err := m.ask(OpLink, from); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.walk(from)
	if err == nil && n.dir {
		err = syscall.EPERM
	}
	if err != nil {
		return &os.LinkError{Op: "link", Old: from, New: to, Err: err}
	}
	dir, base, err := m.parent(to)
	if err == nil && dir.entries[base] != nil {
		err = os.ErrExist
	}
	if err != nil {
		return &os.LinkError{Op: "link", Old: from, New: to, Err: err}
	}
	m.apply(nameOp{{dir, base, n}})
	return nil
}

// Mkdir makes a folder.
func (m *Mem) Mkdir(name string, perm os.FileMode) error {
	if err := m.ask(OpMkdir, name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mkdir(name, perm)
}

func (m *Mem) mkdir(name string, perm os.FileMode) error {
	dir, base, err := m.parent(name)
	if err == nil && dir.entries[base] != nil {
		err = os.ErrExist
	}
	if err != nil {
		return &os.PathError{Op: "mkdir", Path: name, Err: err}
	}
	m.apply(nameOp{{dir, base, newDir(perm)}})
	return nil
}

// MkdirAll makes a folder and those above it.
func (m *Mem) MkdirAll(name string, perm os.FileMode) error {
	if err := m.ask(OpMkdir, name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	clean := path.Clean("/" + name)
	for i := 1; i <= len(clean); i++ {
		if i < len(clean) && clean[i] != '/' {
			continue
		}
		n, err := m.walk(clean[:i])
		switch {
		case errors.Is(err, os.ErrNotExist):
			err = m.mkdir(clean[:i], perm)
		case err == nil && !n.dir:
			err = &os.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ReadDir lists a folder in the order of names.
func (m *Mem) ReadDir(name string) ([]os.DirEntry, error) {
	if err := m.ask(OpReadDir, name); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.walk(name)
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, &os.PathError{Op: "readdir", Path: name, Err: err}
	}
	out := make([]os.DirEntry, 0, len(n.entries))
	for _, base := range sortedNames(n.entries) {
		out = append(out, fs.FileInfoToDirEntry(n.entries[base].stat(base)))
	}
	return out, nil
}

// Stat describes a name.
func (m *Mem) Stat(name string) (os.FileInfo, error) {
	if err := m.ask(OpStat, name); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.walk(name)
	if err != nil {
		return nil, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	return n.stat(path.Base(name)), nil
}

// SyncDir makes all changes of names that touch the folder durable.
func (m *Mem) SyncDir(name string) error {
	if err := m.ask(OpSyncDir, name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.walk(name)
	if err != nil {
		return &os.PathError{Op: "syncdir", Path: name, Err: err}
	}
	rest := m.pending[:0]
	for _, op := range m.pending {
		if op.touches(n) {
			op.settle(func(dir *memNode) map[string]*memNode { return dir.durable })
		} else {
			rest = append(rest, op)
		}
	}
	clear(m.pending[len(rest):])
	m.pending = rest
	return nil
}

func (op nameOp) touches(dir *memNode) bool {
	for _, c := range op {
		if c.dir == dir {
			return true
		}
	}
	return false
}

// settle applies the change to the names that of gives for a folder.
func (op nameOp) settle(of func(dir *memNode) map[string]*memNode) {
	for _, c := range op {
		names := of(c.dir)
		switch {
		case names == nil:
		case c.node == nil:
			delete(names, c.name)
		default:
			names[c.name] = c.node
		}
	}
}

// Lock takes a lock that lives as long as its holder in this Mem.
func (m *Mem) Lock(name string) (io.Closer, error) {
	f, err := m.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := m.ask(OpLock, name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := path.Clean("/" + name)
	if m.locks[key] {
		return nil, &os.PathError{Op: "lock", Path: name, Err: ErrLocked}
	}
	m.locks[key] = true
	return &memLock{fs: m, key: key}, nil
}

type memLock struct {
	fs  *Mem
	key string
}

func (l *memLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locks, l.key)
	return nil
}

func sortedNames(entries map[string]*memNode) []string {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
