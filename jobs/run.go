package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sawlog/loader"
)

// The states of a run. Queued and running are open; the others are ends.
const (
	Queued    = "queued"
	Running   = "running"
	Committed = loader.StatusCommitted // its rows are in the ledger
	Covered   = loader.StatusCovered   // nothing was left to load
	Failed    = loader.StatusFailed
	Partial   = "partial" // stages are kept: too many bad records, or some tasks failed
	Cancelled = "cancelled"
)

// Why a run was made.
const (
	ByTick     = "tick"
	ByHand     = "manual"
	ByBackfill = "backfill"
)

// RunKinds are the reasons why runs are made.
var RunKinds = []string{ByTick, ByHand, ByBackfill}

// Run is one run of one data set of a job, from queue to end. Its JSON is what
// people read and what the journal keeps.
type Run struct {
	V int `json:"v"`
	loader.Outcome
	Dataset   string    `json:"dataset"`
	Topic     string    `json:"topic,omitempty"`
	Tick      time.Time `json:"tick,omitzero"`
	UpTo      time.Time `json:"up_to,omitzero"` // stops before the first record at or after it
	Kind      string    `json:"kind"`           // tick | manual | backfill
	Seq       int64     `json:"seq"`            // order in the queue
	By        string    `json:"by,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Hint      string    `json:"hint,omitempty"`
	Exit      int       `json:"exit_code"`
	Attempt   int       `json:"attempt"`
	AcceptBad bool      `json:"accept_bad,omitempty"`
	AcceptGap string    `json:"accept_gap,omitempty"`
	NotBefore time.Time `json:"not_before,omitzero"` // a back-off ends
	Queued    time.Time `json:"queued,omitzero"`
	Started   time.Time `json:"started,omitzero"`
	Ended     time.Time `json:"ended,omitzero"`
	Phases    []Phase   `json:"phases,omitempty"`
	Ledger    *int64    `json:"ledger,omitempty"` // number of the record that committed it
	// Again is the ledger record whose offsets the run loads again, with AgainBad
	// only its splits that have quarantined records.
	Again    *int64 `json:"again,omitempty"`
	AgainBad bool   `json:"again_bad,omitempty"`
	// Backfill is the backfill whose item the run is, Round the one of its rounds
	// it was queued in.
	Backfill string `json:"backfill,omitempty"`
	Round    int    `json:"round,omitempty"`
	// Resumed are open plans of other runs that were finished before its own.
	Resumed []string `json:"resumed,omitempty"`
	// Attempts are the last times the run was begun, Tasks what the attempts at
	// its splits did.
	Attempts []Attempt `json:"attempts,omitempty"`
	Tasks    []Task    `json:"tasks,omitempty"`
	Notices  []Told    `json:"notices,omitempty"`
	// Counts of what is worth showing, such as duplicate_keys.
	Seen map[string]int64 `json:"notes,omitempty"`
}

// Phase is one stretch of a run.
type Phase struct {
	Name string `json:"phase"`
	MS   int64  `json:"ms"`
}

// Attempt is one time a run was begun. One that was cut off by the end of its
// server has no end, and does not count as a try.
type Attempt struct {
	Number  int       `json:"attempt"` // over all rounds of retries
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Status  string    `json:"status,omitempty"` // committed | covered | failed | partial | cancelled | interrupted
	Exit    int       `json:"exit_code"`
	Reason  string    `json:"reason,omitempty"`
	Phases  []Phase   `json:"phases,omitempty"`
}

// Interrupted is how an attempt ends whose server ended.
const Interrupted = loader.StatusInterrupted

// Task is one attempt at a split, as it was last heard of.
type Task struct {
	loader.TaskProgress
	Since  int64   `json:"since_ms,omitempty"` // first heard of, from the start of the attempt at the run
	MS     int64   `json:"ms"`                 // from then to when it was last heard of
	Phases []Phase `json:"phases,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// The attempts and tasks a run keeps.
const (
	attemptsKept = 20
	tasksKept    = 200
)

// begin notes that the run is begun once more.
func (r *Run) begin(now time.Time) {
	n := 1
	if last := len(r.Attempts) - 1; last >= 0 {
		n = r.Attempts[last].Number + 1
	}
	r.Attempts = append(slices.Clone(r.Attempts[max(0, len(r.Attempts)+1-attemptsKept):]), Attempt{Number: n, Started: now})
}

// finish notes how the attempt under way ended.
func (r *Run) finish(now time.Time, status string) {
	if len(r.Attempts) == 0 {
		return // begun by an older version
	}
	r.Attempts = slices.Clone(r.Attempts)
	a := &r.Attempts[len(r.Attempts)-1]
	a.Ended, a.Status, a.Exit, a.Reason, a.Phases = now, status, r.Exit, r.Reason, r.Phases
}

// Open tells whether the run has not ended.
func (r *Run) Open() bool { return r.Status == Queued || r.Status == Running }

// Good tells whether the run did what it was for.
func (r *Run) Good() bool { return r.Status == Committed || r.Status == Covered }

// CannotCancel is why a run can't be cancelled, nil where it can.
func (r *Run) CannotCancel() error {
	if r.Open() {
		return nil
	}
	return &Refusal{Kind: ErrConflict, Msg: fmt.Sprintf("run %s is %s: it cannot be cancelled", r.Run, r.Status), Hint: "sawlog out drop --run takes back what it loaded"}
}

// CannotRetry is why a run can't be retried, nil where it can.
func (r *Run) CannotRetry() error {
	if !r.Open() && !r.Good() {
		return nil
	}
	hint := "sawlog rerun " + r.Run + " makes its files again"
	if r.Open() {
		hint = "sawlog runs watch " + r.Run + " follows it to its end"
	}
	return &Refusal{Kind: ErrConflict, Msg: fmt.Sprintf("run %s is %s: there is nothing to retry", r.Run, r.Status), Hint: hint}
}

// CannotLoadAgain is why the files of a run can't be checked, made again or
// replaced, nil where they can.
func (r *Run) CannotLoadAgain() error {
	if r.Status == Committed && r.Ledger != nil {
		return nil
	}
	hint := "sawlog runs retry " + r.Run + " tries it again"
	switch {
	case r.Open():
		hint = "sawlog runs watch " + r.Run + " follows it to its end"
	case r.Status == Covered:
		hint = "there was nothing left to load; other runs have its offsets"
	}
	return &Refusal{Kind: ErrConflict, Msg: fmt.Sprintf("run %s is %s: it has committed no files", r.Run, r.Status), Hint: hint}
}

func (r *Run) clone() *Run {
	c := *r
	return &c
}

// Ask is what a run is to plan.
type Ask struct {
	Run       string
	Kind      loader.Kind
	Tick      time.Time // zero = none
	From      time.Time // the tick before; of a preview only
	UpTo      time.Time // zero = the last stable offset
	AcceptGap string
	By        string
	Scan      bool          // read the log for exact figures
	Again     *loader.Again // of a Supersede: the loads it replaces
}

// Planned is a frozen plan.
type Planned struct {
	ID      string
	Plan    *loader.Plan
	Preview *loader.Preview
}

// Exec is how a plan is carried out.
type Exec struct {
	Run       string
	AcceptBad bool
	Progress  func(Progress)
}

// Progress is a step of a run, as it happens.
type Progress struct {
	Phase string               `json:"phase,omitempty"`
	Task  *loader.TaskProgress `json:"task,omitempty"`
	Error string               `json:"error,omitempty"` // why the task's attempt failed
}

// Window is what one of several loads, one after another, would take.
type Window struct {
	Ranges  []loader.PreviewRange `json:"ranges"`            // exact
	Rows    int64                 `json:"rows"`              // at most
	Bytes   int64                 `json:"bytes"`             // of the log, estimated
	Files   int64                 `json:"files"`             // estimated
	Retires int                   `json:"retires,omitempty"` // files that are replaced
}

// Runner carries runs out. Each call names a job and one of its data sets.
type Runner interface {
	// Topics lists the topics the job's pattern matches.
	Topics(ctx context.Context, s *Spec) ([]string, error)
	// Plan freezes a plan, or finds the open one that must be resumed; it writes nothing.
	Plan(ctx context.Context, s *Spec, set Set, ask Ask) (*Planned, error)
	// Run carries a plan out and commits it.
	Run(ctx context.Context, s *Spec, set Set, p *Planned, e Exec) (*loader.Outcome, error)
	// Committed finds the outcome of a plan in the ledger; nil when it is not committed.
	Committed(ctx context.Context, s *Spec, set Set, plan string) (*loader.Outcome, error)
	// Abandon writes a plan off, so that its ranges are free again.
	Abandon(ctx context.Context, s *Spec, set Set, plan, run, by string) error
	// Release takes back what the source was asked to keep of topics for a job
	// that no longer needs it.
	Release(ctx context.Context, s *Spec, topics []string) error
	// Loads lists the ledger records the hours [from, to) come from.
	Loads(ctx context.Context, s *Spec, set Set, from, to time.Time) ([]int64, error)
	// Windows says what loads would take if they were carried out in this order,
	// now; it writes nothing.
	Windows(ctx context.Context, s *Spec, set Set, asks []Ask) ([]Window, error)
	// View folds the data set's ledger.
	View(ctx context.Context, s *Spec, set Set) (*View, error)
}

// View is what a ledger says of the hours of its data set.
type View struct {
	Head  int64
	Hours map[int64]HourFacts // by UTC start, seconds since the epoch
	// Bucket is the rule by which rows have gone into hours and folders; nil = none
	// have yet.
	Bucket    *loader.Bucket
	BucketErr error // why it isn't known
}

// HourFacts are the facts of one hour.
type HourFacts struct {
	Rows, Late, Bytes int64
	Files             int
	Sealed            bool
	SealedIn          int64 // ledger number, when sealed
}

// Journal keeps keys and values, in order, for good. Append returns once the
// record is safe; an error means that this process may no longer write.
type Journal interface {
	Append(ctx context.Context, key, value []byte) error
	Replay(ctx context.Context, fn func(key, value []byte) error) error
}

// Job is a job as the journal keeps it.
type Job struct {
	V           int       `json:"v"`
	Name        string    `json:"name"`
	Text        string    `json:"text"`
	Path        string    `json:"path"`
	By          string    `json:"by,omitempty"`
	At          time.Time `json:"at"`
	Generation  int64     `json:"generation"` // counts applies that changed the text
	Since       time.Time `json:"since"`      // ticks after it are due
	Paused      bool      `json:"paused"`
	PauseReason string    `json:"pause_reason,omitempty"`
	// Topics are what the pattern matched when it was first looked up, nil before
	// that. A topic that comes later is loaded from the start of its log, whatever
	// source.start says of the first run.
	Topics    []string  `json:"topics,omitzero"`
	Forgotten time.Time `json:"forgotten,omitzero"` // ticks up to it are no longer remembered
}

// Tick is a tick that was decided on.
type Tick struct {
	V      int       `json:"v"`
	Job    string    `json:"job"`
	Tick   time.Time `json:"tick"`
	From   time.Time `json:"from,omitzero"` // first of the ticks it stands for
	Merged int       `json:"merged,omitempty"`
	Runs   []string  `json:"runs"`
	At     time.Time `json:"at"`
	Why    string    `json:"why,omitempty"`
}
