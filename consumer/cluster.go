package consumer

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Requestor sends one request and waits for its answer. Of a request that is
// answered in pieces there may be an answer and an error: some brokers answered.
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
	answer, err := AskPieces[T](ctx, c, req)
	if err != nil {
		var none T
		return none, err
	}
	return answer, nil
}

// AskPieces is Ask, and keeps what some brokers answered where others did not.
func AskPieces[T kmsg.Response](ctx context.Context, c Requestor, req kmsg.Request) (T, error) {
	got, err := c.Request(ctx, req)
	answer, ok := got.(T)
	if !ok && err == nil {
		err = fmt.Errorf("%s: an answer of another kind, %T", kmsg.NameForKey(req.Key()), got)
	}
	return answer, err
}
