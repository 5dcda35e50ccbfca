package consumer

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"
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
