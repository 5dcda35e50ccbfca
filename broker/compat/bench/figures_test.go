package bench

import (
	"os"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

// TestClockOfAProcess holds the clock the figures come from against getrusage.
func TestClockOfAProcess(t *testing.T) {
	self := &target{Server: &peer.Server{Name: "this process", PID: os.Getpid()}}
	for begin := own(); own()-begin < 50*time.Millisecond; { // spend some
	}
	before, got, after := own(), self.cpu(t), own()
	// getrusage may lag by a tick.
	if got < before-clockTick || got > after+clockTick {
		t.Errorf("the clock says %v, getrusage %v to %v", got, before, after)
	}
}

func TestSpread(t *testing.T) {
	s := spreadOf([]float64{0.5, 0.4, 0.6, 0.45, 0.55})
	if s.Median != 0.5 || s.Min != 0.4 || s.Max != 0.6 {
		t.Errorf("%+v", s)
	}
	if s.Low < s.Min || s.Low > s.Median || s.High < s.Median || s.High > s.Max {
		t.Errorf("interval [%v, %v] of %+v", s.Low, s.High, s)
	}
	if one := spreadOf([]float64{2}); one != (spread{2, 2, 2, 2, 2}) {
		t.Errorf("one pair: %+v", one)
	}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median of four: %v", got)
	}
	if got := quantile([]float64{1, 2, 3, 4}, 0.99); got != 4 {
		t.Errorf("p99 of four: %v", got)
	}
}
