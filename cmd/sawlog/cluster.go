package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/cmd/sawlog/output"
)

func (a *app) clusters() *cobra.Command {
	c := &cobra.Command{
		Use: "cluster", Short: "Show a cluster, move its partitions and their leaders",
		Example: "  sawlog cluster status\n  sawlog cluster drain 3 --dry-run",
	}
	c.AddCommand(a.clusterStatus(), a.clusterBrokers(), a.clusterDrain(), a.clusterMove(), a.clusterElect(), a.clusterForget(), a.clusterUpgrade(), a.clusterKey())
	return c
}

// fleet is a cluster at one moment, as its brokers tell it.
type fleet struct {
	id         string
	controller int32
	brokers    []fleetBroker
	partitions []fleetPartition // by topic and number
}

type fleetBroker struct {
	ID      int32
	Addr    string
	Rack    string
	Fenced  bool
	Leads   int
	Holds   int
	Prefers int // partitions it leads when all brokers are up
}

// fleetPartition is a partition and where its copies are.
type fleetPartition struct {
	Topic            string
	Partition        int32
	Internal         bool
	Leader           int32 // -1 = none
	Replicas, ISR    []int32
	Adding, Removing []int32 // by a reassignment under way
}

func (p *fleetPartition) name() string { return fmt.Sprintf("%s/%d", p.Topic, p.Partition) }

func (p *fleetPartition) moving() bool { return len(p.Adding)+len(p.Removing) > 0 }

// target is where the copies will be once the reassignment is done.
func (p *fleetPartition) target() []int32 { return without(p.Replicas, p.Removing...) }

// settled is where they are supposed to be before that.
func (p *fleetPartition) settled() []int32 { return without(p.Replicas, p.Adding...) }

// lacking tells whether a copy that should be complete is not.
func (p *fleetPartition) lacking() bool { return len(without(p.settled(), p.ISR...)) > 0 }

// without is a list without some of its elements.
func without(list []int32, gone ...int32) []int32 {
	return slices.DeleteFunc(slices.Clone(list), func(id int32) bool { return slices.Contains(gone, id) })
}

// fleet connects to a cluster and looks at it.
func (a *app) fleet(ctx context.Context) (*kafka, *fleet, error) {
	k, err := a.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	f, err := k.fleet(ctx)
	if err != nil {
		k.Close()
		return nil, nil, err
	}
	return k, f, nil
}

// fleet asks for the cluster, its brokers and where its partitions are.
func (k *kafka) fleet(ctx context.Context) (*fleet, error) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType, req.IncludeFencedBrokers = 1, true
	resp, err := ask[*kmsg.DescribeClusterResponse](ctx, k, req)
	if err != nil {
		return nil, err
	}
	if err := kafkaCode("cluster", resp.ErrorCode, resp.ErrorMessage); err != nil {
		return nil, err
	}
	f := &fleet{id: resp.ClusterID, controller: resp.ControllerID}
	for _, b := range resp.Brokers {
		f.brokers = append(f.brokers, fleetBroker{ID: b.NodeID, Addr: fmt.Sprintf("%s:%d", b.Host, b.Port), Rack: deref(b.Rack), Fenced: b.IsFenced})
	}
	slices.SortFunc(f.brokers, func(a, b fleetBroker) int { return cmp.Compare(a.ID, b.ID) })
	meta, err := k.metadataOf(ctx, f.controller)
	if err != nil {
		return nil, err
	}
	moves, err := k.reassignments(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range meta.Topics {
		for _, p := range t.Partitions {
			at := fleetPartition{
				Topic: deref(t.Topic), Partition: p.Partition, Internal: t.IsInternal,
				Leader: p.Leader, Replicas: p.Replicas, ISR: p.ISR,
			}
			if m, ok := moves[at.name()]; ok {
				at.Adding, at.Removing = m.AddingReplicas, m.RemovingReplicas
			}
			f.partitions = append(f.partitions, at)
		}
	}
	slices.SortFunc(f.partitions, func(a, b fleetPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	f.count()
	return f, nil
}

// metadataOf asks the active controller, who knows a change first, for all
// topics, and any broker where that one can't be reached.
func (k *kafka) metadataOf(ctx context.Context, controller int32) (*kmsg.MetadataResponse, error) {
	if controller >= 0 {
		req := kmsg.NewPtrMetadataRequest()
		req.AllowAutoTopicCreation = false
		asked, cancel := context.WithTimeout(ctx, k.timeout)
		defer cancel()
		if resp, err := k.Broker(int(controller)).Request(asked, req); err == nil {
			return resp.(*kmsg.MetadataResponse), nil
		}
	}
	return k.metadata(ctx)
}

// count adds up what each broker carries.
func (f *fleet) count() {
	for i := range f.partitions {
		p := &f.partitions[i]
		for at, id := range p.target() {
			b := f.broker(id)
			if b == nil {
				continue
			}
			b.Holds++
			if at == 0 {
				b.Prefers++
			}
		}
		if b := f.broker(p.Leader); b != nil {
			b.Leads++
		}
	}
}

// broker is nil for one the cluster does not know.
func (f *fleet) broker(id int32) *fleetBroker {
	i := slices.IndexFunc(f.brokers, func(b fleetBroker) bool { return b.ID == id })
	if i < 0 {
		return nil
	}
	return &f.brokers[i]
}

// up tells whether a broker is in service.
func (f *fleet) up(id int32) bool {
	b := f.broker(id)
	return b != nil && !b.Fenced
}

// mustKnow is an error for a broker the cluster does not know.
func (f *fleet) mustKnow(id int32) error {
	if f.broker(id) != nil {
		return nil
	}
	return output.Errorf(output.NotFound, "no broker %d in the cluster", id).WithHint("sawlog cluster brokers")
}

// reassignments are the moves under way, by TOPIC/PARTITION.
func (k *kafka) reassignments(ctx context.Context) (map[string]kmsg.ListPartitionReassignmentsResponseTopicPartition, error) {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	req.TimeoutMillis = int32(k.timeout.Milliseconds())
	resp, err := ask[*kmsg.ListPartitionReassignmentsResponse](ctx, k, req)
	if err != nil {
		return nil, err
	}
	if err := kafkaCode("reassignments", resp.ErrorCode, resp.ErrorMessage); err != nil {
		return nil, err
	}
	moves := map[string]kmsg.ListPartitionReassignmentsResponseTopicPartition{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			moves[fmt.Sprintf("%s/%d", t.Topic, p.Partition)] = p
		}
	}
	return moves, nil
}

// minISR asks how many copies some topics want in sync before a record with
// acks=all is taken.
func (k *kafka) minISR(ctx context.Context, topics []string) (map[string]int, error) {
	found := map[string]int{}
	if len(topics) == 0 {
		return found, nil
	}
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, topic := range topics {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{"min.insync.replicas"}
		req.Resources = append(req.Resources, r)
	}
	resp, err := ask[*kmsg.DescribeConfigsResponse](ctx, k, req)
	if err != nil {
		return nil, err
	}
	for _, r := range resp.Resources {
		if r.ErrorCode == kerr.UnknownTopicOrPartition.Code {
			continue // deleted meanwhile
		}
		if err := kafkaCode("configs of "+r.ResourceName, r.ErrorCode, r.ErrorMessage); err != nil {
			return nil, err
		}
		for _, c := range r.Configs {
			n := 0
			if _, err := fmt.Sscan(deref(c.Value), &n); err == nil {
				found[r.ResourceName] = n
			}
		}
	}
	return found, nil
}
