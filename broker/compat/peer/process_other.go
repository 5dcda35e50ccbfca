//go:build !linux

package peer

import "syscall"

// dieTogether has no means here: a test process that is killed leaves its servers behind.
func dieTogether() *syscall.SysProcAttr { return nil }
