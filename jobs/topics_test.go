package jobs

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestLateTopics: a topic that comes after the job is loaded from the start of
// its log, whatever source.start says; those there from the start are not, after
// a restart, an apply and the compaction of the history neither.
func TestLateTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = "name: views\nsource: {pattern: '^v', start: latest}\noutput: {root: 'file:///w/{topic}'}\nschedule: {every: 1h}\n"
		w := newWorld(t, time.Second)
		defer func() { w.close() }()
		w.runner.answers([]string{"v.a"}, nil)
		w.apply(text)
		to(30 * time.Minute) // before its first tick
		w.runner.answers([]string{"v.a", "v.b"}, nil)
		to(time.Hour + time.Minute)
		w.apply(text + "freshness: 5h\n")
		w.journal.compact()
		w.restart()
		w.runner.answers([]string{"v.a", "v.b", "v.c"}, nil)
		to(2*time.Hour + time.Minute)
		if got := w.statuses(); got != "01:00=committed 01:00=committed 02:00=committed 02:00=committed 02:00=committed" {
			t.Errorf("got %s", got)
		}
		if !slices.Equal(w.runner.late, []string{"views.v.b", "views.v.c"}) {
			t.Errorf("from the start of the log: %v", w.runner.late)
		}
		sets, err := w.s.Sets(t.Context(), "views")
		if err != nil || len(sets) != 3 || sets[0].Late || !sets[1].Late || !sets[2].Late {
			t.Errorf("data sets %+v, %v", sets, err)
		}
		// Another pattern is another beginning.
		w.runner.answers([]string{"w.a"}, nil)
		w.apply("name: views\nsource: {pattern: '^w', start: latest}\noutput: {root: 'file:///w/{topic}'}\nschedule: {every: 1h}\n")
		to(3*time.Hour + time.Minute)
		if len(w.runner.late) != 2 {
			t.Errorf("from the start of the log: %v", w.runner.late)
		}
	})
}

// TestFirstTopicsMayBeNone: a pattern that matches nothing yet has been looked up.
func TestFirstTopicsMayBeNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		defer func() { w.close() }()
		w.apply("name: views\nsource: {pattern: '^v', start: latest}\noutput: {root: 'file:///w/{topic}'}\nschedule: {every: 1h}\n")
		to(30 * time.Minute)
		w.restart()
		w.runner.answers([]string{"v.a"}, nil)
		to(time.Hour + time.Minute)
		if !slices.Equal(w.runner.late, []string{"views.v.a"}) {
			t.Errorf("from the start of the log: %v", w.runner.late)
		}
	})
}
