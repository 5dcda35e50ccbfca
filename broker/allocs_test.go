package broker_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/brokertest"
	"sawlog/broker/record"
)

// replay sends prepared bytes and reads a reply of known length, without
// allocating anything itself.
type replay struct {
	conn  net.Conn
	frame []byte
	reply []byte
}

func newReplay(t testing.TB, addr string, r kmsg.Request) *replay {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // read-only by now
	p := &replay{conn: conn, frame: kmsg.NewRequestFormatter().AppendRequest(nil, r, 1), reply: make([]byte, 4)}
	if _, err := conn.Write(p.frame); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, p.reply); err != nil {
		t.Fatal(err)
	}
	n := int(p.reply[0])<<24 | int(p.reply[1])<<16 | int(p.reply[2])<<8 | int(p.reply[3])
	p.reply = make([]byte, 4+n)
	if _, err := io.ReadFull(conn, p.reply[4:]); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *replay) once(t testing.TB) {
	if _, err := p.conn.Write(p.frame); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(p.conn, p.reply); err != nil {
		t.Fatal(err)
	}
}

// TestProduceAllocations is the gate: a produce request costs at most 10
// allocations and one for each further partition, whatever it carries.
func TestProduceAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	b := brokertest.Start(t, nil)
	c := wireClient(t, b)
	createTopic(t, c, "allocs", 30)
	values := func(n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = strings.Repeat("x", 100)
		}
		return out
	}
	for _, tc := range []struct {
		partitions int32
		records    int
		acks       int16
		most       float64
	}{
		{1, 1, 1, 10}, {1, 1, -1, 10}, {1, 1000, -1, 10}, {30, 10, -1, 10},
	} {
		t.Run(fmt.Sprintf("%d partitions, %d records, acks %d", tc.partitions, tc.records, tc.acks), func(t *testing.T) {
			r := produceTo("allocs", 0, tc.acks, batchOf(t, record.None, now(), values(tc.records)...))
			r.Version = 12
			for p := int32(1); p < tc.partitions; p++ {
				rp := kmsg.NewProduceRequestTopicPartition()
				rp.Partition, rp.Records = p, batchOf(t, record.None, now(), values(tc.records)...)
				r.Topics[0].Partitions = append(r.Topics[0].Partitions, rp)
			}
			p := newReplay(t, b.Addr(), r)
			for range 20 {
				p.once(t) // pools fill
			}
			got := allocations(func() { p.once(t) })
			t.Logf("%.1f allocations", got)
			if got > tc.most {
				t.Errorf("%.1f allocations, at most %.0f are allowed", got, tc.most)
			}
		})
	}
}

// sessionReplay opens a session of n partitions of a topic, and asks again and
// again what is new in it.
type sessionReplay struct {
	*replay
	epoch int // where it stands in the frame
}

func newSessionReplay(t testing.TB, addr, topic string, n int32) *sessionReplay {
	t.Helper()
	open := fetchIn(0, 0)
	for i := range n {
		open.Topics = append(open.Topics, fetchIn(0, 0, want{topic: topic, partition: i}).Topics...)
	}
	p := newReplay(t, addr, open)
	id := int32(binary.BigEndian.Uint32(p.reply[4+4+1+4+2:]))
	if id <= 0 {
		t.Fatalf("session %d", id)
	}
	r := fetchIn(id, 0x01020304)
	p.frame = kmsg.NewRequestFormatter().AppendRequest(p.frame[:0], r, 1)
	s := &sessionReplay{replay: p, epoch: bytes.Index(p.frame, []byte{1, 2, 3, 4})}
	for epoch := range uint32(20) { // pools fill
		s.ask(t, epoch+1)
	}
	return s
}

// ask sends the request of an epoch.
func (s *sessionReplay) ask(t testing.TB, epoch uint32) {
	binary.BigEndian.PutUint32(s.frame[s.epoch:], epoch)
	if _, err := s.conn.Write(s.frame); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(s.conn, s.reply[:4]); err != nil {
		t.Fatal(err)
	}
	n := 4 + int(binary.BigEndian.Uint32(s.reply))
	if n > cap(s.reply) {
		s.reply = append(make([]byte, 0, n), s.reply[:4]...)
	}
	s.reply = s.reply[:n]
	if _, err := io.ReadFull(s.conn, s.reply[4:]); err != nil {
		t.Fatal(err)
	}
	if code := binary.BigEndian.Uint16(s.reply[4+4+1+4:]); code != 0 {
		t.Fatalf("epoch %d: code %d", epoch, code)
	}
}

// allocations of a run, in the best of three rounds: the whole process is counted,
// and the rest of it works, too, while runs take long.
func allocations(run func()) float64 {
	least := testing.AllocsPerRun(200, run)
	for range 2 {
		least = min(least, testing.AllocsPerRun(200, run))
	}
	return least
}

// TestSessionAllocations is the gate of requests inside of a session: an idle
// one costs the same, however many partitions it has.
func TestSessionAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	b := brokertest.Start(t, nil)
	c := wireClient(t, b)
	createTopic(t, c, "idle", 1000)
	createTopic(t, c, "busy", 10)
	big := strings.Repeat("y", 60<<10)
	for i := range int32(10) {
		r := produceTo("busy", i, 1, batchOf(t, record.None, now(), big))
		if got := askAt[*kmsg.ProduceResponse](t, c, 9, r).Topics[0].Partitions[0]; got.ErrorCode != 0 {
			t.Fatal(got.ErrorCode)
		}
	}
	for _, tc := range []struct {
		topic      string
		partitions int32
		most       float64
	}{{"idle", 1, 8}, {"idle", 1000, 8}, {"busy", 1, 20}, {"busy", 10, 120}} {
		t.Run(fmt.Sprintf("%d %s", tc.partitions, tc.topic), func(t *testing.T) {
			p := newSessionReplay(t, b.Addr(), tc.topic, tc.partitions)
			epoch := uint32(20)
			got := allocations(func() { epoch++; p.ask(t, epoch) })
			t.Logf("%.1f allocations", got)
			if got > tc.most {
				t.Errorf("%.1f allocations, at most %.0f are allowed", got, tc.most)
			}
		})
	}
}

// TestFetchAllocations is the gate of a fetch that finds something.
func TestFetchAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	b := brokertest.Start(t, nil)
	c := wireClient(t, b)
	createTopic(t, c, "f", 1)
	big := strings.Repeat("y", 60<<10)
	for range 3 {
		if got := put(t, c, "f", batchOf(t, record.None, now(), big)); got.ErrorCode != 0 {
			t.Fatal(got.ErrorCode)
		}
	}
	p := newReplay(t, b.Addr(), fetchFrom("f", 0, 0))
	for range 20 {
		p.once(t)
	}
	got := allocations(func() { p.once(t) })
	t.Logf("%.1f allocations", got)
	if got > 20 {
		t.Errorf("%.1f allocations, at most 20 are allowed", got)
	}
	if b.Metrics().SendfileBytes == 0 {
		t.Error("nothing was sent by sendfile")
	}
}
