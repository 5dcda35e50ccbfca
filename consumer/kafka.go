package consumer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// BatchClient is the prefix of the client ids of batch readers; a Sawlog broker
// limits and caches their reads apart from those of other clients.
const BatchClient = "sawlog-batch/"

const defaultTimeout = 30 * time.Second

// KafkaCluster is a Cluster behind a kgo client: ours or any other.
type KafkaCluster struct {
	client  *kgo.Client
	brokers string
	rack    string
	timeout time.Duration
}

// Rack is where this client is.
func (k *KafkaCluster) Rack() string { return k.rack }

// Timeout is how long a request may take.
func (k *KafkaCluster) Timeout() time.Duration { return k.timeout }

// Dial connects to a cluster and returns once a broker has answered, or with
// ErrUnavailable naming the addresses when none did within the timeout.
func Dial(ctx context.Context, c Config) (*KafkaCluster, error) { return dial(ctx, c) }

func dial(ctx context.Context, c Config, extra ...kgo.Opt) (*KafkaCluster, error) {
	if len(c.Brokers) == 0 {
		return nil, errors.New("no broker address given")
	}
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	id := c.ClientID
	if id == "" {
		id = fmt.Sprintf("%s%d", BatchClient, os.Getpid())
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(id),
		kgo.DialTimeout(min(timeout, 10*time.Second)),
		kgo.RetryTimeout(timeout * 9 / 10),
		kgo.RequestTimeoutOverhead(max(min(timeout, 10*time.Second), 100*time.Millisecond)),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.BrokerMaxReadBytes(1 << 30),
		kgo.DisableClientMetrics(),
	}
	secure, err := security(c)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(slices.Concat(opts, secure, extra)...)
	if err != nil {
		return nil, fmt.Errorf("brokers %s: %w", strings.Join(c.Brokers, ","), err)
	}
	k := &KafkaCluster{client: client, brokers: strings.Join(c.Brokers, ","), rack: c.Rack, timeout: timeout}
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	if _, err := k.Request(ctx, req); err != nil {
		client.Close()
		return nil, err
	}
	return k, nil
}

// Close closes all connections.
func (k *KafkaCluster) Close() { k.client.Close() }

// Request sends to whichever brokers can answer and merges their answers.
func (k *KafkaCluster) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return k.within(ctx, k.brokers, func(ctx context.Context) (kmsg.Response, error) {
		return k.client.Request(ctx, req)
	})
}

// Broker is one broker by its id.
func (k *KafkaCluster) Broker(id int32) Requestor { return kafkaBroker{k, id} }

type kafkaBroker struct {
	k  *KafkaCluster
	id int32
}

func (b kafkaBroker) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return b.k.within(ctx, fmt.Sprintf("broker %d of %s", b.id, b.k.brokers), func(ctx context.Context) (kmsg.Response, error) {
		return b.k.client.Broker(int(b.id)).Request(ctx, req)
	})
}

// within bounds one request by the cluster's timeout and says in the error
// whom it was sent to; beside it stands what other brokers answered.
func (k *KafkaCluster) within(ctx context.Context, whom string, do func(context.Context) (kmsg.Response, error)) (kmsg.Response, error) {
	bounded, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	resp, err := do(bounded)
	switch {
	case err == nil:
		return resp, nil
	case ctx.Err() != nil:
		return resp, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return resp, fmt.Errorf("%w: %s: no answer within %v", ErrUnavailable, whom, k.timeout)
	default:
		return resp, fmt.Errorf("%s: %w", whom, classify(err))
	}
}

// classify puts one of the sentinels into the chain of a request's error.
func classify(err error) error {
	var network net.Error
	var code *kerr.Error
	switch {
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrAuth), errors.Is(err, ErrUnknownTopic):
		return err
	case errors.As(err, &code):
		return classifyCode(code)
	case errors.As(err, &network), isConnectionError(err):
		return fmt.Errorf("%w: %w", ErrUnavailable, Reason(err))
	default:
		return err
	}
}

func isConnectionError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) || kgo.IsRetryableBrokerErr(err) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.EOF) || // a connection closed before its first answer
		strings.Contains(err.Error(), "unknown broker") // kgo's, of a leader it has yet to hear of
}

func classifyCode(code *kerr.Error) error {
	switch code {
	case kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InconsistentTopicID, kerr.InvalidTopicException:
		return fmt.Errorf("%w: %w", ErrUnknownTopic, code)
	case kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState:
		return fmt.Errorf("%w: %w", ErrAuth, code)
	}
	if code.Retriable {
		return fmt.Errorf("%w: %w", ErrUnavailable, code)
	}
	return code
}

func security(c Config) ([]kgo.Opt, error) {
	var opts []kgo.Opt
	if c.TLS {
		conf, err := tlsConfig(c)
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(conf))
	}
	if c.SASL == "" {
		return opts, nil
	}
	secret, err := os.ReadFile(c.PasswordFile)
	if err != nil {
		return nil, fmt.Errorf("password file: %w", err)
	}
	password := strings.TrimRight(string(secret), "\r\n")
	var m sasl.Mechanism
	switch c.SASL {
	case "PLAIN":
		m = plain.Auth{User: c.User, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		m = scram.Auth{User: c.User, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		m = scram.Auth{User: c.User, Pass: password}.AsSha512Mechanism()
	default:
		return nil, fmt.Errorf("sasl mechanism %q: want PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", c.SASL)
	}
	return append(opts, kgo.SASL(m)), nil
}

func tlsConfig(c Config) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca file: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca file %s: no certificate in it", c.CAFile)
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}
