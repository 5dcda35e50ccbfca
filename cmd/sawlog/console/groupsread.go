package console

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"sawlog/consumer"
	"sawlog/consumer/admin"
	"sawlog/jobs"
	"sawlog/offsets"
)

// groupState is a group in one line.
type groupState struct {
	Name     string
	State    string
	Protocol string
	Members  int
	Topics   int
	Lag      int64 // records it has yet to read; untold = not known
}

// Says is the state in words.
func (g groupState) Says() string { return stateName(g.State) }

// groupMember is one member of a group.
type groupMember struct {
	ID, Instance, Client, Host string
	Partitions                 int
}

// groupPosition is where a group stands on a partition.
type groupPosition struct {
	Topic     string
	Partition int32
	Committed int64 // untold = nothing
	End       int64
	Lag       int64  // untold = not known
	Waits     string // how long the next record it will read has waited
	Member    string
	Gone      bool // the topic or partition is no more
}

func (p groupPosition) place() offsets.TopicPartition {
	return offsets.TopicPartition{Topic: p.Topic, Partition: p.Partition}
}

// groupDetail is all of a group.
type groupDetail struct {
	groupState
	assignor  string
	members   []groupMember
	positions []groupPosition
	trouble   error // what could not be asked
}

// listGroups lists all groups by name.
func listGroups(ctx context.Context, c consumer.Cluster) ([]groupState, error) {
	told, err := admin.Groups(ctx, c)
	list := make([]groupState, len(told))
	for i, g := range told {
		list[i] = groupState{Name: g.Name, State: g.State, Protocol: g.Protocol, Lag: untold}
	}
	return list, err
}

// fillGroups adds members and lag to some groups.
func fillGroups(ctx context.Context, c consumer.Cluster, groups []groupState) error {
	if len(groups) == 0 {
		return nil
	}
	names := make([]string, len(groups))
	for i := range groups {
		names[i] = groups[i].Name
	}
	described, committed, err := admin.Standing(ctx, c, names)
	for i := range groups {
		if d := described[groups[i].Name]; d != nil {
			groups[i].Members, groups[i].State = len(d.Members), cmp.Or(d.State, groups[i].State)
		}
	}
	ends, endsErr := endsFor(ctx, c, committed)
	for i := range groups {
		g := &groups[i]
		of, told := committed[g.Name]
		if !told {
			continue
		}
		g.Lag = 0
		topics := map[string]bool{}
		for at, offset := range of {
			topics[at.Topic] = true
			switch end, known := ends[at]; {
			case known && end >= 0 && g.Lag >= 0:
				g.Lag += max(0, end-offset)
			case known:
				g.Lag = untold
			}
		}
		g.Topics = len(topics)
	}
	return errors.Join(err, endsErr)
}

// endsFor are the ends of the logs that groups have committed offsets of; untold
// where a leader didn't tell, absent where there is no such partition.
func endsFor(ctx context.Context, c consumer.Cluster, committed map[string]map[offsets.TopicPartition]int64) (map[offsets.TopicPartition]int64, error) {
	wanted := map[offsets.TopicPartition]bool{}
	for _, of := range committed {
		for at := range of {
			wanted[at] = true
		}
	}
	ps, err := admin.PartitionsAt(ctx, c, wanted)
	err = errors.Join(err, ends(ctx, c, ps))
	found := map[offsets.TopicPartition]int64{}
	for _, p := range ps {
		found[p.Place()] = p.End
	}
	return found, err
}

// describeGroup asks for all of one group.
func describeGroup(ctx context.Context, c consumer.Cluster, name string) (*groupDetail, error) {
	described, err := admin.DescribeGroups(ctx, c, []string{name})
	if err != nil {
		return nil, err
	}
	committed, err := admin.Committed(ctx, c, []string{name})
	if err != nil {
		return nil, err
	}
	d, of := described[name], committed[name]
	if (d == nil || d.State == "Dead") && len(of) == 0 {
		return nil, &jobs.Refusal{Kind: jobs.ErrNotFound, Msg: "no group " + printable([]byte(name)), Hint: "a group is there while it has members or committed offsets"}
	}
	g := &groupDetail{groupState: groupState{Name: name, State: "Empty"}}
	readers := map[offsets.TopicPartition]string{}
	if d != nil {
		g.State, g.Protocol, g.assignor, g.Members = d.State, d.Protocol, d.Assignor, len(d.Members)
		for _, m := range d.Members {
			g.members = append(g.members, groupMember{m.ID, m.Instance, m.Client, strings.TrimPrefix(m.Host, "/"), len(m.Given)})
			for _, at := range m.Given {
				readers[at] = m.ID
			}
		}
	}
	g.place(ctx, c, of, readers)
	return g, nil
}

// place lists the partitions that a group has committed or reads, with their lag.
func (g *groupDetail) place(ctx context.Context, c consumer.Cluster, committed map[offsets.TopicPartition]int64, readers map[offsets.TopicPartition]string) {
	wanted := map[offsets.TopicPartition]bool{}
	for at := range committed {
		wanted[at] = true
	}
	for at := range readers {
		wanted[at] = true
	}
	ps, err := admin.PartitionsAt(ctx, c, wanted)
	g.trouble = errors.Join(err, ends(ctx, c, ps))
	found := admin.ByPlace(ps)
	topics := map[string]bool{}
	for at := range wanted {
		topics[at.Topic] = true
		p := groupPosition{Topic: at.Topic, Partition: at.Partition, Committed: untold, End: untold, Lag: untold, Member: readers[at]}
		if offset, ok := committed[at]; ok {
			p.Committed = offset
		}
		if there := found[at]; there != nil {
			p.End = there.End
		} else {
			p.Gone = true
		}
		if p.Committed >= 0 && p.End >= 0 {
			p.Lag = max(0, p.End-p.Committed)
		}
		g.Lag = addLag(g.Lag, p)
		g.positions = append(g.positions, p)
	}
	g.Topics = len(topics)
	slices.SortFunc(g.positions, func(a, b groupPosition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

// addLag adds what a group has yet to read of a partition to what it has of others;
// untold where one of them is. Where it begins without an offset is not known, and
// nothing is to be read where the partition is no more.
func addLag(lag int64, p groupPosition) int64 {
	if p.Gone || p.Committed < 0 {
		return lag
	}
	return plus(lag, p.Lag)
}

// plus adds what may be untold; then the sum is.
func plus(sum, n int64) int64 {
	if sum < 0 || n < 0 {
		return untold
	}
	return sum + n
}

// lagTimes says how long the next record of each position has waited, and when
// the oldest of them was written; zero = none waits, or it is not known.
func lagTimes(ctx context.Context, c consumer.Cluster, rows []groupPosition, now time.Time) (oldest time.Time) {
	behind := map[offsets.TopicPartition]bool{}
	for _, p := range rows {
		if p.Lag > 0 && len(behind) < timedPositions {
			behind[p.place()] = true
		}
	}
	ps, _ := admin.PartitionsAt(ctx, c, behind)
	_ = measure(ctx, c, ps) // the lag in records stands where nothing else is known
	found := admin.ByPlace(ps)
	leaders := admin.Leaders(ps)
	times := make([]time.Time, len(rows))
	room := make(chan struct{}, partsAtATime)
	var wg sync.WaitGroup
	for i, row := range rows {
		p := found[row.place()]
		if p == nil || p.Start < 0 || p.End < 0 {
			continue
		}
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			one := partRead{c: c, p: p, leaders: leaders, fetch: fetchBytes, bytes: readBytes}
			times[i], _ = one.timeOf(ctx, row.Committed)
		})
	}
	wg.Wait()
	for i, written := range times {
		if written.IsZero() {
			continue
		}
		rows[i].Waits = waited(written, now)
		if oldest.IsZero() || written.Before(oldest) {
			oldest = written
		}
	}
	return oldest
}
