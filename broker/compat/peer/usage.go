package peer

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process has used.
type Usage struct {
	CPU  time.Duration // user and system, of all its threads
	RSS  int64         // bytes in memory
	Anon int64         // bytes in memory that no file is behind
}

// tick is the unit of CPU times in /proc (USER_HZ, 100 on every Linux).
const tick = 10 * time.Millisecond

// usage reads /proc/PID/stat and /proc/PID/status (proc(5)).
func usage(pid int) (Usage, error) {
	var u Usage
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return u, err
	}
	// The second field is the command in brackets and may hold anything; utime
	// and stime are the 14th and 15th.
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(f) < 13 {
		return u, fmt.Errorf("%s/stat: %q", dir, stat)
	}
	for _, n := range f[11:13] {
		t, err := strconv.ParseInt(n, 10, 64)
		if err != nil {
			return u, fmt.Errorf("%s/stat: %w", dir, err)
		}
		u.CPU += time.Duration(t) * tick
	}
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return u, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(status)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		to := map[string]*int64{"VmRSS": &u.RSS, "RssAnon": &u.Anon}[name]
		if to == nil {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return u, fmt.Errorf("%s/status: %s: %w", dir, name, err)
		}
		*to = kib << 10
	}
	return u, nil
}
