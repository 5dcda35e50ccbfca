package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/broker/controller"
	"sawlog/broker/record"
	"sawlog/broker/replica"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// soup is a house in which things go wrong at random. The rules of its controller
// are those of the real one, as far as a test needs them: a broker that is away
// leaves the ISR, a leader comes from the ISR, and the last member stays.
type soup struct {
	*house
	rnd  *rand.Rand
	down map[offsets.BrokerID]*vfs.Mem // crashed, with what their disks kept

	mu    sync.Mutex
	acked map[string]offsets.Offset
	wg    sync.WaitGroup
}

func TestWhatIsAcknowledgedIsKept(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 12
	}
	acked := 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			s := &soup{
				house: newHouse(t, 1, 1, 2, 3), rnd: rand.New(rand.NewPCG(uint64(seed), 7)),
				down: map[offsets.BrokerID]*vfs.Mem{}, acked: map[string]offsets.Offset{},
			}
			s.lead(0, 1, 1, 2, 3)
			for step := range 80 {
				s.step(step)
			}
			s.heal()
			s.verify()
			acked += len(s.acked)
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
	if acked < 20*seeds {
		t.Errorf("only %d records were acknowledged in %d runs", acked, seeds)
	}
}

// step does one thing, and lets some time go by.
func (s *soup) step(n int) {
	id := offsets.BrokerID(1 + s.rnd.IntN(3))
	switch k := s.rnd.IntN(20); {
	case k < 12:
		s.write(fmt.Sprintf("value %04d", n))
	case k < 14 && s.mayLose(id):
		s.isolate(id)
		s.dismiss(id)
	case k < 16 && s.mayLose(id):
		s.down[id] = s.rooms[id].fs.CrashClone(s.rnd)
		s.shut(id)
		s.dismiss(id)
	case k < 18:
		s.comeBack(id)
	default:
		s.elect()
	}
	time.Sleep(time.Duration(s.rnd.IntN(60)) * time.Millisecond)
}

// write appends where the controller says the leader is, and notes the record
// once it is acknowledged.
func (s *soup) write(value string) {
	leader := s.leader()
	if leader == offsets.NoBroker || !s.rooms[leader].alive {
		return
	}
	ticket, err := s.append(leader, 0, value)
	if err != nil {
		return
	}
	room := s.rooms[leader]
	s.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err := room.awaitCommit(ctx, room.topics.id(houseTopic).partition(0), ticket)
		if err == nil {
			s.mu.Lock()
			s.acked[value] = ticket.End - 1
			s.mu.Unlock()
		} else if !errors.Is(err, replica.ErrNotLeader) && !errors.Is(err, replica.ErrNotEnoughAfterAppend) && room.alive {
			s.t.Errorf("%s: %v", value, err)
		}
	})
}

func (s *soup) leader() offsets.BrokerID {
	s.house.mu.Lock()
	defer s.house.mu.Unlock()
	return s.topic.Partitions[0].Leader
}

// mayLose tells whether a broker may go away: there is somebody else in sync.
func (s *soup) mayLose(id offsets.BrokerID) bool {
	isr := s.isr()
	return s.rooms[id].alive && !s.cut[id] && (!slices.Contains(isr, id) || len(isr) > 1)
}

// dismiss takes a broker out of the ISR, and elects another leader if it led.
func (s *soup) dismiss(id offsets.BrokerID) {
	s.assign(0, func(p *controller.Partition) {
		p.ISR = slices.DeleteFunc(slices.Clone(p.ISR), func(m offsets.BrokerID) bool { return m == id })
		if p.Leader == id {
			p.Leader = p.ISR[s.rnd.IntN(len(p.ISR))]
			p.Epoch++
		}
	})
}

// elect makes another member of the ISR the leader.
func (s *soup) elect() {
	s.assign(0, func(p *controller.Partition) {
		p.Leader = p.ISR[s.rnd.IntN(len(p.ISR))]
		p.Epoch++
	})
}

// comeBack ends what is wrong with a broker.
func (s *soup) comeBack(id offsets.BrokerID) {
	if fs := s.down[id]; fs != nil {
		delete(s.down, id)
		s.open(id, fs)
	}
	s.rejoin(id)
}

func (s *soup) heal() {
	for id := range offsets.BrokerID(3) {
		s.comeBack(id + 1)
	}
	time.Sleep(5 * time.Second)
	s.put(s.leader(), 0, "the last one")
	time.Sleep(time.Second)
	s.wg.Wait()
}

// verify holds the replicas to what was acknowledged.
func (s *soup) verify() {
	s.same(0, 1, 2, 3)
	found := map[string]offsets.Offset{}
	for rest := s.log(1, 0); len(rest) > 0; {
		b, more, err := record.Split(rest)
		if err != nil {
			s.t.Fatal(err)
		}
		rest = more
		at := bytes.Index(b, []byte("value "))
		if at < 0 {
			continue
		}
		value := string(b[at : at+len("value 0000")])
		if _, twice := found[value]; twice {
			s.t.Errorf("%s is there twice", value)
		}
		found[value] = b.BaseOffset()
	}
	for value, at := range s.acked {
		if got, ok := found[value]; !ok || got != at {
			s.t.Errorf("%s was acknowledged at %d: found %v at %d", value, at, ok, got)
		}
	}
}
