package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestProofHostileBytes floods the server with random and mutated requests from
// many connections, SAWLOG_HOSTILE_MIB of them (48), while a client works on: it
// loses nothing, is answered in time, the server's memory stays bounded, and
// nothing panics.
func TestProofHostileBytes(t *testing.T) {
	t.Parallel()
	total := int64(48)
	if v := os.Getenv("SAWLOG_HOSTILE_MIB"); v != "" {
		var err error
		if total, err = strconv.ParseInt(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	n := startNode(t)
	const topic = "peace"
	n.run("topic", "create", topic, "--partitions", "2")
	s := n.stream(topic, 2, 5*time.Millisecond)
	slowest := n.pings(t)

	versions, err := kmsg.NewPtrApiVersionsRequest().RequestWith(t.Context(), n.client())
	if err != nil {
		t.Fatal(err)
	}
	var left atomic.Int64
	left.Store(total << 20)
	began := time.Now()
	var all sync.WaitGroup
	var frames, answers atomic.Int64
	for i := range 16 {
		all.Go(func() {
			h := &hostile{rnd: rand.New(rand.NewPCG(uint64(i), 77)), addr: n.listen, apis: versions.ApiKeys}
			for left.Load() > 0 && !t.Failed() {
				sent, err := h.attack()
				if err != nil {
					t.Errorf("attacker %d: the broker takes no connection any more: %v", i, err)
				}
				left.Add(-sent)
			}
			frames.Add(h.frames)
			answers.Add(h.answers)
		})
	}
	all.Wait()
	took := time.Since(began)

	acked, failed := s.end(t)
	if len(failed) > 0 {
		t.Errorf("%d records of the other client failed", len(failed))
	}
	if len(acked) < 100 {
		t.Errorf("the other client sent %d records meanwhile", len(acked))
	}
	slow := slowest()
	if slow > 10*time.Second {
		t.Errorf("another client waited %s for the list of topics", slow)
	}
	peak := peakMemory(t, n.cmd.Process.Pid)
	if peak > 640<<20 {
		t.Errorf("the server took %d MiB at its peak", peak>>20)
	}
	if answers.Load() == 0 {
		t.Error("not one frame was answered: nothing got past the first checks")
	}
	if panics := n.metric(t, "sawlog_request_panics_total"); panics != 0 {
		t.Errorf("%g panics", panics)
	}
	checkLog(t, n.readAll(topic), acked)
	t.Logf("%d MiB in %d frames, %d of them answered, in %s; peak memory %d MiB; slowest answer to another client %s",
		total, frames.Load(), answers.Load(), took.Round(time.Millisecond), peak>>20, slow.Round(time.Millisecond))
}

// metric reads one number of the server's.
func (n *node) metric(t *testing.T, name string) float64 {
	t.Helper()
	resp, err := http.Get("http://" + n.web + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return number
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// pings asks for metadata on a connection of its own until the returned
// function is called, which tells the longest time an answer took.
func (n *node) pings(t *testing.T) func() time.Duration {
	t.Helper()
	conn, err := net.Dial("tcp", n.listen)
	if err != nil {
		t.Fatal(err)
	}
	stop, longest := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var most time.Duration
		defer func() { longest <- most }()
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond): // the pace of a client
			}
			began := time.Now()
			_ = conn.SetDeadline(began.Add(30 * time.Second))
			_, err := conn.Write(frame(3, 1, 0, 0, 0, 0))
			var head [4]byte
			if err == nil {
				_, err = io.ReadFull(conn, head[:])
			}
			if err == nil {
				_, err = io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head[:])))
			}
			if err != nil {
				t.Errorf("another connection was hurt: %v", err)
				return
			}
			most = max(most, time.Since(began))
		}
	}()
	return func() time.Duration {
		close(stop)
		most := <-longest
		_ = conn.Close()
		return most
	}
}

// hostile is one attacker.
type hostile struct {
	rnd     *rand.Rand
	addr    string
	apis    []kmsg.ApiVersionsResponseApiKey // what the server says it serves
	frames  int64
	answers int64
}

// attack sends some frames over one connection, until the server hangs up.
func (h *hostile) attack() (int64, error) {
	conn, err := net.DialTimeout("tcp", h.addr, 10*time.Second)
	if err != nil {
		return 0, err
	}
	done := make(chan int64)
	go func() {
		var answers int64
		defer func() { done <- answers }()
		for {
			var head [4]byte
			if _, err := io.ReadFull(conn, head[:]); err != nil {
				return
			}
			if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head[:]))); err != nil {
				return
			}
			answers++
		}
	}()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	var sent int64
	for range 1 + h.rnd.IntN(20) {
		raw := h.frame()
		wrote, err := conn.Write(raw)
		sent += int64(wrote)
		h.frames++
		if err != nil {
			break
		}
	}
	if tcp, ok := conn.(*net.TCPConn); ok && h.rnd.IntN(2) == 0 {
		_ = tcp.CloseWrite() // let it answer first
	} else {
		_ = conn.SetDeadline(time.Now().Add(time.Duration(h.rnd.IntN(20)) * time.Millisecond))
	}
	h.answers += <-done
	_ = conn.Close()
	return sent, nil
}

// frame is a request that is random, or was right before it was changed.
func (h *hostile) frame() []byte {
	key, version, body := h.request()
	switch h.rnd.IntN(24) { // most stay as they are, so that later ones are read at all
	case 0: // any body under any key
		body = h.noise(1 << h.rnd.IntN(18))
		key, version = int16(h.rnd.IntN(100)-2), int16(h.rnd.IntN(20)-2)
	case 1: // bits flipped
		for range 1 + h.rnd.IntN(8) {
			if len(body) > 0 {
				body[h.rnd.IntN(len(body))] ^= 1 << h.rnd.IntN(8)
			}
		}
	case 2: // cut off
		body = body[:h.rnd.IntN(len(body)+1)]
	case 3: // a count that promises far too much
		for _, v := range []uint32{math.MaxInt32, 1 << 20, 0xffffffff, 0x80000000} {
			if len(body) >= 4 && h.rnd.IntN(2) == 0 {
				binary.BigEndian.PutUint32(body[h.rnd.IntN(len(body)-3):], v)
			}
		}
	case 4: // a part put twice
		if len(body) > 2 {
			from := h.rnd.IntN(len(body) - 1)
			body = append(body, body[from:]...)
		}
	case 5: // far too long
		body = append(body, h.noise(1<<(4+h.rnd.IntN(16)))...)
	}
	raw := frame(key, version, body...)
	if h.rnd.IntN(20) == 0 { // a size that lies
		binary.BigEndian.PutUint32(raw, h.rnd.Uint32()>>h.rnd.IntN(24))
	}
	return raw
}

// request is a well-formed one with whatever in its fields.
func (h *hostile) request() (key, version int16, body []byte) {
	for {
		served := h.apis[h.rnd.IntN(len(h.apis))]
		r := kmsg.RequestForKey(served.ApiKey)
		if h.rnd.IntN(20) == 0 {
			r = kmsg.RequestForKey(int16(h.rnd.IntN(100)))
		}
		if r == nil {
			continue
		}
		r.SetVersion(served.MinVersion + int16(h.rnd.IntN(int(served.MaxVersion-served.MinVersion)+1)))
		h.fill(reflect.ValueOf(r).Elem(), 0)
		if r.IsFlexible() {
			body = []byte{0}
		}
		return r.Key(), r.GetVersion(), r.AppendTo(body)
	}
}

// fill sets all fields but the version.
func (h *hostile) fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "Version" && f.Name != "UnknownTags" {
				h.fill(v.Field(i), depth)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(h.noise(h.rnd.IntN(200)))
			return
		}
		count := h.rnd.IntN(4)
		if h.rnd.IntN(50) == 0 && depth < 2 {
			count = h.rnd.IntN(2000)
		}
		v.Set(reflect.MakeSlice(v.Type(), count, count))
		for i := range count {
			h.fill(v.Index(i), depth+1)
		}
	case reflect.Pointer:
		if h.rnd.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			h.fill(v.Elem(), depth)
		}
	case reflect.Array:
		for i := range v.Len() {
			h.fill(v.Index(i), depth)
		}
	case reflect.String:
		v.SetString(h.name())
	case reflect.Bool:
		v.SetBool(h.rnd.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(h.number() << (64 - v.Type().Bits()) >> (64 - v.Type().Bits()))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(h.rnd.Uint64() >> (64 - v.Type().Bits()))
	case reflect.Float64:
		v.SetFloat(h.rnd.NormFloat64())
	}
}

func (h *hostile) number() int64 {
	switch h.rnd.IntN(6) {
	case 0:
		return -1
	case 1:
		return math.MaxInt64 >> (8 * h.rnd.IntN(8))
	case 2:
		return h.rnd.Int64() - h.rnd.Int64()
	default:
		return int64(h.rnd.IntN(8))
	}
}

func (h *hostile) name() string {
	switch h.rnd.IntN(5) {
	case 0:
		return ""
	case 1:
		return string(h.noise(h.rnd.IntN(40)))
	default:
		return fmt.Sprintf("victim-%d", h.rnd.IntN(6))
	}
}

func (h *hostile) noise(n int) []byte {
	b := make([]byte, n)
	for i := 0; i+8 <= n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], h.rnd.Uint64())
	}
	return b
}
