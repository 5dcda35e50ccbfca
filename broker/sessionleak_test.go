package broker

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"sawlog/broker/log"
	"sawlog/broker/replica"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// TestSessionsLeaveNothingBehind closes sessions in every way there is: none may
// stay on the list of a partition's waiters, which would keep it for ever.
func TestSessionsLeaveNothingBehind(t *testing.T) {
	disk, err := log.OpenDisk(vfs.NewMem(), "/data", log.DiskConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	}()
	l, err := disk.Create(offsets.TopicPartition{Topic: "t"}, offsets.TopicID{1}, log.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	p := replica.New(1, l, nil)
	for name, end := range map[string]func(f *fetchSessions, s *fetchSession, st *fetchState){
		"closed": func(f *fetchSessions, s *fetchSession, st *fetchState) {
			s.leave(st)
			f.closeID(s.slot.id)
		},
		"closed under its owner": func(f *fetchSessions, s *fetchSession, st *fetchState) {
			f.closeID(s.slot.id)
			s.leave(st)
		},
		"forgotten": func(f *fetchSessions, s *fetchSession, st *fetchState) {
			s.follow(s.state.forget(offsets.TopicID{}, []byte("t"), 0), nil, 0)
			s.leave(st)
			f.cache.remove(s.slot.id)
		},
		"evicted": func(f *fetchSessions, s *fetchSession, st *fetchState) {
			s.leave(st)
			if f.open(&fetchState{}, 2, 10*sessionIdle) == nil {
				t.Error("a stale one didn't give way")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFetchSessions()
			f.cache.slots = 1
			gone := func() weak.Pointer[fetchSession] {
				st := &fetchState{version: 12}
				s := f.open(st, 1, 0)
				part := s.state.put(s.state.topic(offsets.TopicID{}, []byte("t")), sessionAsk{})
				s.follow(part, p, p.View().Version)
				p.Trimmed() // wakes it
				if !s.stirred() {
					t.Fatal("it hears nothing")
				}
				end(f, s, st)
				return weak.Make(s)
			}()
			for deadline := time.Now().Add(5 * time.Second); gone.Value() != nil; runtime.GC() {
				if time.Now().After(deadline) {
					t.Fatal("something still holds the session")
				}
			}
		})
	}
}
