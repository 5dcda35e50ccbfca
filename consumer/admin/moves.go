package admin

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
	"sawlog/offsets"
)

// Moves fills in the moves of partitions that are under way.
func Moves(ctx context.Context, c consumer.Requestor, ps []*Partition) error {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	req.TimeoutMillis = millisLeft(ctx, c)
	resp, err := consumer.Ask[*kmsg.ListPartitionReassignmentsResponse](ctx, c, req)
	if err != nil {
		return err
	}
	if err := refusal("moves", resp.ErrorCode, resp.ErrorMessage); err != nil {
		return err
	}
	for _, p := range ps {
		p.Adding, p.Removing = nil, nil
	}
	all := ByPlace(ps)
	for _, t := range resp.Topics {
		for _, told := range t.Partitions {
			if p := all[offsets.TopicPartition{Topic: t.Topic, Partition: told.Partition}]; p != nil {
				p.Adding, p.Removing = told.AddingReplicas, told.RemovingReplicas
			}
		}
	}
	return nil
}

// Placement is a partition and the brokers that are to hold its copies, the
// preferred leader first; nil = a move of it is taken back.
type Placement struct {
	offsets.TopicPartition
	Replicas []int32
}

// Move has partitions moved, in order of topic; it returns when the controller has
// taken that in.
func Move(ctx context.Context, c consumer.Requestor, moves []Placement) error {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = millisLeft(ctx, c)
	req.AllowReplicationFactorChange = true
	for _, m := range moves {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != m.Topic {
			t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
			t.Topic = m.Topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		p.Partition, p.Replicas = m.Partition, m.Replicas
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	resp, err := consumer.Ask[*kmsg.AlterPartitionAssignmentsResponse](ctx, c, req)
	if err != nil {
		return err
	}
	if err := refusal("moves", resp.ErrorCode, resp.ErrorMessage); err != nil {
		return err
	}
	var all refusals
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			all.add(partitionRefusal("", offsets.TopicPartition{Topic: t.Topic, Partition: p.Partition}, p.ErrorCode, p.ErrorMessage))
		}
	}
	return all.deed()
}

// Election is a kind of election of leaders, as Kafka numbers them.
type Election int8

// The kinds: of the first copy, and of any where no complete one is left.
const (
	Preferred Election = 0
	Unclean   Election = 1
)

// Elect has leaders elected of partitions, in order of topic, and returns those
// that were refused. That none was needed is no refusal.
func Elect(ctx context.Context, c consumer.Requestor, kind Election, of []offsets.TopicPartition) (map[offsets.TopicPartition]error, error) {
	req := kmsg.NewPtrElectLeadersRequest()
	req.ElectionType, req.TimeoutMillis = int8(kind), millisLeft(ctx, c)
	req.Topics = []kmsg.ElectLeadersRequestTopic{}
	for _, p := range of {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != p.Topic {
			t := kmsg.NewElectLeadersRequestTopic()
			t.Topic = p.Topic
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p.Partition)
	}
	resp, err := consumer.Ask[*kmsg.ElectLeadersResponse](ctx, c, req)
	if err != nil {
		return nil, err
	}
	if err := refusal("election", resp.ErrorCode, nil); err != nil {
		return nil, err
	}
	refused := map[offsets.TopicPartition]error{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == kerr.ElectionNotNeeded.Code {
				continue
			}
			if err := refusal("", p.ErrorCode, p.ErrorMessage); err != nil {
				refused[offsets.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = err
			}
		}
	}
	return refused, nil
}

// answering is kept of the time of a request for its answer to arrive.
const answering = 500 * time.Millisecond

// millisLeft is how long a broker may take over a request, to answer before nobody
// waits any more: what is left of ctx, or of what one request to the cluster may
// take.
func millisLeft(ctx context.Context, c consumer.Requestor) int32 {
	left := consumer.Patience(c)
	if end, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(end))
	}
	left = max(left-answering, left/2)
	return int32(max(left.Milliseconds(), 1))
}
