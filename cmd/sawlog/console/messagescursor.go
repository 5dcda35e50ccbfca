package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sawlog/consumer/admin"
	"sawlog/jobs"
)

// cursor is offsets of several partitions, where a page of all of them begins or
// ends: 0@1200,3@88.
type cursor map[int32]int64

// cursorOf reads the text of one; nil for none.
func cursorOf(name, text string) (cursor, error) {
	if text == "" {
		return nil, nil
	}
	out := cursor{}
	for part := range strings.SplitSeq(text, ",") {
		partition, offset, ok := strings.Cut(part, "@")
		p, errP := strconv.ParseInt(partition, 10, 32)
		o, errO := strconv.ParseInt(offset, 10, 64)
		if !ok || errP != nil || errO != nil || p < 0 || o < 0 || len(out) == partitionsRead {
			return nil, &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: fmt.Sprintf("%s: want PARTITION@OFFSET of at most %d partitions, with commas between", name, partitionsRead)}
		}
		out[int32(p)] = o
	}
	return out, nil
}

func (p cursor) String() string {
	var out []string
	for _, index := range slices.Sorted(maps.Keys(p)) {
		out = append(out, fmt.Sprintf("%d@%d", index, p[index]))
	}
	return strings.Join(out, ",")
}

// merge puts the records of several partitions in one order, the newest first where
// the newest were asked for, and keeps as many as the page shows. It goes by time,
// but within a partition by offset whatever the times there are: what it keeps of
// each lies together, so that the pages before and behind go on where it ends.
func (m *messageRead) merge(ps []*admin.Partition, parts []read, starts []int64, backward bool) {
	if m.ask.Partition != "" {
		m.records = append(m.records, parts[0].records...)
		m.window = parts[0].window
		return
	}
	m.older, m.newer = cursor{}, cursor{}
	maps.Copy(m.older, m.ask.cursor())
	maps.Copy(m.newer, m.ask.cursor())
	taken := make([]int, len(parts))
	for len(m.records) < m.ask.Count {
		best := -1
		for i := range parts {
			if taken[i] == len(parts[i].records) {
				continue
			}
			if best < 0 || inFront(parts[i].next(taken[i], backward), parts[best].next(taken[best], backward), backward) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		one := *parts[best].next(taken[best], backward)
		one.skipped = 0 // neighbours are of other partitions
		m.records = append(m.records, one)
		taken[best]++
	}
	for i, p := range ps {
		m.place(p, &parts[i], max(starts[i], p.Start), taken[i], backward)
	}
}

// next is the record of a partition that comes behind so many that are taken.
func (r *read) next(taken int, backward bool) *message {
	if backward {
		return &r.records[len(r.records)-1-taken]
	}
	return &r.records[taken]
}

// inFront tells whether a record comes before another of another partition.
func inFront(a, b *message, backward bool) bool {
	order := cmp.Or(cmp.Compare(a.millis, b.millis), cmp.Compare(a.partition, b.partition))
	if backward {
		return order > 0
	}
	return order < 0
}

// place notes where the pages before and behind go on in a partition that was read
// from, or up to, an offset and of which so many records are shown.
func (m *messageRead) place(p *admin.Partition, r *read, at int64, taken int, backward bool) {
	end := at // of what is shown, the other one
	switch all := taken == len(r.records); {
	case all && r.err == nil && backward:
		end = r.window.From
	case all && r.err == nil:
		end = r.window.To
	case taken > 0 && backward:
		end = r.records[len(r.records)-taken].offset
	case taken > 0:
		end = r.records[taken-1].offset + 1
	}
	lower, upper := at, end
	if backward {
		lower, upper = end, at
	}
	m.older[p.Index], m.newer[p.Index] = lower, upper
	if r.err == nil { // what can't be read has no further pages
		m.hasOlder = m.hasOlder || lower > p.Start
		m.hasNewer = m.hasNewer || upper < p.End
	}
}
