package controller

import (
	"slices"
	"testing"

	"sawlog/offsets"
)

// sessionWorld is a cluster with sessions of 600 ms, looked at every 50.
type sessionWorld struct {
	*testing.T
	*world
	s   *sessions
	now int64
}

func newSessionWorld(t *testing.T, brokers int) *sessionWorld {
	w := &sessionWorld{t, newWorld(), newSessions(600, 0), 0}
	w.join(t, brokers)
	w.look()
	return w
}

// look carries out what is due.
func (w *sessionWorld) look() (changes []BrokerChange) {
	w.Helper()
	changes = w.s.due(w.now, w.image)
	for _, c := range changes {
		if err := w.change(c); err != nil {
			w.Fatal(err)
		}
	}
	return changes
}

// pass lets time go by while some brokers beat.
func (w *sessionWorld) pass(ms int64, beating ...Beat) (changes []BrokerChange) {
	w.Helper()
	for end := w.now + ms; w.now < end; {
		w.now += 50
		for _, b := range beating {
			w.beat(b)
		}
		changes = append(changes, w.look()...)
	}
	return changes
}

func (w *sessionWorld) beat(b Beat) Beaten {
	w.Helper()
	br, _ := w.image.Broker(b.Broker)
	b.Epoch = br.Epoch
	to, err := w.s.beat(w.now, b, w.image)
	if err != nil {
		w.Fatal(err)
	}
	return to
}

func (w *sessionWorld) inService() (ids []offsets.BrokerID) {
	for i := range w.image.Brokers {
		if b := &w.image.Brokers[i]; b.usable() {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

func TestSilentBrokerIsFenced(t *testing.T) {
	w := newSessionWorld(t, 3)
	two := []Beat{{Broker: 1, Applied: 99, WantUnfence: true}, {Broker: 2, Applied: 99, WantUnfence: true}}
	if c := w.pass(600, two...); len(c) > 0 {
		t.Fatalf("%+v before a session has ended", c)
	}
	if w.pass(50, two...); !slices.Equal(w.inService(), []offsets.BrokerID{1, 2}) {
		t.Fatalf("in service: %v", w.inService())
	}
	old := w.image.Index - 1
	if w.pass(300, append(two, Beat{Broker: 3, Applied: old, WantUnfence: true})...); len(w.inService()) != 2 {
		t.Error("a broker that doesn't know it was out is back")
	}
	if w.pass(300, append(two, Beat{Broker: 3, Applied: w.image.Index})...); len(w.inService()) != 2 {
		t.Error("a broker that didn't wish it is back")
	}
	if w.pass(50, append(two, Beat{Broker: 3, Applied: w.image.Index, WantUnfence: true})...); len(w.inService()) != 3 {
		t.Error("a broker that is ready isn't back")
	}
}

// TestSilenceOfTheController: who has not looked for long can't tell whether
// others were silent.
func TestSilenceOfTheController(t *testing.T) {
	w := newSessionWorld(t, 3)
	w.now += 5000
	if c := w.look(); len(c) > 0 {
		t.Fatalf("%+v after the controller stood still", c)
	}
	if w.pass(650, Beat{Broker: 1}, Beat{Broker: 2}); len(w.inService()) != 2 {
		t.Errorf("in service: %v", w.inService())
	}
}

func TestBrokerAloneStays(t *testing.T) {
	w := newSessionWorld(t, 1)
	if c := w.pass(3000); len(c) > 0 {
		t.Errorf("%+v", c)
	}
}

func TestLostProcessIsFencedAtOnce(t *testing.T) {
	w := newSessionWorld(t, 3)
	beats := []Beat{{Broker: 1}, {Broker: 2}, {Broker: 3, WantUnfence: true, Applied: 99}}
	w.pass(100, beats...)
	b, _ := w.image.Broker(3)
	w.s.lost(3, b.Epoch-1)
	if c := w.look(); len(c) > 0 {
		t.Fatalf("%+v for an incarnation of the past", c)
	}
	w.s.lost(3, b.Epoch)
	if c := w.look(); len(c) != 1 || c[0].ID != 3 || !c[0].Fenced {
		t.Fatalf("%+v", c)
	}
	if c := w.pass(200, beats[:2]...); len(c) > 0 {
		t.Errorf("%+v: its last beat brought it back", c)
	}
}

func TestControlledShutdown(t *testing.T) {
	w := newSessionWorld(t, 3)
	if err := w.create(NewTopic{Name: "t", Partitions: 6, ReplicationFactor: 3}); err != nil {
		t.Fatal(err)
	}
	others := []Beat{{Broker: 2, Applied: w.image.Index}, {Broker: 3, Applied: w.image.Index}}
	w.pass(100, append(others, Beat{Broker: 1})...)
	if w.beat(Beat{Broker: 1, WantShutdown: true}).MayShutdown {
		t.Fatal("it leads still")
	}
	w.look()
	if w.image.Load(1).Leading > 0 {
		t.Fatal("it leads when it has begun to leave")
	}
	if w.beat(Beat{Broker: 1, WantShutdown: true}).MayShutdown {
		t.Fatal("the others don't know that it leads nothing")
	}
	others[0].Applied, others[1].Applied = w.image.Index, w.image.Index
	w.beat(others[0])
	if w.beat(Beat{Broker: 1, WantShutdown: true}).MayShutdown {
		t.Fatal("one of the others doesn't know")
	}
	w.beat(others[1])
	if !w.beat(Beat{Broker: 1, WantShutdown: true}).MayShutdown {
		t.Fatal("all know")
	}
}

// TestFullDisk: a broker leads nothing that others can, from when it says that its
// disk is full until it says that it isn't. Who takes over as controller knows
// nothing new of that until the broker is heard.
func TestFullDisk(t *testing.T) {
	w := newSessionWorld(t, 3)
	if err := w.create(NewTopic{Name: "t", Partitions: 6, ReplicationFactor: 3}); err != nil {
		t.Fatal(err)
	}
	others := []Beat{{Broker: 2, WantUnfence: true}, {Broker: 3, WantUnfence: true}}
	if w.pass(50, append(others, Beat{Broker: 1, WantUnfence: true, Full: true})...); w.image.Load(1).Leading > 0 {
		t.Fatal("it leads still")
	}
	w.s = newSessions(600, w.now)
	if c := w.look(); len(c) > 0 {
		t.Fatalf("%+v by a new controller that heard nobody", c)
	}
	if w.pass(50, append(others, Beat{Broker: 1, WantUnfence: true})...); len(w.inService()) != 3 {
		t.Fatal("it isn't back")
	}
}

// TestFullNeedsItsLevel: that a disk is full is not written while nodes may be
// there that couldn't read it, and is as soon as the level is raised.
func TestFullNeedsItsLevel(t *testing.T) {
	w := newSessionWorld(t, 2)
	full := Beat{Broker: 1, WantUnfence: true, Full: true}
	if b, _ := w.image.Broker(1); b != nil {
		full.Epoch = b.Epoch
	}
	w.image.FormatLevel = oldestLevel
	if _, err := w.s.beat(w.now, full, w.image); err != nil {
		t.Fatal(err)
	}
	if changes := w.look(); len(changes) != 0 {
		t.Errorf("at level %d: %+v", oldestLevel, changes)
	}
	w.image.FormatLevel = fullLevel
	if changes := w.look(); len(changes) != 1 || !changes[0].Full {
		t.Errorf("at level %d: %+v", fullLevel, changes)
	}
}
