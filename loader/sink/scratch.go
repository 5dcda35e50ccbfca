package sink

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Scratch makes a file of this machine that has no name: its bytes are gone once
// it is closed, or its process is, so that tasks that are killed leave nothing
// behind. An empty dir is the system's folder for temporary files.
func Scratch(dir string) (*os.File, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	if f, err := os.OpenFile(dir, unix.O_TMPFILE|os.O_RDWR, 0o600); err == nil {
		return f, nil
	}
	// Not every file system has such files; the error is that of the next try.
	f, err := os.CreateTemp(dir, "sawlog-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
