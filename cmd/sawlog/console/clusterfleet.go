package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
)

// fleet is a cluster at one moment, as its brokers tell it.
type fleet struct {
	ID         string
	Controller int32 // untold = none now
	Brokers    []fleetBroker
	Topics     []topicState
}

// fleetBroker is one broker and what it carries.
type fleetBroker struct {
	ID      int32
	Addr    string
	Rack    string
	Fenced  bool
	Leads   int // partitions
	Holds   int
	Prefers int   // partitions it leads when all brokers are up
	Log     int64 // bytes of its logs
	Free    int64 // bytes of its disk
	Disk    int64
}

// Up counts the brokers in service.
func (f *fleet) Up() (n int) {
	for i := range f.Brokers {
		if !f.Brokers[i].Fenced {
			n++
		}
	}
	return n
}

// Partitions counts all partitions.
func (f *fleet) Partitions() int { return f.count(func(*partition) bool { return true }) }

// Offline counts the partitions without a leader.
func (f *fleet) Offline() int { return f.count(func(p *partition) bool { return p.Leader < 0 }) }

// Lacking counts the partitions that have a leader and lack a copy.
func (f *fleet) Lacking() int {
	return f.count(func(p *partition) bool { return p.Trouble() == "under-replicated" })
}

// Moving counts the partitions that are being moved.
func (f *fleet) Moving() int { return f.count((*partition).Moving) }

// Strayed counts the partitions that their preferred leader could lead and does not.
func (f *fleet) Strayed() int {
	return f.count(func(p *partition) bool {
		return p.Leader >= 0 && len(p.Replicas) > 0 && p.Leader != p.Replicas[0] && slices.Contains(p.ISR, p.Replicas[0])
	})
}

func (f *fleet) count(is func(*partition) bool) (n int) {
	for i := range f.Topics {
		n += f.Topics[i].count(is)
	}
	return n
}

// broker is nil for one the cluster does not know.
func (f *fleet) broker(id int32) *fleetBroker {
	i := slices.IndexFunc(f.Brokers, func(b fleetBroker) bool { return b.ID == id })
	if i < 0 {
		return nil
	}
	return &f.Brokers[i]
}

// lookAtFleet asks for the brokers and where all partitions are.
func lookAtFleet(ctx context.Context, c consumer.Cluster) (*fleet, error) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType, req.IncludeFencedBrokers = 1, true
	resp, err := request[*kmsg.DescribeClusterResponse](ctx, c, req)
	if err != nil {
		return nil, err
	}
	if code := kerr.ErrorForCode(resp.ErrorCode); code != nil {
		return nil, fmt.Errorf("cluster: %w: %w", consumer.ErrUnavailable, code)
	}
	f := &fleet{ID: resp.ClusterID, Controller: resp.ControllerID}
	for _, b := range resp.Brokers {
		broker := fleetBroker{ID: b.NodeID, Addr: fmt.Sprintf("%s:%d", b.Host, b.Port), Fenced: b.IsFenced, Log: untold, Free: untold, Disk: untold}
		if b.Rack != nil {
			broker.Rack = *b.Rack
		}
		f.Brokers = append(f.Brokers, broker)
	}
	slices.SortFunc(f.Brokers, func(a, b fleetBroker) int { return cmp.Compare(a.ID, b.ID) })
	if f.Topics, err = topicStates(ctx, c); err != nil {
		return nil, err
	}
	return f, nil
}

// carry adds up what each broker carries.
func (f *fleet) carry() {
	for _, p := range partitionsOf(f.Topics) {
		target := slices.DeleteFunc(slices.Clone(p.Replicas), func(id int32) bool { return slices.Contains(p.Removing, id) })
		for i, id := range target {
			b := f.broker(id)
			if b == nil {
				continue
			}
			b.Holds++
			if i == 0 {
				b.Prefers++
			}
		}
		if b := f.broker(p.Leader); b != nil {
			b.Leads++
		}
	}
}

// weigh asks each broker in service how much it stores, all at once.
func (f *fleet) weigh(ctx context.Context, c consumer.Cluster) error {
	var asks []func() error
	for i := range f.Brokers {
		b := &f.Brokers[i]
		if b.Fenced {
			continue
		}
		asks = append(asks, func() error {
			within, done := context.WithTimeout(ctx, leaderPatience)
			defer done()
			resp, err := request[*kmsg.DescribeLogDirsResponse](within, c.Broker(b.ID), kmsg.NewPtrDescribeLogDirsRequest())
			if err != nil {
				return fmt.Errorf("broker %d: %w", b.ID, err)
			}
			b.Log = 0
			for _, dir := range resp.Dirs {
				b.Free, b.Disk = dir.UsableBytes, dir.TotalBytes
				for _, t := range dir.Topics {
					for _, p := range t.Partitions {
						b.Log += p.Size
					}
				}
			}
			return nil
		})
	}
	return together(asks...)
}

// quorum is who votes on the metadata.
type quorum struct {
	Leader    int32
	Term      int32
	Committed int64
	Voters    []quorumMember
	Observers []quorumMember
}

// quorumMember is a voter or observer and how far it is behind.
type quorumMember struct {
	Node int32
	Lag  int64 // entries; untold = not told
}

// quorumOf asks the active controller about its quorum; nil while there is none.
func quorumOf(ctx context.Context, c consumer.Cluster) (*quorum, error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = "__cluster_metadata"
	t.Partitions = append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, t)
	resp, err := request[*kmsg.DescribeQuorumResponse](ctx, c, req)
	if err != nil {
		return nil, err
	}
	code := kerr.ErrorForCode(resp.ErrorCode)
	switch {
	case errors.Is(code, kerr.NotLeaderForPartition):
		return nil, nil
	case code != nil:
		return nil, fmt.Errorf("quorum: %w", code)
	case len(resp.Topics) == 0 || len(resp.Topics[0].Partitions) == 0:
		return nil, errors.New("the controller tells nothing of its quorum")
	}
	p := &resp.Topics[0].Partitions[0]
	members := func(list []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) (out []quorumMember) {
		for _, s := range list {
			m := quorumMember{Node: s.ReplicaID, Lag: untold}
			if s.LogEndOffset >= 0 {
				m.Lag = max(0, p.HighWatermark-s.LogEndOffset)
			}
			out = append(out, m)
		}
		return out
	}
	return &quorum{p.LeaderID, p.LeaderEpoch, p.HighWatermark, members(p.CurrentVoters), members(p.Observers)}, nil
}

// formatFeature is the feature by which a cluster tells its format level.
const formatFeature = "sawlog.format.level"

// formatLevel asks for the format level in force and the newest that brokers know;
// 0 where the brokers are not Sawlog's.
func formatLevel(ctx context.Context, c consumer.Cluster) (now, newest int16, err error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "sawlog", "1"
	resp, err := request[*kmsg.ApiVersionsResponse](ctx, c, req)
	if err != nil {
		return 0, 0, err
	}
	for _, f := range resp.FinalizedFeatures {
		if f.Name == formatFeature {
			now = f.MaxVersionLevel
		}
	}
	for _, f := range resp.SupportedFeatures {
		if f.Name == formatFeature {
			newest = f.MaxVersion
		}
	}
	return now, newest, nil
}
