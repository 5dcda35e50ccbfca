package consumer

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Requestor sends one request and waits for its answer.
type Requestor interface {
	Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
}

// Cluster is a Kafka cluster as this package sees it: a request goes to any
// broker that can answer it (requests a cluster answers in pieces, such as
// ListOffsets, are cut by leader and merged), or to one named broker.
type Cluster interface {
	Requestor
	Broker(id int32) Requestor
}
