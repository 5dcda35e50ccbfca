package broker_test

import (
	"encoding/binary"
	"io"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/vfs"
)

// FuzzRequest sends any body under any key and version: the broker answers or
// closes the connection, never panics, and goes on serving others.
func FuzzRequest(f *testing.F) {
	for key := range int16(100) {
		r := kmsg.RequestForKey(key)
		if r == nil {
			continue
		}
		for version := int16(0); version <= r.MaxVersion(); version++ {
			r.SetVersion(version)
			f.Add(key, version, filled(r).AppendTo(nil))
		}
	}
	network := brokertest.NewNetwork()
	b := brokertest.Start(f, func(c *broker.Config) {
		c.FS, c.Dir, c.Listener, c.Advertise, c.Logger = vfs.NewMem(), "/data", network, "broker:9092", nil
	})
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		send(t, network, key, version, body)
		if !send(t, network, 18, 0, nil) {
			t.Fatal("the broker serves no more")
		}
		if n := b.Metrics().Panics; n != 0 {
			t.Fatalf("%d panics", n)
		}
	})
}

// filled gives some requests a body that goes further than the empty one.
func filled(r kmsg.Request) kmsg.Request {
	switch r := r.(type) {
	case *kmsg.ProduceRequest:
		*r = *produceTo("fuzz", 0, 1, make([]byte, 80))
	case *kmsg.FetchRequest:
		v := r.Version
		*r = *fetchFrom("fuzz", 0, 0)
		r.Version = v
	case *kmsg.MetadataRequest:
		name := "fuzz"
		r.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	case *kmsg.CreateTopicsRequest:
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = "fuzz2", 2, 1
		r.Topics = []kmsg.CreateTopicsRequestTopic{rt}
	}
	return r
}

// send writes one request and an ApiVersions after it, and tells whether the
// latter was answered: not so when the first cost the connection, or waits.
func send(t *testing.T, network *brokertest.Network, key, version int16, body []byte) bool {
	t.Helper()
	c, err := network.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // it may be closed already
	if err := c.SetDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	id := []byte{255, 255}
	if r := kmsg.RequestForKey(key); r != nil {
		r.SetVersion(version)
		if r.IsFlexible() {
			id = append(id, 0)
		}
	}
	second := frame(18, 0, []byte{255, 255}, nil)
	second[11] = 8 // its correlation id
	go func() { _, _ = c.Write(append(frame(key, version, id, body), second...)) }()
	for {
		var head [8]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return false
		}
		n := int64(binary.BigEndian.Uint32(head[:])) - 4
		if _, err := io.CopyN(io.Discard, c, n); err != nil {
			return false
		}
		switch correlation := binary.BigEndian.Uint32(head[4:]); correlation {
		case 7:
		case 8:
			return true
		default:
			t.Fatalf("correlation id %d", correlation)
		}
	}
}
