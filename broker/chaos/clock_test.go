//go:build linux

package chaos

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

// clock is the wall clock of one process, which can be set off while it runs. A
// Go program asks for the time by the vDSO, a page of code the kernel gives each
// process; there the function that tells the time is replaced by one that asks
// the kernel and adds an offset. The monotonic clock stays true, as it does when
// an administrator sets a machine's clock.
type clock struct {
	memory *os.File
	offset int64 // address of the seconds that are added
}

// tellTime is clock_gettime(edi: which clock, rsi: where to) for amd64. It asks
// the kernel and, of CLOCK_REALTIME (0), adds the seconds that follow it.
var tellTime = []byte{
	0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi
	0x75, 10, // jne to the ret
	0x48, 0x8b, 0x0d, 6, 0, 0, 0, // mov rcx, [the offset]
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3,       // ret
	0xcc, 0xcc, // up to a multiple of 8, so that a write of the offset is one
}

// takeClock puts a process's wall clock into our hands. The process has begun
// and not run yet: it is stopped by its tracer.
func takeClock(pid int) (*clock, error) {
	if runtime.GOARCH != "amd64" {
		return nil, errors.New("the code that tells the time is for amd64 only")
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	var from, to int64
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
				return nil, fmt.Errorf("/proc/%d/maps: %w", pid, err)
			}
		}
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	at, err := timeTeller(memory, from, to)
	if err == nil {
		_, err = memory.WriteAt(append(slices.Clone(tellTime), make([]byte, 8)...), from+at)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the clock of process %d: %w", pid, err), memory.Close())
	}
	return &clock{memory, from + at + int64(len(tellTime))}, nil
}

// timeTeller is where the vDSO's function begins that tells the time.
func timeTeller(memory *os.File, from, to int64) (int64, error) {
	image := make([]byte, to-from)
	if _, err := memory.ReadAt(image, from); err != nil {
		return 0, err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "__vdso_clock_gettime" })
	if i < 0 || symbols[i].Size < uint64(len(tellTime)+8) || symbols[i].Value%8 != 0 {
		return 0, errors.New("the vDSO has no room for another clock_gettime")
	}
	return int64(symbols[i].Value), nil
}

// set puts the clock off by whole seconds, 0 right again.
func (c *clock) set(off time.Duration) error {
	_, err := c.memory.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(off/time.Second)), c.offset)
	return err
}

// noClocks is why this machine lets no clock be set, tried once.
var noClocks = sync.OnceValue(func() error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // it traces, and ends with the goroutine
		cmd := exec.Command("/proc/self/exe", "-test.run", "^$")
		cmd.SysProcAttr = &syscall.SysProcAttr{}
		c, err := startWithClock(cmd, time.Hour)
		if err == nil {
			err = errors.Join(cmd.Wait(), c.memory.Close())
		}
		done <- err
	}()
	return <-done
})

// startWithClock starts a command whose wall clock is off. The calling thread
// has to stay the goroutine's own.
func startWithClock(cmd *exec.Cmd, off time.Duration) (*clock, error) {
	cmd.SysProcAttr.Ptrace = true // so it stops before its first instruction
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pid := cmd.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || !status.Stopped() {
		return nil, errors.Join(fmt.Errorf("process %d does not stop at its begin: %v, %w", pid, status, err), cmd.Process.Kill())
	}
	c, err := takeClock(pid)
	if err == nil {
		err = errors.Join(c.set(off), syscall.PtraceDetach(pid))
	}
	if err != nil {
		return nil, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	return c, nil
}

// A process's clock is set off while it runs, and right again; its monotonic
// clock and the clocks of others stay as they are.
func TestClocksAreSet(t *testing.T) {
	if os.Getenv("CHAOS_CLOCK") != "" {
		began := time.Now()
		for line := make([]byte, 1); ; {
			if _, err := os.Stdin.Read(line); err != nil {
				return
			}
			fmt.Println("at", time.Now().UnixMilli(), time.Since(began).Milliseconds())
		}
	}
	if err := noClocks(); err != nil {
		peer.Lacks(t, fmt.Sprintf("clocks that can be set: %v", err))
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", "-test.run", "TestClocksAreSet")
	cmd.Env = append(os.Environ(), "CHAOS_CLOCK=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ask, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c, err := startWithClock(cmd, -30*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ask.Close(); _ = cmd.Wait() }() // it ends with its input
	for _, off := range []time.Duration{-30 * time.Hour, 10 * time.Hour, 0} {
		if err := c.set(off); err != nil {
			t.Fatal(err)
		}
		if _, err := ask.Write([]byte{'\n'}); err != nil {
			t.Fatal(err)
		}
		var wall, since int64
		if _, err := fmt.Fscanf(out, "at %d %d\n", &wall, &since); err != nil {
			t.Fatal(err)
		}
		if d := time.Until(time.UnixMilli(wall)) - off; d.Abs() > time.Minute {
			t.Errorf("set off by %s, the clock is off by %s", off, off+d)
		}
		if since < 0 || since > time.Minute.Milliseconds() {
			t.Errorf("set off by %s, %d ms went by", off, since)
		}
	}
}
