package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
	"sawlog/broker/peer"
)

// DescribeQuorum, versions 0–2 (KIP-595, KIP-836, KIP-853): the voters on the
// metadata as the active controller sees them: its Raft term is the leader's
// epoch, offsets are Raft indexes. Since version 2 with directory ids and the
// nodes; their listeners stay empty, as no client can reach a controller. Other
// nodes ask the active one.

// metadataTopic is the name Kafka's tools know the metadata log by.
const metadataTopic = "__cluster_metadata"

// quorumMethod is what brokers call each other for: a DescribeQuorum, its
// version before it.
const quorumMethod peer.Method = 10

func (b *Broker) describeQuorum(r *kmsg.DescribeQuorumRequest) kmsg.Response {
	leader, known := b.controller.Image().Broker(b.controller.Leader())
	if b.peers == nil || !known || leader.ID == b.nodeID {
		return b.describeOwnQuorum(r)
	}
	ctx, cancel := b.adminContext(0)
	defer cancel()
	m := r.ResponseKind().(*kmsg.DescribeQuorumResponse)
	body := r.AppendTo(binary.BigEndian.AppendUint16(nil, uint16(r.Version)))
	answer, err := b.peers.Call(ctx, endpoint(leader, peerListener), quorumMethod, body)
	if err == nil {
		err = m.ReadFrom(answer)
	}
	if err != nil {
		m.Default()
		m.ErrorCode, m.ErrorMessage = codeAndText(fmt.Errorf("%w: %w", kerr.NotLeaderForPartition, err))
	}
	return m
}

// serveQuorum answers another broker.
func (b *Broker) serveQuorum(_ context.Context, _ peer.Identity, body []byte) ([]byte, error) {
	if len(body) < 2 {
		return nil, errors.New("describe quorum: no version")
	}
	r := kmsg.NewPtrDescribeQuorumRequest()
	r.Version = int16(binary.BigEndian.Uint16(body))
	if r.Version < 0 || r.Version > r.MaxVersion() {
		return nil, fmt.Errorf("describe quorum: version %d", r.Version)
	}
	if err := r.ReadFrom(body[2:]); err != nil {
		return nil, err
	}
	return b.describeOwnQuorum(r).AppendTo(nil), nil
}

func (b *Broker) describeOwnQuorum(r *kmsg.DescribeQuorumRequest) *kmsg.DescribeQuorumResponse {
	m := r.ResponseKind().(*kmsg.DescribeQuorumResponse)
	q, err := b.controller.Quorum()
	if err == nil && q.Leader != b.nodeID {
		err = kerr.NotLeaderForPartition
	}
	m.ErrorMessage = new("")
	if err != nil {
		m.ErrorCode, m.ErrorMessage = codeAndText(err)
		return m
	}
	for i := range r.Topics {
		out := kmsg.NewDescribeQuorumResponseTopic()
		out.Topic = r.Topics[i].Topic
		for _, ask := range r.Topics[i].Partitions {
			part := kmsg.NewDescribeQuorumResponseTopicPartition()
			part.Partition, part.ErrorMessage = ask.Partition, new("")
			if out.Topic != metadataTopic || ask.Partition != 0 {
				part.ErrorCode, part.ErrorMessage = codeAndText(kerr.UnknownTopicOrPartition)
			} else {
				b.describedQuorum(&part, &q)
				m.Nodes = quorumNodes(&q)
			}
			out.Partitions = append(out.Partitions, part)
		}
		m.Topics = append(m.Topics, out)
	}
	return m
}

// describedQuorum fills in the metadata partition. Where other nodes are is as
// old as their last heartbeat.
func (b *Broker) describedQuorum(part *kmsg.DescribeQuorumResponseTopicPartition, q *controller.Quorum) {
	part.LeaderID, part.LeaderEpoch, part.HighWatermark = int32(q.Leader), int32(q.Term), q.HighWatermark
	states := func(members []controller.QuorumMember) (out []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) {
		for _, member := range members {
			s := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
			s.ReplicaID, s.ReplicaDirectoryID, s.LogEndOffset = int32(member.ID), member.Directory, member.End
			if member.ID == q.Leader {
				s.LogEndOffset, s.LastFetchTimestamp = q.End, nowMilli()
				s.LastCaughtUpTimestamp = s.LastFetchTimestamp
			}
			out = append(out, s)
		}
		return out
	}
	part.CurrentVoters, part.Observers = states(q.Voters), states(q.Observers)
}

func quorumNodes(q *controller.Quorum) []kmsg.DescribeQuorumResponseNode {
	nodes := make([]kmsg.DescribeQuorumResponseNode, 0, len(q.Voters))
	for _, v := range q.Voters {
		node := kmsg.NewDescribeQuorumResponseNode()
		node.NodeID = int32(v.ID)
		nodes = append(nodes, node)
	}
	return nodes
}
