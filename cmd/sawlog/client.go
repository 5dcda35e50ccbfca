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
		return kafkaError("", code)
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

// kafkaError gives a Kafka error code its exit code and a way out.
func kafkaError(what string, err *kerr.Error) error {
	e := &output.Error{Code: output.Failed, Msg: strings.TrimSpace(what), Err: fmt.Errorf("%s (%s)", strings.TrimSuffix(err.Description, "."), err.Message)}
	switch err {
	case kerr.UnknownTopicOrPartition, kerr.UnknownTopicID:
		e.Code, e.Err, e.Hint = output.NotFound, fmt.Errorf("no such topic or partition (%s)", err.Message), "sawlog topic list"
	case kerr.GroupIDNotFound:
		e.Code, e.Hint = output.NotFound, "sawlog group list"
	case kerr.TopicAlreadyExists:
		e.Code, e.Err, e.Hint = output.Conflict, fmt.Errorf("it is there already (%s)", err.Message), "sawlog topic alter changes it, sawlog topic describe shows it"
	case kerr.NonEmptyGroup, kerr.GroupSubscribedToTopic:
		e.Code, e.Hint = output.Conflict, "stop the group's members first: sawlog group describe names them"
	case kerr.InvalidUpdateVersion:
		e.Code, e.Hint = output.Conflict, "sawlog cluster brokers names the brokers; all must run the release that knows the level"
	case kerr.InvalidTopicException, kerr.InvalidPartitions, kerr.InvalidReplicationFactor, kerr.InvalidConfig,
		kerr.InvalidRequest, kerr.InvalidReplicaAssignment, kerr.PolicyViolation, kerr.InvalidGroupID:
		e.Code, e.Hint = output.Usage, "sawlog topic describe --all shows a topic's settings, sawlog cluster brokers where copies may be"
	case kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed:
		e.Code, e.Hint = output.Auth, "the brokers ask for a user who may do this"
	case kerr.OffsetOutOfRange:
		e.Code, e.Hint = output.Mismatch, "sawlog topic offsets shows where the log starts and ends"
	default:
		if err.Retriable {
			e.Code, e.Hint = output.Unavailable, "try again; sawlog cluster status tells who answers"
		}
	}
	return e
}

// kafkaCode is nil for code 0; what names the thing the code is about, message
// is what the broker said besides.
func kafkaCode(what string, code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err == nil {
		return nil
	}
	var known *kerr.Error
	if !errors.As(err, &known) {
		return fmt.Errorf("%s: %w", what, err)
	}
	if message != nil && *message != "" {
		wrapped := kafkaError(what, known)
		var e *output.Error
		if errors.As(wrapped, &e) {
			e.Err = fmt.Errorf("%s (%s)", *message, known.Message)
		}
		return wrapped
	}
	return kafkaError(what, known)
}

// ask sends one request, with the app's timeout.
func ask[R kmsg.Response](ctx context.Context, k *kafka, req kmsg.Request) (R, error) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	var zero R
	resp, err := k.Request(ctx, req)
	if err != nil {
		return zero, k.explain(err)
	}
	return resp.(R), nil
}

// metadata describes topics: all of them when none is named.
func (k *kafka) metadata(ctx context.Context, topics ...string) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	req.Topics = nil
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = new(name)
		req.Topics = append(req.Topics, t)
	}
	resp, err := ask[*kmsg.MetadataResponse](ctx, k, req)
	if err != nil {
		return nil, err
	}
	if len(topics) > 0 {
		for _, t := range resp.Topics {
			if err := kafkaCode("topic "+deref(t.Topic), t.ErrorCode, nil); err != nil {
				return nil, err
			}
		}
	}
	return resp, nil
}

// offsetsAt asks for an offset of each partition of a topic: -1 the end, -2 the
// start, else the first with a timestamp at or after the given milliseconds.
func (k *kafka) offsetsAt(ctx context.Context, topic string, partitions []int32, at int64) (map[int32]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for _, p := range partitions {
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition, part.Timestamp, part.CurrentLeaderEpoch = p, at, -1
		t.Partitions = append(t.Partitions, part)
	}
	req.Topics = append(req.Topics, t)
	found := map[int32]int64{}
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	for _, shard := range k.RequestSharded(ctx, req) {
		if shard.Err != nil {
			return nil, k.explain(shard.Err)
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if err := kafkaCode(fmt.Sprintf("offsets of %s/%d", t.Topic, p.Partition), p.ErrorCode, nil); err != nil {
					return nil, err
				}
				found[p.Partition] = p.Offset
			}
		}
	}
	return found, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
