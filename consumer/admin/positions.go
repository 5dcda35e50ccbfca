package admin

import (
	"context"

	"sawlog/consumer"
	"sawlog/offsets"
)

// Bounds fills in where the logs of partitions start and end, in this order, so
// that Start ≤ End holds although the logs move on meanwhile. c is the cluster, or
// a broker that leads all of them; what is refused stays Untold, and is the error.
func Bounds(ctx context.Context, c consumer.Requestor, ps []*Partition) error {
	return fill(ctx, c, ps, start, end)
}

// Positions is Bounds and, between them, where the logs are stable.
func Positions(ctx context.Context, c consumer.Requestor, ps []*Partition) error {
	return fill(ctx, c, ps, start, stable, end)
}

// Ends fills in where the logs end.
func Ends(ctx context.Context, c consumer.Requestor, ps []*Partition) error {
	return fill(ctx, c, ps, end)
}

// OffsetsAt fills in Found: the first offset with a timestamp of ms or later, and
// Untold where no record is that young.
func OffsetsAt(ctx context.Context, c consumer.Requestor, ps []*Partition, ms int64) error {
	for _, p := range ps {
		p.Found = Untold
	}
	return fill(ctx, c, ps, position{max(ms, 0), false, func(p *Partition, at int64) { p.Found = at }})
}

// position is a place in a log that leaders are asked for.
type position struct {
	at        int64 // as ListOffsets takes it
	committed bool
	set       func(p *Partition, at int64)
}

var (
	start  = position{consumer.Earliest, false, func(p *Partition, at int64) { p.Start = at }}
	stable = position{consumer.Latest, true, func(p *Partition, at int64) { p.LastStable = max(at, p.Start) }}
	end    = position{consumer.Latest, false, func(p *Partition, at int64) { p.End = max(at, p.Start, p.LastStable) }}
)

// fill asks for positions one after the other. The error is the first; where
// nothing was told at all, no more is asked.
func fill(ctx context.Context, c consumer.Requestor, ps []*Partition, list ...position) (first error) {
	for _, pos := range list {
		told, err := consumer.ListOffsets(ctx, c, places(ps), pos.at, pos.committed)
		if first == nil {
			first = err
		}
		if told == nil {
			return first
		}
		for _, p := range ps {
			if o, ok := told[p.Place()]; ok {
				pos.set(p, int64(o))
			}
		}
	}
	return first
}

// Sizes fills in the bytes of the logs of partitions that a broker leads.
func Sizes(ctx context.Context, leader consumer.Requestor, ps []*Partition) error {
	told, err := consumer.LogSizes(ctx, leader, places(ps))
	for _, p := range ps {
		if n, ok := told[p.Place()]; ok {
			p.Size = n
		}
	}
	return err
}

func places(ps []*Partition) []offsets.TopicPartition {
	list := make([]offsets.TopicPartition, len(ps))
	for i, p := range inOrder(ps) {
		list[i] = p.Place()
	}
	return list
}

// At is the offset of the partition that a bound stands for, whose Bounds are
// known, and Found where the bound is a time: the end, if no record is that young.
func (p *Partition) At(b offsets.Bound) int64 {
	switch b.Kind {
	case offsets.Earliest:
		return p.Start
	case offsets.Latest:
		return p.End
	case offsets.FromEnd:
		return max(p.Start, p.End-b.N)
	case offsets.AtTime:
		if p.Found < 0 {
			return p.End
		}
		return p.Found
	}
	return b.N
}
