package jobs

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/loader"
)

// TestDigestIsOfAllRuns looks at a job after every change of its runs: what is
// remembered is what its history says anew.
func TestDigestIsOfAllRuns(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 11))
	day := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	f := newFold()
	put := func(key string, value any) {
		t.Helper()
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.apply([]byte(key), text); err != nil {
			t.Fatal(err)
		}
	}
	put("job/views", &Job{V: 1, Name: "views", Text: "name: views\nsource: {pattern: '^v'}\noutput: {root: 'file:///w/{topic}'}\n", Path: "job.yaml", At: day})
	for i := range 2000 {
		id := fmt.Sprintf("run-%d", rnd.IntN(30))
		switch {
		case rnd.IntN(5) == 0:
			if err := f.apply([]byte("run/"+id), nil); err != nil {
				t.Fatal(err)
			}
		case rnd.IntN(50) == 0:
			put("job/views", &Job{V: 1, Name: "views", Text: "name: views\nsource: {pattern: '^v'}\noutput: {root: 'file:///w/{topic}'}\n", Path: "job.yaml", At: day.Add(time.Duration(i) * time.Minute)})
		default:
			topic := fmt.Sprintf("v.%d", rnd.IntN(3))
			r := &Run{Dataset: topic, Topic: topic, Seq: int64(rnd.IntN(1000)), Ended: day.Add(time.Duration(rnd.IntN(5000)) * time.Minute)}
			r.Run, r.Job, r.Status = id, "views", []string{Queued, Running, Committed, Covered, Failed, Partial}[rnd.IntN(6)]
			if r.Open() {
				r.Ended = time.Time{}
			} else if rnd.IntN(3) == 0 {
				r.Drift = []loader.Drift{{Column: "c", Type: "int64", Seen: "string", Records: 5}}
			}
			put("run/"+id, r)
		}
		got := *f.digest(f.jobs["views"])
		f.digests = map[string]*digest{}
		if want := *f.digest(f.jobs["views"]); !reflect.DeepEqual(got, want) {
			t.Fatalf("step %d: %+v, want %+v", i, got, want)
		}
	}
}

// TestTasksAreHeardAsTheyGo: an attempt at a split has its place in time and its
// phases, while the run goes on.
func TestTasksAreHeardAsTheyGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks := &tasks{began: time.Now(), at: map[string]*heard{}}
		say := func(after time.Duration, split int, attempt, phase, failed string) {
			time.Sleep(after)
			tasks.hear(Progress{Task: &loader.TaskProgress{Split: split, Attempt: attempt, Phase: phase}, Error: failed})
		}
		tasks.enter("plan", time.Now())
		time.Sleep(3 * time.Second)
		tasks.enter("load", time.Now())
		say(time.Second, 0, "a", "read", "")
		say(2*time.Second, 0, "a", "read", "")
		say(time.Second, 0, "a", "write", "")
		say(500*time.Millisecond, 1, "b", "read", "")
		say(time.Second, 0, "a", "write", "connection refused")
		tasks.hear(Progress{Task: &loader.TaskProgress{Split: 1, Attempt: "b", Phase: "stage", Rows: 7, Files: 2}})
		say(time.Second, 1, "b", "", "") // its end
		r := &Run{}
		tasks.show(r)
		want := []Task{
			{TaskProgress: loader.TaskProgress{Split: 0, Attempt: "a", Phase: "write"}, Since: 4000, MS: 4500, Phases: []Phase{{Name: "read", MS: 3000}}, Error: "connection refused"},
			{TaskProgress: loader.TaskProgress{Split: 1, Attempt: "b", Phase: "done", Rows: 7, Files: 2}, Since: 7500, MS: 2000, Phases: []Phase{{Name: "read", MS: 1000}, {Name: "stage", MS: 1000}}},
		}
		if !reflect.DeepEqual(r.Tasks, want) {
			t.Errorf("%+v\nwant %+v", r.Tasks, want)
		}
		if phases := []Phase{{Name: "plan", MS: 3000}, {Name: "load", MS: 6500}}; !reflect.DeepEqual(r.Phases, phases) {
			t.Errorf("%+v, want %+v", r.Phases, phases)
		}
		time.Sleep(time.Second)
		tasks.enter("", time.Now())
		time.Sleep(time.Hour)
		if tasks.show(r); len(r.Phases) != 2 || r.Phases[1].MS != 7500 {
			t.Errorf("%+v after its end", r.Phases)
		}
	})
}
