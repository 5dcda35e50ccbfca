package admin

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
)

// Quorum is who votes on the metadata of a cluster.
type Quorum struct {
	Leader    int32
	Term      int32
	Committed int64
	Voters    []Member
	Observers []Member
}

// Member is a voter or observer and how far it is.
type Member struct {
	Node int32
	End  int64 // of its log; Untold = not told
	Lag  int64 // entries behind what is committed
}

// DescribeQuorum asks the active controller about its quorum; nil while there is
// none.
func DescribeQuorum(ctx context.Context, c consumer.Requestor) (*Quorum, error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = "__cluster_metadata"
	t.Partitions = append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, t)
	resp, err := consumer.Ask[*kmsg.DescribeQuorumResponse](ctx, c, req)
	if err != nil {
		return nil, err
	}
	if resp.ErrorCode == kerr.NotLeaderForPartition.Code {
		return nil, nil
	}
	if err := refusal("quorum", resp.ErrorCode, resp.ErrorMessage); err != nil {
		return nil, err
	}
	if len(resp.Topics) == 0 || len(resp.Topics[0].Partitions) == 0 {
		return nil, errors.New("the controller tells nothing of its quorum")
	}
	p := &resp.Topics[0].Partitions[0]
	if err := refusal("quorum", p.ErrorCode, p.ErrorMessage); err != nil {
		return nil, err
	}
	members := func(list []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) (out []Member) {
		for _, s := range list {
			m := Member{Node: s.ReplicaID, End: Untold, Lag: Untold}
			if s.LogEndOffset >= 0 {
				m.End, m.Lag = s.LogEndOffset, max(0, p.HighWatermark-s.LogEndOffset)
			}
			out = append(out, m)
		}
		return out
	}
	return &Quorum{p.LeaderID, p.LeaderEpoch, p.HighWatermark, members(p.CurrentVoters), members(p.Observers)}, nil
}
