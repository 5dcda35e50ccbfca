package compat_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/compat"
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

// neverBehind wants what was fetched never to be less than what was committed
// before.
func neverBehind(group string, watched []fetched, commits []stormLine) error {
	if len(watched) == 0 {
		return fmt.Errorf("%s: nobody ever said where it stands", group)
	}
	for _, f := range watched {
		for _, c := range commits {
			if at := f.offsets[c.partition]; c.at.Before(f.from) && c.offset > at {
				return fmt.Errorf("%s, partition %d: %d, where %d was committed %s before", group, c.partition, at, c.offset, f.from.Sub(c.at))
			}
		}
	}
	return nil
}

// inOrder wants what was fetched, one after the other, to be what the log has,
// never going back in it. Offsets themselves may: librdkafka commits late, with
// its new generation, what it read before a rebalance, and then the partition's
// new reader commits less. -1 is no commit.
func inOrder(group string, watched []fetched, log map[int32][]int64) error {
	at := map[int32]int{} // how many commits have been seen
	for _, f := range watched {
		for p, offset := range f.offsets {
			if offset == -1 && at[p] == 0 || at[p] > 0 && log[p][at[p]-1] == offset {
				continue
			}
			next := slices.Index(log[p][at[p]:], offset)
			if next < 0 {
				return fmt.Errorf("%s, partition %d: %d, which isn't among the commits that followed, %v", group, p, offset, log[p][max(0, at[p]-1):])
			}
			at[p] += next + 1
		}
	}
	return nil
}

// committedIn reads a group's commits of a topic from the log, by partition.
func committedIn(t *testing.T, c *peer.Cluster, group, topic string) map[int32][]int64 {
	t.Helper()
	all := map[int32][]int64{}
	for _, r := range readPartition(t, c, "__consumer_offsets", int32(compat.GroupPartition(group))) {
		key, value := kmsg.NewOffsetCommitKey(), kmsg.NewOffsetCommitValue()
		if len(r.Key) < 2 || r.Key[1] > 1 || r.Value == nil {
			continue // of the group itself, or an offset's end
		}
		if err := errors.Join(key.ReadFrom(r.Key), value.ReadFrom(r.Value)); err != nil {
			t.Fatalf("__consumer_offsets@%d: %v", r.Offset, err)
		}
		if key.Group == group && key.Topic == topic {
			all[key.Partition] = append(all[key.Partition], value.Offset)
		}
	}
	return all
}

// The checks themselves see an offset that is behind or goes back, and only that.
func TestOffsetChecksNotice(t *testing.T) {
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
		{"behind a commit", []fetched{f(1, 2, 5), f(7, 8, 5)}, []stormLine{commit(6, 9)}, true},
		{"committed meanwhile", []fetched{f(5, 8, 5)}, []stormLine{commit(6, 9)}, false},
		{"never answered", nil, nil, true},
	} {
		if err := neverBehind("g", c.watched, c.commits); (err != nil) != c.wrong {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, c := range []struct {
		name    string
		watched []int64
		log     []int64
		wrong   bool
	}{
		{"as in the log", []int64{-1, -1, 5, 5, 9}, []int64{5, 7, 9}, false},
		{"the log goes back", []int64{9, 7, 8}, []int64{9, 7, 8}, false},
		{"one and the same again", []int64{5, 9, 5}, []int64{5, 9, 5}, false},
		{"back", []int64{5, 9, 5}, []int64{5, 9}, true},
		{"back to nothing", []int64{5, -1}, []int64{5}, true},
		{"never committed", []int64{6}, []int64{5, 7}, true},
	} {
		var watched []fetched
		for i, offset := range c.watched {
			watched = append(watched, f(2*i, 2*i+1, offset))
		}
		if err := inOrder("g", watched, map[int32][]int64{0: c.log}); (err != nil) != c.wrong {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
