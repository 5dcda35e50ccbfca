package peer

import "syscall"

// dieTogether makes a process die when the thread that started it does.
func dieTogether() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
