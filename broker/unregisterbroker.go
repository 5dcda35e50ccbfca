package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/offsets"
)

// UnregisterBroker, version 0 (KIP-500): forgets a broker that is gone for good.
// One that serves, or that partitions are still placed on, is kept, which Kafka
// leaves to the caller's care.

func (b *Broker) unregisterBroker(r *kmsg.UnregisterBrokerRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.UnregisterBrokerResponse)
	m.Default()
	m.Version = r.Version
	m.ErrorCode, m.ErrorMessage = codeAndText(b.unregister(offsets.BrokerID(r.BrokerID)))
	return m
}

func (b *Broker) unregister(id offsets.BrokerID) error {
	if br, ok := b.controller.Image().Broker(id); ok && !br.Fenced {
		return refuse(kerr.InvalidRequest, "Broker %d is in service", id)
	}
	ctx, cancel := b.adminContext(0)
	defer cancel()
	return b.controller.UnregisterBroker(ctx, id)
}
