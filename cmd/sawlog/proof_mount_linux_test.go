package main

import (
	"golang.org/x/sys/unix"
)

func mountTmpfs(dir, size string) error { return unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size) }

func unmount(dir string) error { return unix.Unmount(dir, unix.MNT_DETACH) }

func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}
