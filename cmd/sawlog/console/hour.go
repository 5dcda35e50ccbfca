package console

import (
	"fmt"
	"net/url"
	"time"

	"sawlog/jobs"
)

// hourBody is the panel of one cell: the facts, and what to make of them.
type hourBody struct {
	jobs.Hour
	Dataset string
	Stale   time.Time // when its ledger was read last, which can't be read now; zero = it can
	Name    string    // the hour in the page's zone
	UTC     string    // its bounds
	Answer  answer
	Runs    []runLine // that touched it, newest first
	Before  string    // link to the hour before and after
	After   string
	Close   string
	Replay  step // loads it again by the job as it is now; empty = it has no rows
}

// answer says whether an hour is complete, and if not, why, and what to do.
type answer struct {
	Verdict string // Yes | No | Not yet
	Why     string
	Do      step // the one thing that mends it; empty when there is nothing to do
}

// step is something a person may do: a page that says what it would do, and the
// command line that does the same.
type step struct {
	Label, Href, Line string
}

// hourCase is what an answer is found from.
type hourCase struct {
	hour     jobs.Hour
	job      jobs.Status
	unit     string
	lateness time.Duration
	end      time.Time // of the hour
	passed   bool      // an hour after it is sealed: loads have gone past it
	run      *jobs.Run // the last that touched it, or should have filled it; may be nil
	now      time.Time
	zone     zone
}

// answer finds the plain sentence. It is a pure function.
func (c *hourCase) answer() answer {
	switch c.hour.State {
	case jobs.HourSealed:
		return answer{Verdict: "Yes", Why: fmt.Sprintf("It is complete since ledger record %d: every partition was loaded past its end. Rows that come later are counted as late.", c.hour.Sealed)}
	case jobs.HourLate:
		return answer{Verdict: "Yes, with late rows", Why: fmt.Sprintf("It was complete at ledger record %d; %s rows came after that. They are in its files: who read it before reads it again.", c.hour.Sealed, count(c.hour.Late))}
	case jobs.HourRunning:
		return c.running()
	case jobs.HourFailed:
		return c.failed()
	case jobs.HourFuture:
		return answer{Verdict: "Not yet", Why: "It is not over: it ends " + distance(c.end, c.now) + "."}
	case jobs.HourBefore:
		return answer{Verdict: "No", Why: "It lies before the first record of the data set. What the log still has of it was not asked for: source.start says where the first load begins."}
	}
	if a, held := c.held(); held {
		return a
	}
	if c.hour.State == jobs.HourFilling {
		return c.filling()
	}
	return c.missing()
}

func (c *hourCase) running() answer {
	a := answer{Verdict: "Not yet", Why: "A run that may fill it is queued or going on."}
	if c.run != nil {
		a.Why = "Run " + c.run.Run + " is " + c.run.Status + "; it may fill it."
		a.Do = step{"Watch the run", runPath(c.run.Run), "sawlog runs watch " + shell(c.run.Run)}
	}
	return a
}

func (c *hourCase) failed() answer {
	a := answer{Verdict: "No", Why: "The run that should have filled it failed.", Do: c.again()}
	if c.run == nil {
		return a
	}
	a.Why = "Run " + c.run.Run + " failed: " + c.run.Reason + "."
	a.Do = step{"Retry the run", runPath(c.run.Run) + "/retry", "sawlog runs retry " + shell(c.run.Run)}
	if c.run.Status == jobs.Partial {
		a.Why = "Run " + c.run.Run + " holds back what it read: " + c.run.Reason + "."
	}
	return a
}

// held are the reasons that lie in the job: no load comes by itself.
func (c *hourCase) held() (answer, bool) {
	job := url.PathEscape(c.job.Name)
	switch {
	case c.job.State == "broken":
		return answer{Verdict: "No", Why: "Nothing loads it: the job file no longer reads: " + c.job.Reason + ".", Do: step{"Read the job file", "/api/v1/jobs/" + job, "sawlog job apply FILE"}}, true
	case c.job.Trouble != "":
		return answer{Verdict: "No", Why: "No run is made: " + c.job.Trouble + ".", Do: c.again()}, true
	case c.job.State == "paused":
		why := "The job is paused"
		if c.job.Reason != "" {
			why += " (" + c.job.Reason + ")"
		}
		return answer{Verdict: "No", Why: why + ": nothing loads it.", Do: step{"Resume the job", jobPath(c.job.Name) + "/resume", "sawlog job resume " + shell(c.job.Name)}}, true
	}
	return answer{}, false
}

// filling is an hour with rows that is not sealed.
func (c *hourCase) filling() answer {
	a := answer{Verdict: "Not yet", Why: count(c.hour.Rows) + " rows are in it. "}
	due := c.end.Add(c.lateness)
	late := "its end"
	if c.lateness > 0 {
		late = fmt.Sprintf("its end and %s for late rows", jobs.FormatDuration(c.lateness))
	}
	if due.After(c.now) {
		a.Why += "It stays open until " + c.zone.Minute(due) + ": " + late + "."
		return a
	}
	a.Why += "It is complete once every partition was loaded past " + c.zone.Minute(due) + " (" + late + ")"
	return c.awaited(a)
}

// missing is an hour that is over and has no rows.
func (c *hourCase) missing() answer {
	if c.passed {
		return answer{Verdict: "No", Why: "Nothing is in it, and later hours are complete: the loads found no record of that time. Were the producers down? If the records are in the log under another time, look at time: of the job.", Do: c.backfill()}
	}
	return c.awaited(answer{Verdict: "No", Why: "Nothing is in it yet"})
}

// awaited says which load is the next, for an hour that one may complete.
func (c *hourCase) awaited(a answer) answer {
	if c.job.Next.IsZero() {
		a.Why += "; the job has no schedule, so a person starts its runs."
		a.Do = c.again()
		return a
	}
	if c.job.Open > 0 {
		a.Why += "; " + plural(c.job.Open, "run") + " of the job must end first."
		return a
	}
	a.Why += "; the next load is due " + distance(c.job.NextDue, c.now) + "."
	a.Do = c.again()
	return a
}

// again starts a run now.
func (c *hourCase) again() step {
	return step{"Run now", jobPath(c.job.Name) + "/run", "sawlog run " + shell(c.job.Name)}
}

// backfill carries out what is missing around the hour.
func (c *hourCase) backfill() step {
	from, to := c.hour.Hour.UTC().Format(time.RFC3339), c.end.UTC().Format(time.RFC3339)
	if c.job.Next.IsZero() {
		return c.again()
	}
	return c.window("Backfill the hour", from, to, jobs.OnlyMissing)
}

// window is the backfill of a window.
func (c *hourCase) window(label, from, to, only string) step {
	q := url.Values{"from": {from}, "to": {to}, "only": {only}}
	return step{
		label, jobPath(c.job.Name) + "/backfill?" + q.Encode(),
		"sawlog backfill " + shell(c.job.Name) + " --from " + from + " --to " + to + " --only " + only,
	}
}

// replay loads the hour again by the job as it is now.
func (c *hourCase) replay() step {
	if c.hour.Files == 0 {
		return step{}
	}
	return c.window("Replay the "+c.unit, c.hour.Hour.UTC().Format(time.RFC3339), c.end.UTC().Format(time.RFC3339), jobs.OnlyAll)
}
