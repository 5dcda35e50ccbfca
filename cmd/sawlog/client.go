package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer"
	"sawlog/consumer/admin"
)

// kafka is a client of the brokers a verb talks to. It remembers why the last
// connection failed, since that says more than a deadline does.
type kafka struct {
	*kgo.Client
	ctx     context.Context // of the invocation; a signal ends it
	brokers []string
	timeout time.Duration

	mu       sync.Mutex
	dialFail error
}

// OnBrokerConnect is the client's hook: it keeps the reason of a failed dial.
func (k *kafka) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dialFail = nil; err != nil {
		k.dialFail = fmt.Errorf("%s:%d: %w", meta.Host, meta.Port, consumer.Reason(err))
	}
}

// dial makes a client and proves that a broker answers.
func (a *app) dial(ctx context.Context, opts ...kgo.Opt) (*kafka, error) {
	k := &kafka{ctx: ctx, brokers: a.brokers, timeout: a.timeout}
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(a.brokers...),
		kgo.ClientID("sawlog"),
		kgo.WithHooks(k),
		kgo.DialTimeout(min(a.timeout, 10*time.Second)),
		kgo.RetryTimeout(a.timeout),
		kgo.MetadataMinAge(250 * time.Millisecond),
	}, opts...)
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, output.Errorf(output.Usage, "--brokers %s: %s", strings.Join(a.brokers, ","), err)
	}
	k.Client = client
	pinged, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	if err := client.Ping(pinged); err != nil {
		client.Close()
		return nil, k.explain(err)
	}
	return k, nil
}

// explain turns a client's error into one that names the place and the way out.
func (k *kafka) explain(err error) error {
	if err == nil {
		return nil
	}
	if k.ctx.Err() != nil {
		return context.Cause(k.ctx) // nobody waits for more
	}
	var code *kerr.Error
	if errors.As(err, &code) {
		return &admin.Error{Code: code}
	}
	k.mu.Lock()
	dialFail := k.dialFail
	k.mu.Unlock()
	if dialFail != nil {
		err = dialFail
	}
	if half := k.halfDown(err); half != nil {
		return half
	}
	return &output.Error{
		Code: output.Unavailable, Msg: "no broker answers at " + strings.Join(k.brokers, ","), Err: consumer.Reason(err),
		Hint: "is the server running? sawlog doctor connect " + k.brokers[0],
	}
}

// Request sends to whichever brokers can answer, within the app's timeout, and
// merges their answers.
func (k *kafka) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	resp, err := k.Client.Request(ctx, req)
	return resp, k.explain(err)
}

// Broker is one broker by its id.
func (k *kafka) Broker(id int32) consumer.Requestor { return oneBroker{k, id} }

// Timeout is how long a request may take.
func (k *kafka) Timeout() time.Duration { return k.timeout }

type oneBroker struct {
	k  *kafka
	id int32
}

func (b oneBroker) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, b.k.timeout)
	defer cancel()
	return b.k.Client.Broker(int(b.id)).Request(ctx, req)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
