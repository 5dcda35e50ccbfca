package vfs

import (
	"bytes"
	"os"
	"path"
)

// TempSuffix ends the name Replace writes to before it renames; a file so
// named is left over from a crash and may be removed.
const TempSuffix = ".tmp"

// Replace puts data in place of the named file, or makes it: readers and crash
// see the whole old or the whole new file.
func Replace(fs FS, name string, data []byte) error {
	temp := name + TempSuffix
	f, err := fs.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fs.Rename(temp, name)
	}
	if err != nil {
		_ = fs.Remove(temp) // a leftover does no harm: the next Replace truncates it
		return err
	}
	return fs.SyncDir(path.Dir(name))
}

// ReadFile reads a whole file.
func ReadFile(fs FS, name string) ([]byte, error) {
	f, err := fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if st, err := f.Stat(); err == nil && st.Size() < 1<<30 {
		buf.Grow(int(st.Size()) + bytes.MinRead)
	}
	if _, err := buf.ReadFrom(f); err != nil {
		_ = f.Close() // only read from
		return nil, err
	}
	return buf.Bytes(), f.Close()
}
