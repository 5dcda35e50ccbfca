package jobs

// digest is what pages ask of all runs of a job again and again. It is gathered
// when it is asked for first, and let go when a run or the job changes, so that
// looking at jobs costs nothing for the history they have.
type digest struct {
	open   int      // runs that are queued or going on
	good   *Run     // the newest that ended well
	last   *Run     // in queue order
	topics []string // of a pattern: that had runs
	drift  []Drift
}

// digest gives the digest of a job. The caller holds mu.
func (f *fold) digest(j *jobState) *digest {
	if d := f.digests[j.Name]; d != nil {
		return d
	}
	d := &digest{good: f.lastGood(j.Name), drift: f.drift(j)}
	seen := map[string]bool{}
	for _, r := range f.byJob[j.Name] {
		d.last = r
		if r.Open() {
			d.open++
		}
		if r.Topic != "" && !seen[r.Topic] {
			seen[r.Topic] = true
			d.topics = append(d.topics, r.Topic)
		}
	}
	f.digests[j.Name] = d
	return d
}
