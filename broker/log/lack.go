package log

import "sawlog/offsets"

// A log that has lost what it had synced is no complete copy any more, whatever
// the mark of the last run says: its files were changed from outside, or the
// disk lost them. The broker must not count as in sync by it, so the epoch that
// would prove that it does is forgotten before anything covers the traces.

// miss notes the logs that held records, by the checkpoint, and whose folders
// are not there. They may belong to deleted topics: who makes such a log knows
// better.
func (d *Disk) miss(at *startState) {
	d.lost = map[logKey]point{}
	for key, p := range at.points {
		memory := at.journal[key]
		if d.logs[key] == nil && p.recovery > p.start && (memory == nil || memory.cut < 0) {
			d.lost[key] = p
		}
	}
}

// lacks tells that a log ends too early, or has a hole.
func (d *Disk) lacks(l *Log, had, has offsets.Offset) {
	d.config.Logger.Error("synced records are gone: files were changed from outside, or the disk lost what it had synced; complete copies on other brokers replace them",
		"path", l.path, "had", had, "has", has, "try", "where there is no other copy: stop, put the segments back from a backup, and start again; cut bytes are kept beside them as .cut")
	d.lacking.Store(true)
}

// disprove forgets the epoch when a log lacks something. mu is held.
func (d *Disk) disprove() error {
	if !d.lacking.Load() || d.epoch < 0 {
		return nil
	}
	d.epoch = -1
	return d.writeRunningHeld(stateRunning)
}

// FirstDamage is the first offset that cannot be read, below the log's end.
func (l *Log) FirstDamage() (from offsets.Offset, damaged bool) {
	for _, d := range l.look().damaged {
		if !damaged || d.from < from {
			from, damaged = d.from, true
		}
	}
	return from, damaged
}
