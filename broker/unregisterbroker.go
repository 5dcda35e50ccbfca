package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
	"sawlog/offsets"
)

// UnregisterBroker, version 0 (KIP-500): forgets a broker that is gone for good,
// and its node's part in the metadata quorum. One whose process runs, or that
// partitions are still placed on, is kept, which Kafka leaves to the caller's
// care.

func (b *Broker) unregisterBroker(r *kmsg.UnregisterBrokerRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.UnregisterBrokerResponse)
	m.ErrorCode, m.ErrorMessage = codeAndText(b.unregister(offsets.BrokerID(r.BrokerID)))
	return m
}

func (b *Broker) unregister(id offsets.BrokerID) error {
	ctx, cancel := b.adminContext(0)
	defer cancel()
	err := b.controller.UnregisterBroker(ctx, id)
	if errors.Is(err, controller.ErrDuplicateBroker) { // it runs
		return refuse(kerr.InvalidRequest, "%s", err)
	}
	return err
}
