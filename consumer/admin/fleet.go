package admin

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
)

// Untold stands where nobody told a number.
const Untold = -1

// Fleet is a cluster at one moment, as its brokers tell it.
type Fleet struct {
	ID         string
	Controller int32 // Untold = none now
	Brokers    []Broker
	Topics     []Topic
}

// Broker is one broker and what it carries.
type Broker struct {
	ID      int32
	Addr    string // HOST:PORT
	Rack    string
	Fenced  bool // out of service
	Leads   int  // partitions
	Holds   int
	Prefers int   // partitions it leads when all brokers are up
	Log     int64 // bytes of its logs
	Free    int64 // bytes of the disks of its directories, added up
	Disk    int64
}

// Describe asks for a cluster and its brokers, in order of their ids. It has no
// topics yet.
func Describe(ctx context.Context, c consumer.Requestor) (*Fleet, error) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType, req.IncludeFencedBrokers = 1, true
	resp, err := consumer.Ask[*kmsg.DescribeClusterResponse](ctx, c, req)
	if err != nil {
		return nil, err
	}
	if err := refusal("cluster", resp.ErrorCode, resp.ErrorMessage); err != nil {
		return nil, err
	}
	f := &Fleet{ID: resp.ClusterID, Controller: resp.ControllerID}
	for _, b := range resp.Brokers {
		f.Brokers = append(f.Brokers, Broker{
			ID: b.NodeID, Addr: net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), Rack: deref(b.Rack),
			Fenced: b.IsFenced, Log: Untold, Free: Untold, Disk: Untold,
		})
	}
	slices.SortFunc(f.Brokers, func(a, b Broker) int { return cmp.Compare(a.ID, b.ID) })
	return f, nil
}

// Up counts the brokers in service.
func (f *Fleet) Up() (n int) {
	for i := range f.Brokers {
		if !f.Brokers[i].Fenced {
			n++
		}
	}
	return n
}

// Broker is nil for one the cluster does not know.
func (f *Fleet) Broker(id int32) *Broker {
	i := slices.IndexFunc(f.Brokers, func(b Broker) bool { return b.ID == id })
	if i < 0 {
		return nil
	}
	return &f.Brokers[i]
}

// Partitions counts all partitions.
func (f *Fleet) Partitions() int { return f.count(func(*Partition) bool { return true }) }

// Offline counts the partitions without a leader.
func (f *Fleet) Offline() int { return f.count((*Partition).Offline) }

// Lacking counts the partitions that have a leader and lack a copy.
func (f *Fleet) Lacking() int {
	return f.count(func(p *Partition) bool { return !p.Offline() && p.Lacking() })
}

// Moving counts the partitions that are being moved.
func (f *Fleet) Moving() int { return f.count((*Partition).Moving) }

// Strayed counts the partitions that their preferred leader could lead and does not.
func (f *Fleet) Strayed() int { return f.count((*Partition).Strayed) }

func (f *Fleet) count(is func(*Partition) bool) (n int) {
	for i := range f.Topics {
		n += f.Topics[i].Count(is)
	}
	return n
}

// Carry adds up what each broker carries; Moves have to be known.
func (f *Fleet) Carry() {
	for _, p := range PartitionsOf(f.Topics) {
		for i, id := range p.Target() {
			b := f.Broker(id)
			if b == nil {
				continue
			}
			b.Holds++
			if i == 0 {
				b.Prefers++
			}
		}
		if b := f.Broker(p.Leader); b != nil {
			b.Leads++
		}
	}
}

// Weigh asks each broker in service how much it stores, all at once. The error
// names the brokers that failed; what the others told stands.
func (f *Fleet) Weigh(ctx context.Context, c consumer.Cluster) error {
	var ids []int32
	for i := range f.Brokers {
		if !f.Brokers[i].Fenced {
			ids = append(ids, f.Brokers[i].ID)
		}
	}
	return atBrokers(ctx, c, ids, patience, func(ctx context.Context, at consumer.Requestor, id int32) error {
		resp, err := consumer.Ask[*kmsg.DescribeLogDirsResponse](ctx, at, kmsg.NewPtrDescribeLogDirsRequest())
		if err != nil {
			return err
		}
		if err := refusal("log directories", resp.ErrorCode, nil); err != nil {
			return err
		}
		return f.Broker(id).weigh(resp.Dirs)
	})
}

// weigh adds up directories. Where one of them can't be read, no sum is told.
func (b *Broker) weigh(dirs []kmsg.DescribeLogDirsResponseDir) error {
	if len(dirs) == 0 { // so older brokers refuse it
		return errSilent
	}
	var log, free, disk int64
	for _, dir := range dirs {
		if err := refusal("log directory "+dir.Dir, dir.ErrorCode, nil); err != nil {
			return err
		}
		free, disk = plus(free, dir.UsableBytes), plus(disk, dir.TotalBytes)
		for _, t := range dir.Topics {
			for _, p := range t.Partitions {
				log += p.Size
			}
		}
	}
	b.Log, b.Free, b.Disk = log, free, disk
	return nil
}

// plus adds bytes; Untold when one of them is.
func plus(a, b int64) int64 {
	if a < 0 || b < 0 {
		return Untold
	}
	return a + b
}

// Forget takes a broker that is gone for good out of the cluster's memory.
func Forget(ctx context.Context, c consumer.Requestor, id int32) error {
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = id
	resp, err := consumer.Ask[*kmsg.UnregisterBrokerResponse](ctx, c, req)
	if err != nil {
		return err
	}
	return refusal("broker "+strconv.Itoa(int(id)), resp.ErrorCode, resp.ErrorMessage)
}
