package jobs

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
)

// A job that an earlier release let in is at work after an upgrade, too, whatever is
// refused of a job that is applied today.
func TestAppliedBeforeIsAtWork(t *testing.T) {
	text := minimal + "decode: {value: csv, columns: [ts, email]}\ncolumns: {hash: [emial]}\n"
	if _, err := Parse([]byte(text), "job.yaml"); err == nil || !strings.Contains(err.Error(), `the records have no "emial"; did you mean "email"?`) {
		t.Errorf("applied today: %v", err)
	}
	value, err := json.Marshal(Job{V: 1, Name: announcedJob, Text: text, Path: "job.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	f := newFold()
	if err := f.applyJob(announcedJob, value); err != nil {
		t.Fatal(err)
	}
	if j := f.jobs[announcedJob]; j.spec == nil || j.broken != nil {
		t.Errorf("after an upgrade it is broken: %v", j.broken)
	}
}

// A notice that was pending when its server was upgraded finds its receiver.
func TestNoticesOfTheOldNames(t *testing.T) {
	spec := mustParse(t, minimal+"notify:\n- {webhook: 'https://a.example/x', on: [failed]}\n- {exec: [/bin/page, me], on: [failed]}\n")
	for i, to := range []string{"0 webhook https://a.example", "1 exec /bin/page"} {
		if got := receiver(spec, &Told{Event: "failed", To: to}); got != &spec.Notify[i] {
			t.Errorf("%s: %v", to, got)
		}
	}
	for _, to := range []string{"1 webhook https://a.example", "0 exec /bin/page", "2 exec /bin/page"} {
		if got := receiver(spec, &Told{Event: "failed", To: to}); got != nil {
			t.Errorf("%s: %v", to, got)
		}
	}
}

// A file system that hangs holds up a look at roots for a while only.
func TestPlacesOnAHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var specs []*Spec
		for _, root := range []string{"/a/one", "/hung/two", "/a/three"} {
			specs = append(specs, mustParse(t, strings.ReplaceAll(minimal, "/var/lib/sawlog/warehouse/pageviews", root)))
		}
		hung := make(chan struct{})
		defer close(hung)
		places := placesOf(specs, make([][]string, 3), func(dir string) string {
			if strings.HasPrefix(dir, "/hung") {
				<-hung
			}
			return "/real" + dir
		})
		for i, want := range []string{"real/a/one", "hung/two", "a/three"} {
			if got := strings.Join(places[i].elements, "/"); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	})
}
