package consumer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A second's worth goes at once, and from then on no more than the rate, however
// large the fetches are.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 1 << 20
		p := NewPace(rate)
		began := time.Now()
		for range 40 {
			if err := p.hold(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.fetched(rate / 4)
		}
		// 10 s worth: the first second and the last fetch are not waited for.
		if took := time.Since(began); took < 8700*time.Millisecond || took > 9100*time.Millisecond {
			t.Errorf("ten seconds' worth took %v", took)
		}
		if held := p.Held(); held != time.Since(began) || p.Bytes() != 10*rate {
			t.Errorf("held %v of %v, %d bytes", held, time.Since(began), p.Bytes())
		}
		// A fetch of ten seconds' worth is paid off before the next.
		p.fetched(10 * rate)
		began = time.Now()
		if err := p.hold(t.Context()); err != nil || time.Since(began) < 9*time.Second {
			t.Errorf("after a large fetch: %v, %v", time.Since(began), err)
		}
		// Time without fetches doesn't save up more than a second's worth.
		time.Sleep(time.Hour)
		p.fetched(0)
		if p.pause(time.Now()) != 0 {
			t.Error("waits after an hour")
		}
		p.fetched(2 * rate)
		if pause := p.pause(time.Now()); pause < 900*time.Millisecond || pause > 1100*time.Millisecond {
			t.Errorf("pause %v after two seconds' worth", pause)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.hold(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("hold in a context that ended: %v", err)
		}
	})
}

func TestPaceWithoutARate(t *testing.T) {
	p := NewPace(0)
	p.fetched(1 << 40)
	if err := p.hold(t.Context()); err != nil || p.Held() != 0 || p.Bytes() != 1<<40 || p.most(7<<20) != 7<<20 {
		t.Errorf("%v, held %v, %d bytes", err, p.Held(), p.Bytes())
	}
	slow := NewPace(1000)
	if got := slow.most(4 << 20); got != leastFetch {
		t.Errorf("a slow reader fetches %d bytes at a time", got)
	}
}
