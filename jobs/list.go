package jobs

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Status is a job as people see it.
type Status struct {
	Name       string    `json:"job"`
	State      string    `json:"state"` // active | paused | on request | broken
	Reason     string    `json:"reason,omitempty"`
	Trouble    string    `json:"trouble,omitempty"` // why its ticks cannot be decided
	Schedule   string    `json:"schedule"`
	Catchup    string    `json:"catchup,omitempty"`
	CatchingUp *Catchup  `json:"catching_up,omitempty"` // missed ticks that are being made into runs
	Next       time.Time `json:"next,omitzero"`
	NextDue    time.Time `json:"next_due,omitzero"`
	Source     string    `json:"source,omitempty"`
	Root       string    `json:"root,omitempty"`
	Datasets   []Set     `json:"datasets"`
	Open       int       `json:"open_runs"`
	Last       *Brief    `json:"last_run,omitempty"`
	LastGood   time.Time `json:"last_success,omitzero"`
	Freshness  string    `json:"freshness,omitempty"`
	Hold       string    `json:"retention_hold,omitempty"` // age up to which brokers keep what it has yet to load
	Stale      bool      `json:"stale"`
	Drift      []Drift   `json:"drift,omitempty"` // records that no longer fit the schema
	Generation int64     `json:"generation"`
	Applied    time.Time `json:"applied"`
	By         string    `json:"by,omitempty"`
	Text       string    `json:"text,omitempty"` // the job file, in answers about one job
}

// Brief is a run in one line.
type Brief struct {
	Run    string    `json:"run"`
	Status string    `json:"status"`
	Tick   time.Time `json:"tick,omitzero"`
	Rows   int64     `json:"rows"`
	Bad    int64     `json:"quarantined"`
	Ended  time.Time `json:"ended,omitzero"`
	Reason string    `json:"reason,omitempty"`
}

// List gives every job by name.
func (s *Scheduler) List() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	out := make([]Status, 0, len(s.f.jobs))
	for _, name := range sortedKeys(s.f.jobs) {
		out = append(out, s.status(s.f.jobs[name], now))
	}
	return out
}

// Get gives one job, its file included.
func (s *Scheduler) Get(name string) (Status, error) {
	j, err := s.job(name)
	if err != nil {
		return Status{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status(j, s.now())
	st.Text = j.Text
	return st, nil
}

// Spec gives a job's checked file.
func (s *Scheduler) Spec(name string) (*Spec, error) {
	j, err := s.job(name)
	if err != nil {
		return nil, err
	}
	if j.spec == nil {
		return nil, refuse(ErrInvalid, "job %s no longer reads: %v", name, j.broken)
	}
	return j.spec, nil
}

func (s *Scheduler) status(j *jobState, now time.Time) Status {
	st := Status{
		Name: j.Name, State: "active", Reason: j.PauseReason, Trouble: s.trouble[j.Name],
		Datasets: []Set{}, Generation: j.Generation, Applied: j.At, By: j.By, Stale: s.stale[j.Name],
	}
	if j.spec == nil {
		st.State = "broken"
		if j.broken != nil {
			st.Reason = j.broken.Error()
		}
		return st
	}
	st.Schedule, st.Root = j.spec.Schedule.Describe(), j.spec.Output.Root
	st.Source = cmp.Or(j.spec.Source.Pattern, orAnd(j.spec.Source.Topics))
	st.Datasets = s.knownSets(j)
	if sc := j.spec.Schedule; sc != nil {
		st.Catchup = sc.Catchup
		st.Next = sc.Next(latest(j.cursor(), now.Add(-sc.Delay)))
		st.NextDue = sc.Due(st.Next)
		st.Trouble = cmp.Or(st.Trouble, aheadOf(sc, j.cursor(), now))
		if c := s.said[j.Name]; c.To.After(j.cursor()) {
			st.CatchingUp = &c
		}
	} else {
		st.State = "on request"
	}
	if j.Paused {
		st.State, st.Next, st.NextDue = "paused", time.Time{}, time.Time{}
	}
	if j.spec.Freshness > 0 {
		st.Freshness = FormatDuration(j.spec.Freshness)
	}
	if j.spec.RetentionHold > 0 {
		st.Hold = FormatDuration(j.spec.RetentionHold)
	}
	d := s.f.digest(j)
	st.Open, st.Drift = d.open, slices.Clone(d.drift)
	if d.last != nil {
		st.Last = brief(d.last)
	}
	if d.good != nil {
		st.LastGood = d.good.Ended
	}
	return st
}

func orAnd(words []string) string {
	var out strings.Builder
	for i, w := range words {
		if i > 0 {
			out.WriteString(", ")
		}
		out.WriteString(w)
	}
	return out.String()
}

func brief(r *Run) *Brief {
	return &Brief{Run: r.Run, Status: r.Status, Tick: r.Tick, Rows: r.Rows, Bad: r.Quarantined, Ended: r.Ended, Reason: r.Reason}
}

// knownSets lists a job's data sets without asking its cluster: those of a
// pattern are the ones that had runs. The caller holds mu.
func (s *Scheduler) knownSets(j *jobState) []Set {
	var matched []string
	if j.spec.Source.Pattern != "" {
		matched = s.f.digest(j).topics
	}
	return j.spec.Sets(matched)
}

// Run gives one run; of one that goes on, as far as it is by now.
func (s *Scheduler) Run(id string) (*Run, error) {
	r, err := s.run(id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	a := s.active[id]
	s.mu.Unlock()
	if a != nil && r.Status == Running {
		a.tasks.show(r)
	}
	return r, nil
}

func sortRuns(runs []*Run) { slices.SortFunc(runs, inQueue) }

// inQueue compares runs by the order in which they were queued.
func inQueue(a, b *Run) int { return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Run, b.Run)) }

// NextTick is a tick to come.
type NextTick struct {
	Tick time.Time `json:"tick"`
	Due  time.Time `json:"due"`
}

// Next lists the next n ticks of a job: after those that are decided on, which
// lie ahead where the clock was set back.
func (s *Scheduler) Next(name string, n int) ([]NextTick, error) {
	spec, err := s.Spec(name)
	if err != nil {
		return nil, err
	}
	if spec.Schedule == nil {
		return nil, &Refusal{Kind: ErrInvalid, Msg: "job " + name + " has no schedule", Hint: "schedule: {every: 1h} in the job file gives it one"}
	}
	j, err := s.job(name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	decided := j.cursor()
	s.mu.Unlock()
	return spec.Schedule.nextTicks(latest(decided, s.now().Add(-spec.Schedule.Delay)), n), nil
}

// NextTicks lists the next n ticks that are due after now.
func (sc *Schedule) NextTicks(now time.Time, n int) []NextTick {
	return sc.nextTicks(now.Add(-sc.Delay), n)
}

func (sc *Schedule) nextTicks(after time.Time, n int) []NextTick {
	out := make([]NextTick, 0, n)
	for _, t := range sc.Upcoming(after, n) {
		out = append(out, NextTick{Tick: t, Due: sc.Due(t)})
	}
	return out
}
