package local

import (
	"errors"
	"syscall"
)

// transient tells of an error that may pass by itself or by a person's hand,
// and that changed nothing.
func transient(err error) bool {
	for _, code := range []syscall.Errno{
		syscall.EAGAIN, syscall.EINTR, syscall.EBUSY, syscall.ENOSPC, syscall.EDQUOT,
		syscall.EMFILE, syscall.ENFILE, syscall.ETIMEDOUT, syscall.ESTALE,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// readOnly tells of a file system that takes no change until a person mounts it
// otherwise.
func readOnly(err error) bool { return errors.Is(err, syscall.EROFS) }
