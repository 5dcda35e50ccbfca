//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sawlog/broker/compat/peer"
)

// volume is a disk of a node's own: an ext4 over a loop file. It can be filled
// up, frozen, and copied as it is on the device, without what only the page
// cache has.
type volume struct {
	file string // what lies behind it
	dir  string // where it is mounted
}

const volumeSize = 1 << 30

// openVolume makes and mounts a volume. Its error says why this machine can't.
func openVolume(t testing.TB, file, dir string) (*volume, error) {
	t.Helper()
	if os.Getuid() != 0 {
		return nil, errors.New("loop devices need root")
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	err = errors.Join(f.Truncate(volumeSize), f.Close())
	if err != nil {
		return nil, err
	}
	// No reserve for root and no lazy work, which would go on while a test runs.
	if err := run("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", file); err != nil {
		return nil, err
	}
	v := &volume{file: file, dir: dir}
	if err := v.mount(); err != nil {
		return nil, err
	}
	t.Cleanup(v.close)
	return v, nil
}

func (v *volume) mount() error {
	if err := os.MkdirAll(v.dir, 0o755); err != nil {
		return err
	}
	return run("mount", "-o", "loop,noatime", v.file, v.dir)
}

// close unmounts the volume; the file stays.
func (v *volume) close() {
	_ = v.thaw()
	_ = v.clear()
	_ = unix.Unmount(v.dir, unix.MNT_DETACH) // it may not be mounted
}

// fill takes all room there is; clear gives it back.
func (v *volume) fill() error {
	f, err := os.Create(v.filler())
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // nothing was written to it
	var at int64
	for step := int64(64 << 20); step >= 4096; {
		switch err := unix.Fallocate(int(f.Fd()), 0, at, step); {
		case err == nil:
			at += step
		case errors.Is(err, unix.ENOSPC):
			step /= 2
		default:
			return err
		}
	}
	return nil
}

func (v *volume) clear() error {
	if err := os.Remove(v.filler()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (v *volume) filler() string { return filepath.Join(v.dir, "filler") }

// freeze makes every write to the volume wait until thaw: a disk that stalls.
func (v *volume) freeze() error { return v.ioctl(fiFreeze) }
func (v *volume) thaw() error   { return v.ioctl(fiThaw) }

const (
	fiFreeze = 0xC0045877 // linux/fs.h
	fiThaw   = 0xC0045878
)

func (v *volume) ioctl(request uint) error {
	fd, err := unix.Open(v.dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // only a handle
	return unix.IoctlSetInt(fd, request, 0)
}

// snapshot copies the device as a power cut would leave it: what was synced is
// in it, what only the page cache of the mounted file system has is not. The
// copy takes no more room than the volume has written.
func (v *volume) snapshot(file string) error {
	// The loop driver writes to the file through the page cache of the file
	// below, so a read of the file has what reached the device, and no more.
	from, err := os.Open(v.file)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // only read from
	to, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := copySparse(to, from); err != nil {
		return errors.Join(err, to.Close())
	}
	return to.Close()
}

// copySparse copies the parts of a file that hold anything.
func copySparse(to, from *os.File) error {
	size, err := from.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if err := to.Truncate(size); err != nil {
		return err
	}
	for at := int64(0); ; {
		start, err := from.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil
		} else if err != nil {
			return err
		}
		end, err := from.Seek(start, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := from.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if _, err := to.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(to, from, end-start); err != nil {
			return err
		}
		at = end
	}
}

func run(argv ...string) error {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// What a volume is for: filled up it refuses writes, and takes them again; a
// snapshot has what was synced and not what wasn't.
func TestVolume(t *testing.T) {
	room := t.TempDir()
	v, err := openVolume(t, filepath.Join(room, "disk"), filepath.Join(room, "mnt"))
	if err != nil {
		peer.Lacks(t, fmt.Sprintf("loop devices: %v", err))
	}
	payload := make([]byte, 1<<20)
	for i := range payload {
		payload[i] = byte(i*7 + i>>8)
	}
	name := filepath.Join(v.dir, "synced")
	if err := v.fill(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, payload, 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a write to a full volume: %v", err)
	}
	if err := v.clear(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(payload); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(v.dir, "unsynced"), payload, 0o600); err != nil {
		t.Fatal(err)
	}
	after := &volume{file: filepath.Join(room, "copy"), dir: filepath.Join(room, "after")}
	if err := v.snapshot(after.file); err != nil {
		t.Fatal(err)
	}
	if err := after.mount(); err != nil {
		t.Fatal(err)
	}
	defer after.close()
	got, err := os.ReadFile(filepath.Join(after.dir, "synced"))
	if err != nil || string(got) != string(payload) {
		t.Errorf("what was synced: %d bytes, %v", len(got), err)
	}
	if got, err := os.ReadFile(filepath.Join(after.dir, "unsynced")); err == nil && string(got) == string(payload) {
		t.Error("what wasn't synced survived: the snapshot is no power cut")
	}
	if err := v.freeze(); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error)
	go func() { wrote <- os.WriteFile(name, payload, 0o600) }()
	thawed := false
	select {
	case err := <-wrote:
		t.Errorf("a write to a frozen volume ended: %v", err)
	case <-waitABit():
		thawed = true
		if err := v.thaw(); err != nil {
			t.Fatal(err)
		}
		if err := <-wrote; err != nil {
			t.Error(err)
		}
	}
	if !thawed {
		_ = v.thaw()
	}
}
