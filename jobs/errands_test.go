package jobs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// hungStore is a file system that answers nothing, whoever gives up, until it is
// back.
type hungStore struct {
	Runner
	back chan struct{}
}

func (h hungStore) View(context.Context, *Spec, Set) (*View, error) {
	<-h.back
	return nil, errors.New("stale file handle")
}

func (h hungStore) Plan(context.Context, *Spec, Set, Ask) (*Planned, error) {
	<-h.back
	return nil, errors.New("stale file handle")
}

// TestCloseLeavesWhatHangs: nothing that a file system keeps waiting holds up the
// end of a scheduler for longer than closeTime. It is named, and what it finds out
// later is written nowhere; the next scheduler takes the run up.
func TestCloseLeavesWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0)
		w.apply("name: views\nsource: {topics: [a]}\noutput: {root: 'file:///w/views'}\n")
		w.apply("name: quick\nsource: {topics: [b]}\noutput: {root: 'file:///w/quick'}\n")
		back := make(chan struct{})
		w.s.c.Runner = hungStore{w.s.c.Runner, back}
		runs, err := w.s.Trigger(t.Context(), Trigger{Job: "views", By: "test"})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.s.Hours(ctx, "quick", w.now().Add(-time.Hour), w.now()); err != nil {
			t.Fatal(err)
		}
		old, began := w.s, time.Now()
		err = old.Close()
		left, _ := errors.AsType[*LeftError](err)
		if left == nil || time.Since(began) != closeTime {
			t.Fatalf("closed after %v: %v", time.Since(began), err)
		}
		if want := []string{"run " + runs[0].Run, "the reading of the ledger of quick"}; !slices.Equal(left.What, want) {
			t.Errorf("left: %q, want %q", left.What, want)
		}
		for _, word := range []string{runs[0].Run, "of quick", "NFS", "10s"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%v: lacks %q", err, word)
			}
		}
		w.open() // the next process
		defer w.close()
		close(back)
		synctest.Wait()
		select {
		case err := <-old.Failed():
			t.Errorf("who was left behind tried to write: %v", err)
		default:
		}
		time.Sleep(time.Minute)
		if r, err := w.s.Run(runs[0].Run); err != nil || r.Open() || r.Attempt != 1 {
			t.Errorf("the run that was taken up: %+v, %v", r, err)
		}
		if began = time.Now(); old.Close() != nil || time.Since(began) > 0 {
			t.Errorf("all have ended, and closing again took %v", time.Since(began))
		}
	})
}

// TestAllWhoWaitForErrandsAreTold: several may wait, and the end of the last errand is
// told to each at once.
func TestAllWhoWaitForErrandsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e errands
		e.begin("a run", func() { time.Sleep(time.Second) })
		for range 3 {
			go func() {
				began := time.Now()
				if left := e.wait(); left != nil || time.Since(began) != time.Second {
					t.Errorf("after %v left %q", time.Since(began), left)
				}
			}()
		}
		time.Sleep(time.Minute)
	})
}
