package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSoakDamagedDirectory damages the files of a data directory, one at a time and
// in a soak each in three ways, but for the segments of a topic. The server either serves everything
// that was acknowledged, or does not start and names the place. Only where its
// own records are damaged it may start with less, and says so.
func TestSoakDamagedDirectory(t *testing.T) {
	t.Parallel() // it waits for the server to start
	n := startNode(t)
	n.lines("kept", 40)
	n.run("consume", "kept", "-g", "readers", "-n", "30")
	n.ready()
	path, _ := n.job("kept", textJob)
	n.run("job", "apply", path)
	n.stop()
	sound := filepath.Join(n.dir, "sound")
	data := filepath.Join(n.dir, "data")
	if err := os.Rename(data, sound); err != nil {
		t.Fatal(err)
	}
	var files []string
	err := filepath.WalkDir(sound, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(sound, p)
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		segment, err := os.Stat(filepath.Join(filepath.Dir(p), "00000000000000000000.log"))
		unused := strings.HasPrefix(rel, "__consumer_offsets-") && (err != nil || segment.Size() == 0)
		if st.Size() > 0 && !unused && !strings.HasPrefix(rel, "kept-0/0") {
			files = append(files, rel)
		}
		return nil
	})
	if err != nil || len(files) < 6 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	hows := []struct {
		name string
		do   func([]byte) []byte
	}{{"flipped", flipMiddle}, {"cut off", cutTail}, {"emptied", func([]byte) []byte { return nil }}}
	started, refused := 0, 0
	for i, file := range files {
		for j, how := range hows {
			if j != i%len(hows) && !inSoak() {
				continue
			}
			if err := os.CopyFS(data, os.DirFS(sound)); err != nil {
				t.Fatal(err)
			}
			change(t, filepath.Join(data, file), how.do)
			if n.servesAll(file, how.name) {
				started++
			} else {
				refused++
			}
			if err := os.RemoveAll(data); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d files: started %d times, refused %d times", len(files), started, refused)
}

// loud is what a server said above the level of information.
func loud(c *child) string {
	var kept []string
	for line := range strings.Lines(c.said.String()) {
		if !strings.Contains(line, `"level":"INFO"`) {
			kept = append(kept, strings.TrimSpace(line))
		}
	}
	return strings.Join(kept, "; ")
}

// servesAll starts the server on a damaged directory and tells whether it came
// up; then everything must be there.
func (n *node) servesAll(file, how string) bool {
	n.t.Helper()
	c := n.spawn(nil, "serve", "--data", filepath.Join(n.dir, "data"), "--listen", n.listen, "--http", n.web)
	up := false
	for end := time.Now().Add(patience); !up && time.Now().Before(end); time.Sleep(10 * time.Millisecond) { // another process acts
		if resp, err := http.Get("http://" + n.web + "/readyz"); err == nil {
			_ = resp.Body.Close()
			up = resp.StatusCode == http.StatusOK
		}
		if len(c.ended) > 0 {
			break
		}
	}
	if !up {
		code := c.wait(10 * time.Second)
		place := filepath.Join("data", strings.Split(file, "/")[0]) // the file, or the folder of the room it belongs to
		if said := c.said.String(); code == 0 || !strings.Contains(said, place) || strings.Contains(said, "goroutine ") {
			n.t.Errorf("%s %s: exit code %d, and the file is not named: %s", file, how, code, said)
		}
		return false
	}
	defer func() {
		c.killAll()
		c.wait(10 * time.Second)
	}()
	var less []string
	if out, code, said := n.try("consume", "kept", "--range", "earliest..latest"); code != 0 || strings.Count(string(out), "\n") != 40 {
		less = append(less, fmt.Sprintf("%d of 40 records, exit code %d: %s", strings.Count(string(out), "\n"), code, said))
	}
	if out, code, said := n.try("group", "describe", "readers", "-o", "json"); code != 0 || !strings.Contains(string(out), `"committed": 30`) {
		less = append(less, fmt.Sprintf("the group's offset is gone, exit code %d: %s%s", code, out, said))
	}
	if out, code, said := n.try("job", "list", "-o", "json"); code != 0 || !strings.Contains(string(out), `"kept"`) {
		less = append(less, fmt.Sprintf("the job is gone, exit code %d: %s%s", code, out, said))
	}
	if out, code, said := n.try("produce", "kept", filepath.Join(n.dir, "kept.yaml")); code != 0 {
		less = append(less, fmt.Sprintf("produce: exit code %d: %s%s", code, out, said))
	}
	folder := filepath.Base(filepath.Dir(file))
	if own := strings.HasPrefix(folder, "__") && strings.HasSuffix(file, ".log"); own && len(less) > 0 {
		topic := folder[:strings.LastIndex(folder, "-")]
		if !strings.Contains(loud(c), folder) && !strings.Contains(loud(c), `"Topic":"`+topic+`"`) {
			n.t.Errorf("%s %s: it started with less and does not say so: %s; %s", file, how, less, loud(c))
		}
	} else if len(less) > 0 {
		n.t.Errorf("%s %s: it started with less: %s; it said %s", file, how, less, loud(c))
	}
	return true
}
