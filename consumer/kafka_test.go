package consumer

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A port nobody listens on, and one that never answers.
func TestDialUnreachable(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for name, addr := range map[string]string{"closed": addr, "silent": silent.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			c, err := Dial(t.Context(), Config{Brokers: []string{addr}, Timeout: 400 * time.Millisecond})
			if err == nil {
				c.Close()
				t.Fatal("dialled a broker that is not there")
			}
			if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), addr) {
				t.Errorf("%v: want unavailable, with %s in it", err, addr)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestDialRefusesBadSettings(t *testing.T) {
	for _, c := range []Config{
		{},
		{Brokers: []string{"127.0.0.1:1"}, SASL: "PLAIN", PasswordFile: "/nonexistent"},
		{Brokers: []string{"127.0.0.1:1"}, TLS: true, CAFile: "/nonexistent"},
	} {
		if k, err := Dial(t.Context(), c); err == nil {
			k.Close()
			t.Errorf("%+v was taken", c)
		}
	}
}

// TestPiecesStandBesideErrors: what some brokers answered is kept, whyever others
// did not; Ask takes all or nothing.
func TestPiecesStandBesideErrors(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		ctx context.Context
		err error
	}{{t.Context(), context.DeadlineExceeded}, {t.Context(), kerr.LeaderNotAvailable}, {t.Context(), nil}, {ended, context.Canceled}} {
		some := kmsg.NewPtrDeleteRecordsResponse()
		k := answering(func(context.Context) (kmsg.Response, error) {
			return (&KafkaCluster{timeout: time.Second}).within(c.ctx, "x", func(context.Context) (kmsg.Response, error) { return some, c.err })
		})
		got, err := AskPieces[*kmsg.DeleteRecordsResponse](t.Context(), k, kmsg.NewPtrDeleteRecordsRequest())
		if got != some || (err == nil) != (c.err == nil) {
			t.Errorf("%v: %v %v", c.err, got, err)
		}
		if all, err := Ask[*kmsg.DeleteRecordsResponse](t.Context(), k, kmsg.NewPtrDeleteRecordsRequest()); (all == nil) != (c.err != nil) || (err == nil) != (c.err == nil) {
			t.Errorf("%v: %v %v", c.err, all, err)
		}
		if other, err := AskPieces[*kmsg.FetchResponse](t.Context(), k, kmsg.NewPtrFetchRequest()); other != nil || err == nil {
			t.Errorf("an answer of another kind: %v %v", other, err)
		}
	}
}

// answering is a cluster of one answer.
type answering func(context.Context) (kmsg.Response, error)

func (a answering) Request(ctx context.Context, _ kmsg.Request) (kmsg.Response, error) { return a(ctx) }
