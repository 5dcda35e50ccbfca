package broker_test

import (
	"encoding/binary"
	"io"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/vfs"
	"sawlog/broker/wire"
)

// FuzzRequest sends any body under any key and version: the broker answers,
// waits, or closes the connection, in bounded time; it never panics, and goes on
// serving others.
func FuzzRequest(f *testing.F) {
	for key := range int16(kmsg.MaxKey + 3) {
		r := kmsg.RequestForKey(key)
		if r == nil {
			f.Add(key, int16(0), []byte{0})
			continue
		}
		for version := int16(0); version <= r.MaxVersion(); version++ {
			r.SetVersion(version)
			f.Add(key, version, r.AppendTo(nil))
			f.Add(key, version, filled(key, version).AppendTo(nil))
		}
	}
	network, b := inMemory(f)
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		send(t, network, 50*time.Millisecond, key, version, body)
		if !send(t, network, 10*time.Second, 18, 0, nil) {
			t.Fatal("the broker serves no more")
		}
		if n := b.Metrics().Panics; n != 0 {
			t.Fatalf("%d panics", n)
		}
	})
}

// inMemory starts a broker with network and disk in memory, and a topic of the
// name that filled gives everything.
func inMemory(tb testing.TB) (*brokertest.Network, *broker.Broker) {
	network := brokertest.NewNetwork()
	b := brokertest.Start(tb, func(c *broker.Config) {
		c.FS, c.Dir, c.Listener, c.Advertise, c.Logger = vfs.NewMem(), "/data", network, "broker:9092", nil
	})
	nc, err := network.Dial(tb.Context(), "", "")
	if err != nil {
		tb.Fatal(err)
	}
	c, err := wire.NewConn(tb.Context(), nc, "fuzz")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = c.Close() }() // nothing is asked of it any more
	createTopic(tb, c, fillName, 2)
	return network, b
}

// TestEveryRequestIsAnswered: every key in every version that is advertised,
// empty and filled in, is answered in that version, soon.
func TestEveryRequestIsAnswered(t *testing.T) {
	network, b := inMemory(t)
	dial := func() *wire.Conn {
		nc, err := network.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		c, err := wire.NewConn(within(t), nc, "fuzz")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // it may be closed already
		return c
	}
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.ClientSoftwareName, versions.ClientSoftwareVersion = "fuzz", "1"
	count := 0
	for _, api := range askAt[*kmsg.ApiVersionsResponse](t, dial(), 3, versions).ApiKeys {
		for version := api.MinVersion; version <= api.MaxVersion; version++ {
			if api.ApiKey == 0 && version < 3 {
				continue // advertised and refused
			}
			for name, r := range map[string]kmsg.Request{"empty": kmsg.RequestForKey(api.ApiKey), "filled in": filled(api.ApiKey, version)} {
				r.SetVersion(version)
				count++
				if p, ok := r.(*kmsg.ProduceRequest); ok && name == "empty" {
					p.Acks = 1
				}
				began := time.Now()
				m, err := dial().Exchange(within(t), r)
				if err != nil {
					t.Errorf("%s %d, %s: %v", kmsg.NameForKey(api.ApiKey), version, name, err)
					continue
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("%s %d, %s, took %v", kmsg.NameForKey(api.ApiKey), version, name, took)
				}
				if m.Key() != api.ApiKey || m.GetVersion() != version {
					t.Errorf("%s %d was answered as %s %d", kmsg.NameForKey(api.ApiKey), version, kmsg.NameForKey(m.Key()), m.GetVersion())
				}
			}
		}
	}
	if n := b.Metrics().Panics; n != 0 || count < 300 {
		t.Errorf("%d requests, %d panics", count, n)
	}
}

// fillName is what filled gives every string.
const fillName = "fuzz"

// filled gives every field of a request a value, arrays two elements of them.
func filled(key, version int16) kmsg.Request {
	r := kmsg.RequestForKey(key)
	fill(reflect.ValueOf(r).Elem())
	r.SetVersion(version)
	switch r := r.(type) {
	case *kmsg.ProduceRequest:
		*r = *produceTo(fillName, 0, 1, make([]byte, 80))
		r.Version = version
	case *kmsg.ApiVersionsRequest:
		r.NodeID = 1
	case *kmsg.CreateTopicsRequest: // an assignment and numbers don't go together
		r.Topics[0].ReplicaAssignment = nil
		r.Topics[0].Topic = fillName + "2"
	}
	return r
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "UnknownTags" && v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.String:
		v.SetString(fillName)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	}
}

// send writes one request and an ApiVersions after it, and tells whether the
// latter was answered in time: not so when the first cost the connection, or
// waits.
func send(t *testing.T, network *brokertest.Network, wait time.Duration, key, version int16, body []byte) bool {
	t.Helper()
	c, err := network.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // it may be closed already
	if err := c.SetDeadline(time.Now().Add(wait)); err != nil {
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
