//go:build linux

package chaos

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// dumped is a line of `sawlog log dump`, of offsets.db or of the offsets topic.
type dumped struct {
	Partition      int32  `json:"partition"`
	Applied        *int64 `json:"applied"` // of a partition of the topic in offsets.db
	Group          string `json:"group"`
	Topic          string `json:"topic"`
	TopicPartition int32  `json:"topicPartition"` // in offsets.db
	Committed      *int64 `json:"committed"`
	Offset         *int64 `json:"offset"` // in the topic
	Tombstone      bool   `json:"tombstone"`
}

// groupAt is where a group's offset of a partition is kept.
type groupAt struct {
	group string
	place
}

// view is what a node's offsets.db says, for each partition of the offsets topic.
type view struct {
	applied map[int32]int64
	stands  map[int32]map[groupAt]int64
}

// dump runs `sawlog log dump` and gives its lines to fn.
func dump(binary string, args []string, fn func(dumped)) error {
	out, err := exec.Command(binary, append([]string{"log", "dump", "-o", "jsonl"}, args...)...).Output()
	if err != nil {
		return fmt.Errorf("log dump %v: %w", args, err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var d dumped
		if err := dec.Decode(&d); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("log dump %v: %w", args, err)
		}
		fn(d)
	}
}

// readView reads a stopped node's offsets.db.
func readView(binary, data string) (view, error) {
	v := view{map[int32]int64{}, map[int32]map[groupAt]int64{}}
	err := dump(binary, []string{filepath.Join(data, "offsets.db")}, func(d dumped) {
		switch {
		case d.Applied != nil:
			v.applied[d.Partition] = *d.Applied
		case d.Committed != nil:
			if v.stands[d.Partition] == nil {
				v.stands[d.Partition] = map[groupAt]int64{}
			}
			v.stands[d.Partition][groupAt{d.Group, place{d.Topic, d.TopicPartition}}] = *d.Committed
		}
	})
	return v, err
}

// replayed is what a partition of the offsets topic says, up to an offset.
func replayed(binary, data string, p int32, to int64) (map[groupAt]int64, error) {
	segments, err := filepath.Glob(filepath.Join(data, fmt.Sprintf("__consumer_offsets-%d", p), "*.log"))
	if err != nil || len(segments) == 0 {
		return nil, err
	}
	slices.Sort(segments)
	stands := map[groupAt]int64{}
	err = dump(binary, append([]string{"--records", "--decode", "offsets"}, segments...), func(d dumped) {
		at := groupAt{d.Group, place{d.Topic, d.Partition}}
		switch {
		case d.Offset == nil || *d.Offset >= to || d.Topic == "":
		case d.Committed != nil:
			stands[at] = *d.Committed
		case d.Tombstone:
			delete(stands, at)
		}
	})
	return stands, err
}

// checkViews wants each node's offsets.db to say what its offsets topic says, as
// far as it is applied.
func checkViews(c *cluster) ([]violation, error) {
	v := &violations{check: "offsets.db is not the log's"}
	for _, n := range c.nodes {
		if n.left {
			continue
		}
		have, err := readView(c.binary, n.data())
		if err != nil {
			return nil, fmt.Errorf("node %d: %w", n.id, err)
		}
		for p, to := range have.applied {
			want, err := replayed(c.binary, n.data(), p, to)
			if err != nil {
				return nil, fmt.Errorf("node %d: %w", n.id, err)
			}
			compareViews(v, fmt.Sprintf("node %d, partition %d applied to %d", n.id, p, to), have.stands[p], want)
		}
	}
	return v.list(), nil
}

func compareViews(v *violations, where string, have, want map[groupAt]int64) {
	for at, offset := range want {
		if got, ok := have[at]; !ok || got != offset {
			v.add("%s: %s %s stands at %d (there: %v), the log says %d", where, at.group, at.place, got, ok, offset)
		}
	}
	for at, offset := range have {
		if _, ok := want[at]; !ok {
			v.add("%s: %s %s stands at %d, the log says nothing", where, at.group, at.place, offset)
		}
	}
}

// stale counts fetches of a group's offsets that were answered with less than an
// earlier commit had set. A coordinator that was cut off may do so for a moment;
// and one whom a reassignment has replaced, until it applies the entry that says
// so, for a session at most: as with Kafka, whose clients learn of the new one from
// the answer to a commit, and read what that one knows.
func stale(commits, fetches []commit) int {
	n := 0
	slices.SortFunc(commits, func(a, b commit) int { return cmp.Compare(a.To, b.To) })
	for _, f := range fetches {
		if slices.ContainsFunc(commits, func(c commit) bool {
			return c.Group == f.Group && c.place == f.place && c.To < f.From && c.Offset > f.Offset
		}) {
			n++
		}
	}
	return n
}

// Each way in which a view may differ from the log is seen.
func TestViewsAreCompared(t *testing.T) {
	at := groupAt{"g", place{events, 0}}
	other := groupAt{"g", place{events, 1}}
	for name, c := range map[string]struct {
		have, want map[groupAt]int64
		seen       int
	}{
		"equal":   {map[groupAt]int64{at: 5}, map[groupAt]int64{at: 5}, 0},
		"behind":  {map[groupAt]int64{at: 4}, map[groupAt]int64{at: 5}, 1},
		"lacking": {nil, map[groupAt]int64{at: 5}, 1},
		"too much": {
			map[groupAt]int64{at: 5, other: 0}, map[groupAt]int64{at: 5}, 1,
		},
	} {
		v := &violations{}
		if compareViews(v, name, c.have, c.want); v.count != c.seen {
			t.Errorf("%s: %v", name, v.list())
		}
	}
	h := sound()
	fetches := []commit{{Group: "g", place: place{"events", 0}, Offset: 4, From: time0, Fetch: true}}
	if n := stale(h.Commits, fetches); n != 1 {
		t.Errorf("%d stale fetches", n)
	}
}

// time0 is after all that a sound history has.
const time0 = 1 << 40
