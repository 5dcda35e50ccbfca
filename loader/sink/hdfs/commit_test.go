package hdfs

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sawlog/loader/sink"
	"sawlog/loader/sink/hdfs/mini"
)

// hasty are limits for tests that lose answers.
var hasty = limits{call: 10 * time.Second, idle: 10 * time.Second, patient: time.Minute, first: 10 * time.Millisecond, longest: time.Second, doubt: 2 * time.Second}

// through returns a sink that reaches its NameNode by a proxy.
func through(t testing.TB, c *mini.Cluster, folder string, what func(string) harm) (*Sink, *proxy) {
	t.Helper()
	p := startProxy(t, c.NameNodes[0], what)
	s, err := Open(t.Context(), "hdfs://"+p.Addr+folder, sink.Access{})
	if err != nil {
		t.Fatal(err)
	}
	s.limits = hasty
	t.Cleanup(func() { _ = s.Close() })
	return s, p
}

// slots are what two drivers find at the place of the next record.
var slots = []string{"absent", "empty", "present", "half-made"}

// twoDrivers lets two drivers put the same record, 100 rounds, while the
// calls of each are lost before or after they were carried out, or come late:
// one wins, the loser knows it, and what was there before stays.
func twoDrivers(t *testing.T, c *mini.Cluster) {
	calm := open(t, c, "/commit")
	if err := calm.MkdirAll("ledger"); err != nil {
		t.Fatal(err)
	}
	changing := map[string]bool{"mkdirs": true, "create": true, "addBlock": true, "complete": true, "rename2": true, "delete": true, "getFileInfo": true}
	var drivers [2]*Sink
	var proxies [2]*proxy
	for i := range drivers {
		rnd := rand.New(rand.NewPCG(uint64(i), 5))
		drivers[i], proxies[i] = through(t, c, "/commit", func(method string) harm {
			switch {
			case method == "rename2" && rnd.IntN(2) == 0, changing[method] && rnd.IntN(60) == 0:
				return harm(1 + rnd.IntN(3))
			default:
				return none
			}
		})
	}
	won := [2]int{}
	for round := range 100 {
		slot := slots[round%4]
		if round%4 > 1 && round%8 > 3 {
			slot = "absent" // half the rounds are races that somebody wins
		}
		name := fmt.Sprintf("ledger/%012d/commit.json", round)
		prepare(t, calm, name, slot)
		errs := [2]error{}
		var wg sync.WaitGroup
		for i, s := range drivers {
			wg.Go(func() { errs[i] = s.PutIfAbsent(name, fmt.Appendf(nil, "driver %d", i)) })
		}
		wg.Wait()
		if winner := judge(t, calm, name, slot, errs); winner >= 0 {
			won[winner]++
		}
	}
	time.Sleep(2 * lateness) // for calls that are still on their way
	left, err := calm.List("ledger")
	if err != nil {
		t.Fatal(err)
	}
	slots := 0
	for _, e := range left {
		if !strings.HasPrefix(e.Name, sink.PutPrefix) {
			slots++
		} else if held, err := calm.List("ledger/" + e.Name); err != nil || len(held) > 0 {
			t.Errorf("a put left %s with %v (%v); only an empty folder that was asked for late may stay", e.Name, held, err)
		}
	}
	if slots != 100 {
		t.Errorf("the ledger has %d records, want 100", slots)
	}
	for i, p := range proxies {
		t.Logf("driver %d won %d rounds; answers lost %d, calls lost %d, calls late %d", i, won[i], p.count(lostReply), p.count(lostCall), p.count(lateCall))
		if won[i] == 0 || p.count(lostReply) < 10 || p.count(lostCall) < 10 || p.count(lateCall) < 10 {
			t.Errorf("driver %d: the rounds show too little", i)
		}
	}
}

// eachCallIsLost loses the first answer, the first call, or the first call
// for a while, of each kind that a put, an upload and its rename are made of.
func eachCallIsLost(t *testing.T, c *mini.Cluster) {
	body := strings.Repeat("0123456789abcdef", 100_000) // two blocks
	methods := []string{"mkdirs", "create", "addBlock", "updateBlockForPipeline", "complete", "getFileInfo", "getServerDefaults", "rename2", "delete", "getListing", "getBlockLocations"}
	for _, method := range methods {
		for _, what := range []harm{lostReply, lostCall, lateCall} {
			t.Run(fmt.Sprintf("%s/%d", method, what), func(t *testing.T) {
				t.Parallel()
				var struck atomic.Bool
				s, p := through(t, c, fmt.Sprintf("/each/%s-%d", method, what), func(called string) harm {
					if called == method && struck.CompareAndSwap(false, true) {
						return what
					}
					return none
				})
				err := errors.Join(
					s.MkdirAll("stage"), s.Mkdir("stage/1"), s.Upload(strings.NewReader(body), int64(len(body)), "stage/1/a"), sink.Write(s, "stage/1/b", nil),
					s.PutIfAbsent("ledger/0/commit.json", []byte("record")), s.MkdirAll("hour"), s.Rename("stage/1/a", "hour/a"),
					s.Remove("stage/1/b"), s.RemoveAll("stage"),
				)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * lateness) // for the call that is still on its way
				tree := map[string]string{}
				walk(t, s, "", tree)
				if want := map[string]string{"hour/a": body, "ledger/0/commit.json": "record"}; !maps.Equal(tree, want) {
					t.Errorf("there are %v", slices.Collect(maps.Keys(tree)))
				}
				if p.count(what) == 0 {
					t.Errorf("%s was never called", method)
				}
			})
		}
	}
}

// looksAreLost has a rename carried out late, before the one in its place, and loses
// so many looks after that: it is told that there is nothing to rename, which is no
// answer as long as nobody could look.
func looksAreLost(t *testing.T, c *mini.Cluster) {
	for n := range 3 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			renames, looks := 0, 0
			s, p := through(t, c, fmt.Sprintf("/looks/%d", n), func(method string) harm { // one at a time
				switch {
				case method == "rename2":
					if renames++; renames == 1 {
						return lateCall
					}
					time.Sleep(2 * lateness)
				case method == "getFileInfo" && renames > 1 && looks < n:
					looks++
					return lostCall
				}
				return none
			})
			if err := errors.Join(s.MkdirAll("d"), sink.Write(s, "d/a", []byte("x")), s.Rename("d/a", "d/b")); err != nil {
				t.Fatal(err)
			}
			tree := map[string]string{}
			walk(t, s, "", tree)
			if lost := p.count(lostCall); !maps.Equal(tree, map[string]string{"d/b": "x"}) || lost < n {
				t.Errorf("there is %v, %d looks were lost", tree, lost)
			}
		})
	}
}

// sweptWhilePut has a sweep take the folder of a put away before its rename, as
// it does when the process stood still for a day: it has not won, and what another
// put meanwhile stays.
func sweptWhilePut(t *testing.T, c *mini.Cluster) {
	const name = "ledger/0/commit.json"
	for slot, other := range map[string]string{"free": "", "taken": "driver 1"} {
		t.Run(slot, func(t *testing.T) {
			calm := open(t, c, "/swept-"+slot)
			swept := false
			s, _ := through(t, c, "/swept-"+slot, func(method string) harm {
				if method != "rename2" || swept {
					return none
				}
				swept = true
				entries, err := calm.List("ledger")
				for _, e := range entries {
					err = errors.Join(err, calm.RemoveAll("ledger/"+e.Name))
				}
				if other != "" {
					err = errors.Join(err, calm.PutIfAbsent(name, []byte(other)))
				}
				if err != nil || len(entries) != 1 {
					t.Errorf("swept %v: %v", entries, err)
				}
				return none
			})
			err := s.PutIfAbsent(name, []byte("driver 0"))
			if other != "" {
				if have, read := calm.ReadFile(name); !errors.Is(err, sink.ErrExist) || read != nil || string(have) != other {
					t.Errorf("told %v; there is %q, %v", err, have, read)
				}
				return
			}
			if sink.ClassOf(err) != sink.Retryable || !errors.Is(err, sink.ErrSwept) {
				t.Errorf("told %v (%v)", err, sink.ClassOf(err))
			}
			if err := s.PutIfAbsent(name, []byte("driver 0")); err != nil {
				t.Error(err)
			}
		})
	}
}

// walk reads all files below a folder.
func walk(t *testing.T, s *Sink, dir string, files map[string]string) {
	t.Helper()
	entries, err := s.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		if e.Dir {
			walk(t, s, name, files)
			continue
		}
		data, err := s.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(data)
	}
}

// prepare makes the slot of a record what it is to be.
func prepare(t *testing.T, s *Sink, name, slot string) {
	t.Helper()
	var err error
	switch slot {
	case "empty":
		err = s.Mkdir(path.Dir(name))
	case "present":
		err = s.PutIfAbsent(name, []byte("earlier"))
	case "half-made":
		err = errors.Join(s.Mkdir(path.Dir(name)), sink.Write(s, path.Dir(name)+"/commit.json._COPYING_", []byte("half")))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// judge compares what the drivers were told with what is there, and returns who
// won.
func judge(t *testing.T, s *Sink, name, slot string, errs [2]error) (winner int) {
	t.Helper()
	data, err := s.ReadFile(name)
	if err != nil && !errors.Is(err, sink.ErrNotExist) {
		t.Fatal(err)
	}
	there := map[string]int{"driver 0": 0, "driver 1": 1}
	winner, raced := there[string(data)]
	if !raced {
		winner = -1
	}
	want := map[string]string{"present": "earlier", "half-made": ""}
	if text, ok := want[slot]; ok && string(data) != text || !ok && !raced {
		t.Errorf("%s, %s: holds %q; drivers were told %v", name, slot, data, errs)
	}
	for i, err := range errs {
		switch {
		case err == nil && winner != i:
			t.Errorf("%s, %s: driver %d was told it won, the file holds %q", name, slot, i, data)
		case winner == i && err != nil && sink.ClassOf(err) != sink.Ambiguous:
			t.Errorf("%s, %s: driver %d won and was told %v", name, slot, i, err)
		case slot == "half-made" && (errors.Is(err, sink.ErrExist) || sink.ClassOf(err) != sink.Permanent):
			t.Errorf("%s: driver %d was told %v (%v) of a slot that holds something else", name, i, err, sink.ClassOf(err))
		case slot != "half-made" && winner != i && !errors.Is(err, sink.ErrExist):
			t.Errorf("%s, %s: driver %d lost and was told %v", name, slot, i, err)
		}
	}
	entries, err := s.List(path.Dir(name))
	if err != nil || len(entries) != 1 {
		t.Errorf("%s, %s: its folder holds %v (%v), want one file", name, slot, entries, err)
	}
	return winner
}
