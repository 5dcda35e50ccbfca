package peer

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// Address is a loopback address that is the test's until it ends, also while
// nobody listens there: nobody else is given its port, neither to listen nor to
// connect from. Who is to listen there must ask for SO_REUSEADDR, as Go and Java
// do.
func Address(t testing.TB) string {
	t.Helper()
	addr, release, err := Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return addr
}

// Hold is Address for who has no test to end it.
func Hold() (addr string, release func(), err error) {
	// A socket that is bound and doesn't listen keeps the port from all who
	// don't name it.
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return "", nil, os.NewSyscallError("socket", err)
	}
	syscall.CloseOnExec(fd)
	socket := os.NewFile(uintptr(fd), "held port")
	release = func() { _ = socket.Close() } // nothing went over it
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		release()
		return "", nil, os.NewSyscallError("bind", err)
	}
	// Only now: with it from the start the system would take ports that others
	// hold for free ones.
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		release()
		return "", nil, os.NewSyscallError("setsockopt", err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		release()
		return "", nil, os.NewSyscallError("getsockname", err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port), release, nil
}
