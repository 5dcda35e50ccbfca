package jobs

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestHoldOfSpecs holds for how long which jobs have their source keep records.
func TestHoldOfSpecs(t *testing.T) {
	const scheduled = minimal + "schedule: {every: 1h}\n"
	for text, want := range map[string]time.Duration{
		minimal:   0, // it may not come back
		scheduled: 14 * 24 * time.Hour,
		minimal + "retention_hold: {max_age: 36h}\n":   36 * time.Hour,
		scheduled + "retention_hold: {max_age: 36h}\n": 36 * time.Hour,
		scheduled + "retention_hold: {max_age: 0m}\n":  0,
	} {
		s := mustParse(t, text)
		l, err := s.Load("", time.Now())
		if err != nil || s.RetentionHold != want || l.Hold != want {
			t.Errorf("%s\nholds %v, %+v, want %v; %v", text, s.RetentionHold, l, want, err)
		}
	}
}

// TestHoldsAreReleased: a topic that a job leaves, whatever the reason, is held no
// more, and no other is released.
func TestHoldsAreReleased(t *testing.T) {
	const two = "name: j\nsource: {topics: [a, b]}\noutput: {root: 'file:///w/{topic}'}\nschedule: {every: 1h}\n"
	const pattern = "name: j\nsource: {pattern: '^v'}\noutput: {root: 'file:///w/{topic}'}\nschedule: {every: 1h}\n"
	for name, tt := range map[string]struct {
		before, after string // "" = deleted
		want          []string
	}{
		"deleted":         {two, "", []string{"a", "b"}},
		"a topic less":    {two, "name: j\nsource: {topics: [b]}\noutput: {root: 'file:///w/{topic}'}\nschedule: {every: 1h}\n", []string{"a"}},
		"a topic more":    {two, "name: j\nsource: {topics: [c, a, b]}\noutput: {root: 'file:///w/{topic}'}\nschedule: {every: 1h}\n", nil},
		"no more held":    {two, two + "retention_hold: {max_age: 0m}\n", []string{"a", "b"}},
		"another age":     {two, two + "retention_hold: {max_age: 1h}\n", nil},
		"another cluster": {two, "name: j\nsource: {topics: [a, b], brokers: ['k:9092']}\noutput: {root: 'file:///w/{topic}'}\nschedule: {every: 1h}\n", []string{"a", "b"}},
		"never held":      {two + "retention_hold: {max_age: 0m}\n", "", nil},
		"a pattern":       {pattern, "", []string{"v1", "v2"}},
		"wider pattern":   {pattern, "name: j\nsource: {pattern: '^[vw]'}\noutput: {root: 'file:///w/{topic}'}\nschedule: {every: 1h}\n", nil},
		"other pattern":   {pattern, "name: j\nsource: {pattern: '2$'}\noutput: {root: 'file:///w/{topic}'}\nschedule: {every: 1h}\n", []string{"v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, time.Second)
				defer w.close()
				w.runner.answers([]string{"v1", "v2"}, nil)
				w.apply(tt.before)
				to(65 * time.Minute) // a tick has gone by
				if tt.after != "" {
					w.apply(tt.after)
				} else if err := w.s.Delete(t.Context(), "j"); err != nil {
					t.Fatal(err)
				}
				got := w.runner.l.released
				slices.Sort(got)
				if !slices.Equal(got, tt.want) {
					t.Errorf("released %v, want %v", got, tt.want)
				}
			})
		})
	}
}
