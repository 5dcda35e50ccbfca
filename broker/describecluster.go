package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeCluster, versions 0–2 (KIP-700): brokers as clients reach them, fenced
// ones only when asked for (KIP-1073). Controllers have no endpoint for clients
// (KIP-919): asking for them is refused.

// Kinds of endpoint a client can ask for.
const (
	brokerEndpoints     = 1
	controllerEndpoints = 2
)

func checkEndpoint(kind int8) error {
	switch kind {
	case brokerEndpoints:
		return nil
	case controllerEndpoints:
		return refuse(kerr.MismatchedEndpointType, "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER")
	}
	return refuse(kerr.UnsupportedEndpointType, "Unsupported endpoint type %d", kind)
}

func (b *Broker) describeCluster(r *kmsg.DescribeClusterRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.DescribeClusterResponse)
	m.ControllerID = -1
	if r.Version >= 1 {
		if err := checkEndpoint(r.EndpointType); err != nil {
			m.ErrorCode, m.ErrorMessage = codeAndText(err)
			return m
		}
	}
	im := b.controller.Image()
	m.ClusterID, m.ControllerID = b.clusterID, int32(b.controllerFor(im))
	if r.IncludeClusterAuthorizedOperations {
		m.ClusterAuthorizedOperations = clusterOperations
	}
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
