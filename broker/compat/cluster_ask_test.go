package compat_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/compat/peer"
)

// briefly is how long a broker is given to answer while brokers come to harm.
const briefly = time.Second

// coordinatorOf is the broker that the first to answer names.
func coordinatorOf(c *peer.Cluster, group string) (int32, error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorKey = 2, group
	err := errors.New("nobody answers")
	for _, s := range c.Nodes {
		resp, asked := askOne(s.Addr, req)
		if asked != nil {
			err = asked
			continue
		}
		found := resp.(*kmsg.FindCoordinatorResponse)
		if found.ErrorCode == 0 {
			return found.NodeID, nil
		}
		err = fmt.Errorf("node %d: error %d", s.ID, found.ErrorCode)
	}
	return 0, err
}

// askOne asks a broker over a connection of its own, briefly.
func askOne(addr string, req kmsg.Request) (kmsg.Response, error) {
	return askWithin(addr, req, briefly)
}

func askWithin(addr string, req kmsg.Request, limit time.Duration) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	conn, err := peer.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // its one answer was read
	return conn.Ask(req, limit)
}
