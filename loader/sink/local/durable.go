package local

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"sawlog/loader/sink"
)

// PutIfAbsent writes a temporary file beside the folder of name, fsyncs it and
// links it to its name: link(2) is the one call that creates a whole file or
// refuses. The folder and those above it are fsynced before the answer is nil.
func (s *Sink) PutIfAbsent(name string, data []byte) error {
	if err := sink.Clean(name); err != nil {
		return err
	}
	dir := folderOf(name)
	if _, err := s.fs.Stat(s.at(name)); err == nil {
		return classify("put", name, os.ErrExist)
	}
	if err := s.MkdirAll(dir); err != nil {
		return err
	}
	temp := path.Join(folderOf(dir), sink.PutPrefix+suffix())
	if err := s.writeSynced(temp, data); err != nil {
		_ = s.Remove(temp) // the write's error is the one to report
		return classify("put", name, err)
	}
	err := s.fs.Link(s.at(temp), s.at(name))
	removed := s.fs.Remove(s.at(temp))
	if errors.Is(removed, os.ErrNotExist) { // a sweep was here while this process stood still
		if errors.Is(err, os.ErrNotExist) {
			return &sink.Error{Op: "put", Path: name, Class: sink.Retryable, Err: sink.ErrSwept}
		}
		removed = nil
	}
	if err != nil {
		return classifyAs("put", name, err, sink.Ambiguous)
	}
	if err := s.Sync(name); err != nil {
		return classifyAs("put", name, err, sink.Ambiguous)
	}
	return classifyAs("put", name, removed, sink.Ambiguous)
}

// folderOf is the folder that holds a name; "" = the root, which holds itself.
func folderOf(name string) string {
	if dir := path.Dir(name); dir != "." {
		return dir
	}
	return ""
}

func suffix() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// writeSynced makes a file whose bytes are durable; its name is not yet.
func (s *Sink) writeSynced(name string, data []byte) error {
	f, err := s.fs.OpenFile(s.at(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// Sync fsyncs each file or folder and all folders above it up to the root, each
// folder once, the deepest first. The first call goes on above the root: whoever
// made the root may have died before its name was durable.
func (s *Sink) Sync(names ...string) error {
	if len(names) == 0 {
		return nil // the root may not be there yet
	}
	folders := map[string]bool{}
	var files []string
	for _, name := range names {
		if err := sink.Clean(name); err != nil {
			return err
		}
		st, err := s.fs.Stat(s.at(name))
		if err != nil {
			return classify("sync", name, err)
		}
		if st.IsDir() {
			folders[name] = true
		} else {
			files = append(files, name)
		}
		for dir := path.Dir(name); name != "" && dir != "."; dir = path.Dir(dir) {
			folders[dir] = true
		}
		folders[""] = true
	}
	if err := atOnce(files, s.syncFile); err != nil {
		return err
	}
	byDepth := map[int][]string{}
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		depth := 0
		if dir != "" {
			depth = 1 + strings.Count(dir, "/")
		}
		byDepth[depth] = append(byDepth[depth], dir)
	}
	for _, depth := range slices.Backward(slices.Sorted(maps.Keys(byDepth))) {
		if err := atOnce(byDepth[depth], s.syncFolder); err != nil {
			return err
		}
	}
	return s.anchor()
}

func (s *Sink) syncFolder(name string) error {
	return classify("sync", name, s.fs.SyncDir(s.at(name)))
}

// anchor makes the name of the root durable, once. A folder above it that may
// not be opened is passed over: it was not this process that made names in it.
func (s *Sink) anchor() error {
	if s.anchored.Load() {
		return nil
	}
	for dir := s.dir; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		err := s.fs.SyncDir(filepath.Dir(dir))
		if err != nil && !errors.Is(err, os.ErrPermission) {
			return classify("sync", filepath.Dir(dir), err)
		}
	}
	s.anchored.Store(true)
	return nil
}

// syncsAtOnce is how many fsyncs wait for the disk together: a journal commits
// them in one go.
const syncsAtOnce = 16

// atOnce syncs names that do not depend on each other.
func atOnce(names []string, flush func(name string) error) error {
	if len(names) < syncsAtOnce {
		for _, name := range names {
			if err := flush(name); err != nil {
				return err
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	errs := make([]error, syncsAtOnce)
	for n := range syncsAtOnce {
		wg.Go(func() {
			for i := n; i < len(names) && errs[n] == nil; i += syncsAtOnce {
				errs[n] = flush(names[i])
			}
		})
	}
	wg.Wait()
	return cmp.Or(errs...) // one says where
}

// syncFile opens the file to fsync it: the dirty pages belong to the file, not
// to the descriptor that wrote them.
func (s *Sink) syncFile(name string) error {
	f, err := s.fs.OpenFile(s.at(name), os.O_RDWR, 0)
	if err != nil {
		return classify("sync", name, err)
	}
	err = f.Sync()
	if closed := f.Close(); err == nil {
		err = closed
	}
	return classify("sync", name, err)
}

// classify gives an error its place and class: what the caller may do.
func classify(op, name string, err error) error {
	return classifyAs(op, name, err, sink.Permanent)
}

// classifyAs does so with the class of errors that say nothing by themselves.
func classifyAs(op, name string, err error, unknown sink.Class) error {
	if err == nil {
		return nil
	}
	class := unknown
	switch {
	case errors.Is(err, os.ErrExist), errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		class = sink.Permanent
	case unknown == sink.Permanent && transient(err):
		class = sink.Retryable
	}
	if name == "" {
		name = "the root"
	}
	cause := bare(err)
	if readOnly(err) {
		cause = fmt.Errorf("%w: %w", cause, sink.ErrRefused)
	}
	return &sink.Error{Op: op, Path: filepath.ToSlash(name), Class: class, Err: cause}
}

// bare drops the operation and absolute path the file system put before the
// cause: the sink names its own.
func bare(err error) error {
	var pathErr *os.PathError
	var linkErr *os.LinkError
	switch {
	case errors.As(err, &pathErr):
		return pathErr.Err
	case errors.As(err, &linkErr):
		return linkErr.Err
	default:
		return err
	}
}
