package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeCluster, versions 0–2 (KIP-700): brokers as clients reach them, fenced
// ones only when asked for (KIP-1073). Controllers have no endpoint for clients
// (KIP-919): asking for them is refused.

const brokerEndpoints = 1

func (b *Broker) describeCluster(r *kmsg.DescribeClusterRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.DescribeClusterResponse)
	m.Default()
	m.Version = r.Version
	m.ClusterID = b.clusterID
	m.ControllerID = int32(b.controller.Leader())
	if r.Version >= 1 {
		m.EndpointType = r.EndpointType
		if r.EndpointType != brokerEndpoints {
			m.ErrorCode, m.ErrorMessage = codeAndText(kerr.UnsupportedEndpointType)
			return m
		}
	}
	if r.IncludeClusterAuthorizedOperations {
		m.ClusterAuthorizedOperations = clusterOperations
	}
	im := b.controller.Image()
	for i := range im.Brokers {
		br := &im.Brokers[i]
		host, port, ok := b.endpoint(br)
		if !ok || br.Fenced && !r.IncludeFencedBrokers {
			continue
		}
		m.Brokers = append(m.Brokers, kmsg.DescribeClusterResponseBroker{
			NodeID: int32(br.ID), Host: host, Port: port, Rack: optional(br.Rack), IsFenced: br.Fenced,
		})
	}
	return m
}
