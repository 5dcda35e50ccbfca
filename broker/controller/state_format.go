package controller

import "fmt"

// The format level of a cluster says which records, and which fields in them,
// may be written: those that all its nodes can read. It is raised by somebody
// who asks for it, once all nodes know the next one, and never lowered.
//
//	1  all there is but for what follows
//	2  partitions that are being reassigned, their tags adding and removing;
//	   brokers whose disk is full, their flag
const (
	oldestLevel   = 1
	reassignLevel = 2
	fullLevel     = 2
	formatLevel   = reassignLevel // the newest this build knows
)

// Levels are the format levels a node knows, both included; zero = nobody told.
type Levels struct{ Min, Max int16 }

// LevelsTo are those from the first one up to max; 0 = all this build knows.
func LevelsTo(max int16) Levels {
	if max == 0 {
		max = formatLevel
	}
	return Levels{oldestLevel, max}
}

// Know tells whether a level is among them. Of a node that told none it is only
// known that it ran when there was one.
func (l Levels) Know(level int16) bool {
	if l == (Levels{}) {
		l = Levels{oldestLevel, oldestLevel}
	}
	return level == 0 || l.Min <= level && level <= l.Max
}

func (l Levels) String() string { return fmt.Sprintf("%d to %d", l.Min, l.Max) }

// check refuses a level that is not among them.
func (l Levels) check(level int16) error {
	if l.Know(level) {
		return nil
	}
	return refuse(ErrFormatLevel, "The cluster is at format level %d, this build knows %s: run the release the other nodes run.", level, l)
}

// checkRaised refuses records that raise the format level to one that is not
// among them.
func (l Levels) checkRaised(records []record) error {
	for _, r := range records {
		if f, ok := r.(*formatRecord); ok && !l.Know(f.Level) {
			return l.check(f.Level)
		}
	}
	return nil
}

// writes tells whether what a level brought may be written; where no level is in
// force, as before a cluster is founded, all of it.
func (im *Image) writes(level int16) bool { return im.FormatLevel == 0 || im.FormatLevel >= level }

// allows refuses what needs a higher level than the cluster is at.
func (im *Image) allows(level int16, what string) error {
	if im.writes(level) {
		return nil
	}
	return refuse(ErrFormatLevel, "%s needs format level %d, the cluster is at %d: once all brokers run this release, sawlog cluster upgrade.", what, level, im.FormatLevel)
}

// raiseFormat decides on a higher format level.
func (im *Image) raiseFormat(to int16, own Levels) (decision, error) {
	switch {
	case to == im.FormatLevel:
		return decision{}, nil
	case to < im.FormatLevel:
		return decision{}, refuse(ErrFormatLevel, "The format level can't be lowered from %d to %d: what was written since could not be read.", im.FormatLevel, to)
	case !own.Know(to):
		return decision{}, refuse(ErrFormatLevel, "The active controller only supports versions %d-%d", own.Min, own.Max)
	}
	for i := range im.Brokers {
		if b := &im.Brokers[i]; !b.Levels.Know(to) {
			return decision{}, refuse(ErrFormatLevel, "Broker %d only supports versions %d-%d: start it with this release, or forget it", b.ID, max(b.Levels.Min, oldestLevel), max(b.Levels.Max, oldestLevel))
		}
	}
	raised := []record{&formatRecord{to}}
	after, err := im.apply(im.Index+1, raised)
	if err != nil {
		return decision{}, err
	}
	return decision{records: append(raised, after.raise()...)}, nil
}
