package broker

import "github.com/twmb/franz-go/pkg/kmsg"

// ListPartitionReassignments, version 0 (KIP-455): never any, as
// AlterPartitionReassignments leaves none under way.

func (b *Broker) listPartitionReassignments(r *kmsg.ListPartitionReassignmentsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	m.Default()
	m.Version = r.Version
	return m
}
