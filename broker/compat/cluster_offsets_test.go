package compat_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/compat/peer"
)

// fetched is where a group was said to stand, asked between two moments.
type fetched struct {
	from, to time.Time
	offsets  map[int32]int64
}

// watchOffsets asks a group's coordinator for its offsets, again and again, until
// told to stop.
func watchOffsets(c *peer.Cluster, group, topic string, stop <-chan struct{}) []fetched {
	var all []fetched
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return all
		case <-tick.C: // other processes act
		}
		if f, err := groupOffsets(c, group, topic); err == nil {
			all = append(all, f)
		}
	}
}

// groupOffsets asks whoever coordinates the group.
func groupOffsets(c *peer.Cluster, group, topic string) (fetched, error) {
	id, err := coordinatorOf(c, group)
	if err != nil {
		return fetched{}, err
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 5, group
	t := kmsg.OffsetFetchRequestTopic{Topic: topic}
	for p := range stormPartitions {
		t.Partitions = append(t.Partitions, int32(p))
	}
	req.Topics = append(req.Topics, t)
	f := fetched{from: time.Now(), offsets: map[int32]int64{}}
	resp, err := askOne(c.Node(id).Addr, req)
	if err != nil {
		return f, err
	}
	f.to = time.Now()
	offsets := resp.(*kmsg.OffsetFetchResponse)
	if offsets.ErrorCode != 0 {
		return f, fmt.Errorf("error %d", offsets.ErrorCode)
	}
	for _, p := range offsets.Topics[0].Partitions {
		if p.ErrorCode != 0 {
			return f, fmt.Errorf("partition %d: error %d", p.Partition, p.ErrorCode)
		}
		f.offsets[p.Partition] = p.Offset
	}
	return f, nil
}

// neverBack wants what was fetched never to be less than what was fetched or
// committed before.
func neverBack(group string, watched []fetched, commits []stormLine) error {
	if len(watched) == 0 {
		return fmt.Errorf("%s: nobody ever said where it stands", group)
	}
	for i, f := range watched {
		for p, at := range f.offsets {
			for _, before := range watched[:i] {
				if before.to.Before(f.from) && before.offsets[p] > at {
					return fmt.Errorf("%s, partition %d: %d after %d, %s later", group, p, at, before.offsets[p], f.from.Sub(before.to))
				}
			}
			for _, c := range commits {
				if c.partition == p && c.at.Before(f.from) && c.offset > at {
					return fmt.Errorf("%s, partition %d: %d, where %d was committed %s before", group, p, at, c.offset, f.from.Sub(c.at))
				}
			}
		}
	}
	return nil
}

// The check itself sees an offset that goes back, and only that.
func TestNeverBackNotices(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	f := func(from, to int, offset int64) fetched {
		return fetched{at(from), at(to), map[int32]int64{0: offset}}
	}
	commit := func(s int, offset int64) stormLine { return stormLine{offset: offset, at: at(s)} }
	for _, c := range []struct {
		name    string
		watched []fetched
		commits []stormLine
		wrong   bool
	}{
		{"forward", []fetched{f(1, 2, 5), f(3, 4, 5), f(5, 6, 9)}, []stormLine{commit(2, 5), commit(5, 9)}, false},
		{"back", []fetched{f(1, 2, 5), f(3, 4, 4)}, nil, true},
		{"asked at one time", []fetched{f(1, 4, 5), f(3, 5, 4)}, nil, false},
		{"behind a commit", []fetched{f(1, 2, 5), f(7, 8, 5)}, []stormLine{commit(6, 9)}, true},
		{"committed meanwhile", []fetched{f(5, 8, 5)}, []stormLine{commit(6, 9)}, false},
		{"never answered", nil, nil, true},
	} {
		if err := neverBack("g", c.watched, c.commits); (err != nil) != c.wrong {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
