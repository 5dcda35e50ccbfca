package controller

import (
	"context"
	"errors"

	"sawlog/broker/peer"
	"sawlog/offsets"
)

// Beat is what a broker says of itself again and again, to stay in service.
type Beat struct {
	Broker       offsets.BrokerID
	Epoch        int64
	Applied      uint64 // index of the broker's image
	WantUnfence  bool   // it is ready to serve
	WantShutdown bool   // it wants to leave in good order
}

// Beaten is the answer to a Beat.
type Beaten struct {
	Fenced      bool // it is out of service
	MayShutdown bool // it leads nothing, and the others know
}

// Heartbeat tells the active controller that a broker lives.
func (c *Controller) Heartbeat(ctx context.Context, b Beat) (Beaten, error) {
	return Beaten{}, errors.ErrUnsupported
}

// serveBeat answers another node's broker.
func (c *Controller) serveBeat(ctx context.Context, _ peer.Identity, body []byte) ([]byte, error) {
	return nil, errors.ErrUnsupported
}
