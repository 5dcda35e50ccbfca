package consumer

import (
	"context"
	"fmt"

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

// Ask sends a request and sees that the answer is of its kind.
func Ask[T kmsg.Response](ctx context.Context, c Requestor, req kmsg.Request) (T, error) {
	var none T
	got, err := c.Request(ctx, req)
	if err != nil {
		return none, err
	}
	answer, ok := got.(T)
	if !ok {
		return none, fmt.Errorf("%s: an answer of another kind, %T", kmsg.NameForKey(req.Key()), got)
	}
	return answer, nil
}
