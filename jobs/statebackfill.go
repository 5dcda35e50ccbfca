package jobs

// The states of a backfill. Running and paused ones, and a cancelled one whose
// runs have not all stopped yet, are open.
const (
	BackfillRunning   = "running"
	BackfillPaused    = "paused" // what runs goes on, nothing more is begun
	BackfillCancelled = "cancelled"
	BackfillCompleted = "completed" // all items ended well
	BackfillFailed    = "failed"    // all items ended, some not well
)

// ItemWaiting is an item that no run was queued for yet; the other states of an
// item are those of its run.
const ItemWaiting = "waiting"

// itemFact is what a backfill is decided on: where each of its items stands, in
// the order in which they are to be carried out.
type itemFact struct {
	Dataset string
	State   string
}

func (f itemFact) open() bool { return f.State == Queued || f.State == Running }

// move is what a backfill wants done, by the index of the item.
type move struct {
	Queue  []int  // make the item's run, or queue it again
	Cancel []int  // stop the item's run
	End    string // the state the backfill ends in; empty = it goes on
}

// nextMove decides how an open backfill goes on. It has at most one run in the
// queue for each data set: so the schedule's own runs come between, and pausing
// leaves nothing behind. It depends on nothing but what the journal holds, so
// after a restart it says the same again.
func nextMove(status string, items []itemFact) move {
	var m move
	waiting, open := 0, 0
	busy := map[string]bool{}
	for i, it := range items {
		switch {
		case it.open():
			open++
			busy[it.Dataset] = true
			if status == BackfillCancelled {
				m.Cancel = append(m.Cancel, i)
			}
		case it.State == ItemWaiting:
			waiting++
		}
	}
	if open == 0 && (waiting == 0 || status == BackfillCancelled) {
		m.End = ending(status, items)
		return m
	}
	if status != BackfillRunning {
		return m
	}
	for i, it := range items {
		if it.State == ItemWaiting && !busy[it.Dataset] {
			busy[it.Dataset] = true
			m.Queue = append(m.Queue, i)
		}
	}
	return m
}

// ending is the state of a backfill none of whose runs is open any more.
func ending(status string, items []itemFact) string {
	end := BackfillCompleted
	for _, it := range items {
		switch it.State {
		case Failed, Partial:
			end = BackfillFailed
		case Cancelled:
			if end == BackfillCompleted {
				end = BackfillCancelled
			}
		}
	}
	if status == BackfillCancelled {
		return BackfillCancelled
	}
	return end
}

// The ways to steer a backfill.
const (
	SteerPause  = "pause"
	SteerResume = "resume"
	SteerCancel = "cancel"
	SteerRetry  = "retry" // what failed, and nothing else
)

// steered is the state a backfill comes into when a person steers it, and
// whether it may be steered so; ended says that none of its runs is open, failed
// how many of its items did not end well.
func steered(how, status string, ended bool, failed int) (next string, ok bool) {
	switch how {
	case SteerPause:
		return BackfillPaused, status == BackfillRunning
	case SteerResume:
		return BackfillRunning, status == BackfillPaused
	case SteerCancel:
		return BackfillCancelled, status == BackfillRunning || status == BackfillPaused
	case SteerRetry:
		return BackfillRunning, ended && failed > 0
	}
	return status, false
}
