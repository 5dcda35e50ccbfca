// Package local is a sink on a file system of this machine.
//
// Its promises rest on three facts of POSIX file systems: link(2) refuses a
// name that is taken, rename(2) is atomic, and a name is durable once the folder
// that holds it was fsynced. A file system without links is refused by the
// first PutIfAbsent.
package local

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"sawlog/broker/vfs"
	"sawlog/loader/sink"
)

// Sink is a folder of a file system.
type Sink struct {
	fs  vfs.FS
	dir string // absolute, or as given to New
	uri string

	anchored atomic.Bool // the root's own name was made durable by this Sink
}

var _ sink.Sink = (*Sink)(nil)

// Open returns the sink a file: URI or an absolute path names. It makes
// nothing: the root appears with the first folder made in it.
func Open(uri string) (*Sink, error) {
	dir := uri
	if strings.HasPrefix(uri, "file:") {
		u, err := url.Parse(uri)
		if err != nil {
			return nil, fmt.Errorf("root %q: %w", uri, err)
		}
		if u.Host != "" && u.Host != "localhost" || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
			return nil, fmt.Errorf("root %q: want file:///FOLDER", uri)
		}
		dir = u.Path
	}
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("root %q: want file:///FOLDER or an absolute path", uri)
	}
	dir = filepath.Clean(dir)
	if link, to := dangling(dir); link != "" {
		return nil, fmt.Errorf("root %q: %w: %s is a link to %s, which is not there: make that folder, or mount what holds it", uri, sink.ErrRefused, link, to)
	}
	return New(vfs.OS, dir), nil
}

// dangling finds a link in the path of a folder that leads nowhere: no folder can
// be made there, and the system's word for it is that a file exists.
func dangling(dir string) (link, to string) {
	for ; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		st, err := os.Lstat(dir)
		if err != nil {
			continue
		}
		if _, err := os.Stat(dir); st.Mode()&os.ModeSymlink == 0 || !errors.Is(err, os.ErrNotExist) {
			return "", ""
		}
		to, err := os.Readlink(dir)
		if err != nil {
			return "", ""
		}
		return dir, to
	}
	return "", ""
}

// New returns the sink of a folder of fs.
func New(fs vfs.FS, dir string) *Sink {
	return &Sink{fs: fs, dir: dir, uri: (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String()}
}

// Root is the file: URI of the folder.
func (s *Sink) Root() string { return s.uri }

func (s *Sink) at(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// Mkdir makes one folder.
func (s *Sink) Mkdir(name string) error {
	if err := sink.Clean(name); err != nil {
		return err
	}
	return classify("mkdir", name, s.fs.Mkdir(s.at(name), 0o755))
}

// MkdirAll makes a folder and those above it, the root too.
func (s *Sink) MkdirAll(name string) error {
	if err := sink.Clean(name); err != nil {
		return err
	}
	return classify("mkdir", name, s.fs.MkdirAll(s.at(name), 0o755))
}

// Create makes a new file.
func (s *Sink) Create(name string) (io.WriteCloser, error) {
	if err := sink.Clean(name); err != nil {
		return nil, err
	}
	f, err := s.fs.OpenFile(s.at(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, classify("create", name, err)
	}
	return &writer{f, name}, nil
}

type writer struct {
	f    vfs.File
	name string
}

func (w *writer) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	return n, classify("write", w.name, err)
}

func (w *writer) Close() error { return classify("close", w.name, w.f.Close()) }

// Upload copies what src begins with into a new file.
func (s *Sink) Upload(src io.ReaderAt, size int64, name string) error {
	dst, err := s.Create(name)
	if err != nil {
		return err
	}
	n, err := io.Copy(dst, io.NewSectionReader(src, 0, size))
	if err == nil && n < size {
		err = classify("upload", name, io.ErrUnexpectedEOF)
	}
	if closed := dst.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = s.Remove(name) // half a file; the error above is the one to report
	}
	return err
}

// Rename moves a file and replaces what is at to.
func (s *Sink) Rename(from, to string) error {
	if err := cleanBoth(from, to); err != nil {
		return err
	}
	return classify("rename", from+" to "+to, s.fs.Rename(s.at(from), s.at(to)))
}

func cleanBoth(a, b string) error {
	if err := sink.Clean(a); err != nil {
		return err
	}
	return sink.Clean(b)
}

// Open opens a file for reading.
func (s *Sink) Open(name string) (sink.File, error) {
	if err := sink.Clean(name); err != nil {
		return nil, err
	}
	f, err := s.fs.OpenFile(s.at(name), os.O_RDONLY, 0)
	if err != nil {
		return nil, classify("open", name, err)
	}
	st, err := f.Stat()
	if err == nil && st.IsDir() {
		err = errFolder
	}
	if err != nil {
		_ = f.Close() // only opened to read
		return nil, classify("open", name, err)
	}
	return &reader{f, name, st.Size()}, nil
}

var errFolder = errors.New("is a folder")

type reader struct {
	f    vfs.File
	name string
	size int64
}

func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.f.ReadAt(p, off)
	if errors.Is(err, io.EOF) {
		return n, err
	}
	return n, classify("read", r.name, err)
}

func (r *reader) Close() error { return classify("close", r.name, r.f.Close()) }

func (r *reader) Size() int64 { return r.size }

// ReadFile reads a whole file.
func (s *Sink) ReadFile(name string) ([]byte, error) {
	f, err := s.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.NewSectionReader(f, 0, math.MaxInt64))
	if closed := f.Close(); err == nil {
		err = closed
	}
	return data, err
}

// Stat describes a file or folder.
func (s *Sink) Stat(name string) (sink.Entry, error) {
	if err := sink.Clean(name); err != nil {
		return sink.Entry{}, err
	}
	st, err := s.fs.Stat(s.at(name))
	if err != nil {
		return sink.Entry{}, classify("stat", name, err)
	}
	return sink.EntryOf(st), nil
}

// List describes what a folder holds.
func (s *Sink) List(name string) ([]sink.Entry, error) {
	if err := sink.Clean(name); err != nil {
		return nil, err
	}
	found, err := s.fs.ReadDir(s.at(name))
	if err != nil {
		return nil, classify("list", name, err)
	}
	entries := make([]sink.Entry, 0, len(found))
	for _, d := range found {
		st, err := d.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // taken away since the folder was read
		}
		if err != nil {
			return nil, classify("list", name, err)
		}
		entries = append(entries, sink.EntryOf(st))
	}
	return entries, nil
}

// Above finds the nearest folder above the root that holds name, by the path that
// links lead to.
func (s *Sink) Above(name string) (string, error) {
	if err := sink.Clean(name); err != nil {
		return "", err
	}
	dir := s.dir
	if s.fs == vfs.OS {
		dir = sink.Followed(dir)
	}
	for filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
		switch _, err := s.fs.Stat(filepath.Join(dir, filepath.FromSlash(name))); {
		case err == nil:
			return New(s.fs, dir).uri, nil
		case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission):
			return "", classify("stat", name, err)
		}
	}
	return "", nil
}

// Remove takes away a file or an empty folder.
func (s *Sink) Remove(name string) error {
	if err := sink.Clean(name); err != nil {
		return err
	}
	return classify("remove", name, s.fs.Remove(s.at(name)))
}

// RemoveAll takes away a file, or a folder with all in it.
func (s *Sink) RemoveAll(name string) error {
	if err := sink.Clean(name); err != nil {
		return err
	}
	return classify("remove", name, s.fs.RemoveAll(s.at(name)))
}
