package wire

import (
	"container/list"
	"context"
	"sync"
)

// bytesSemaphore bounds the bytes of all requests in flight. Waiters are served
// in order of arrival, so a large request isn't starved by small ones.
type bytesSemaphore struct {
	mu      sync.Mutex
	free    int64
	size    int64
	waiters list.List // of *bytesWaiter
}

type bytesWaiter struct {
	n     int64
	ready chan struct{}
}

func newBytesSemaphore(size int64) *bytesSemaphore {
	return &bytesSemaphore{free: size, size: size}
}

// try is acquire when nobody need wait.
func (s *bytesSemaphore) try(n int64) (int64, bool) {
	n = min(n, s.size)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiters.Len() > 0 || s.free < n {
		return 0, false
	}
	s.free -= n
	return n, true
}

// acquire takes n bytes, never more than the semaphore's size, and returns what
// it took.
func (s *bytesSemaphore) acquire(ctx context.Context, n int64) (int64, error) {
	n = min(n, s.size)
	if n, ok := s.try(n); ok {
		return n, nil
	}
	s.mu.Lock()
	w := &bytesWaiter{n: n, ready: make(chan struct{})}
	at := s.waiters.PushBack(w)
	s.grant()
	s.mu.Unlock()
	select {
	case <-w.ready:
		return n, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	select {
	case <-w.ready: // granted between the two selects: give it back
		s.free += n
	default:
		s.waiters.Remove(at)
	}
	s.grant()
	s.mu.Unlock()
	return 0, ctx.Err()
}

func (s *bytesSemaphore) release(n int64) {
	s.mu.Lock()
	s.free += n
	s.grant()
	s.mu.Unlock()
}

// grant serves waiters from the front while bytes last. Called with mu held.
func (s *bytesSemaphore) grant() {
	for at := s.waiters.Front(); at != nil; at = s.waiters.Front() {
		w := at.Value.(*bytesWaiter)
		if s.free < w.n {
			return
		}
		s.free -= w.n
		s.waiters.Remove(at)
		close(w.ready)
	}
}
