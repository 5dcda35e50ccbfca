// Package sink answers one question: where do the files of a data set go?
//
// A Sink is one root on one file store: a local disk, HDFS. It knows nothing of
// plans, ledgers or file formats. Paths are relative to the root, clean, and
// separated by "/"; "" is the root itself. The promises below are what a ledger
// is built on, and sinktest checks each of them on every implementation.
package sink

import (
	"io"
	"io/fs"
	"path"
	"strings"
	"time"
)

// Sink is one root on one file store. It may be used by several goroutines.
//
// Errors tell what the caller may do by their class (ClassOf), and whether
// something was there or not by ErrExist and ErrNotExist.
type Sink interface {
	// Root is the URI the sink was opened with.
	Root() string

	// Mkdir makes one folder whose parent exists; ErrExist if it is there,
	// ErrNotExist if the parent is not.
	Mkdir(name string) error
	// MkdirAll makes a folder and those above it; a folder that is there is fine.
	MkdirAll(name string) error
	// Create makes a new file in a folder that exists; ErrExist if the name is
	// taken. Nothing is promised about its bytes before Close returned nil, and
	// nothing about their durability before Sync did.
	Create(name string) (io.WriteCloser, error)
	// Upload copies the first size bytes of src to a new file, as Create does.
	Upload(src io.ReaderAt, size int64, name string) error
	// Rename moves a file in one step and replaces a file that is at to;
	// ErrNotExist if from, or the folder of to, is absent.
	Rename(from, to string) error
	// PutIfAbsent makes name with exactly these bytes, durably, or changes
	// nothing. It makes the folder of name, which holds nothing else before: a
	// store without links renames a whole folder into place. ErrExist = name is
	// there, whoever put it. After an error of class Ambiguous the file may be
	// there: read it. In no case does it appear after the call has returned.
	PutIfAbsent(name string, data []byte) error

	// Open opens a file for reading at any position.
	Open(name string) (File, error)
	// ReadFile reads a whole small file.
	ReadFile(name string) ([]byte, error)
	// Stat describes a file or folder.
	Stat(name string) (Entry, error)
	// List describes what a folder holds, in order of the names.
	List(name string) ([]Entry, error)

	// Above is the nearest folder above the root that holds name, as the URI of a
	// root; "" = none does that may be looked into.
	Above(name string) (string, error)

	// Remove takes away a file or an empty folder.
	Remove(name string) error
	// RemoveAll takes away a file, or a folder with all in it; nothing there is
	// fine.
	RemoveAll(name string) error

	// Sync makes files and folders durable with all the folders above them, so
	// that neither bytes nor names are lost when the machine stops. A store
	// whose Close does so already does nothing here.
	Sync(names ...string) error
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// Entry describes a file or folder.
type Entry struct {
	Name    string // last element of its path
	Size    int64
	Dir     bool
	ModTime time.Time
}

// EntryOf is the entry of what a file system says of a name.
func EntryOf(st fs.FileInfo) Entry {
	e := Entry{Name: st.Name(), Dir: st.IsDir(), ModTime: st.ModTime()}
	if !e.Dir {
		e.Size = st.Size()
	}
	return e
}

// Clean checks a path: relative, with "/" between its elements, no "." or ".."
// and no empty element. "" is the root.
func Clean(name string) error {
	if name == "" {
		return nil
	}
	if path.Clean(name) != name || name == "." || name == ".." ||
		strings.HasPrefix(name, "/") || strings.HasPrefix(name, "../") || strings.ContainsRune(name, 0) {
		return &Error{Op: "path", Path: name, Class: Permanent, Err: errUnclean}
	}
	return nil
}

// PutPrefix begins the names under which a store keeps what it is about to put,
// beside the folder it is put to: a file, or where there are no links a folder
// with the file. One that is old was left by a crash.
const PutPrefix = ".put-"

// Write makes a new file of data. Nothing is durable yet.
func Write(s Sink, name string, data []byte) error {
	w, err := s.Create(name)
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		_ = w.Close() // the write's error is the one to report
		return err
	}
	return w.Close()
}
