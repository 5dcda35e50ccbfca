package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"sawlog/jobs"
	"sawlog/loader"
)

// runBody is the page of one run.
type runBody struct {
	runLine
	Path    string // of the run, for links
	Stage   []stage
	Lanes   []lane
	More    int // lanes beyond those shown
	Splits  int // of its plan; 0 = not known
	Files   []fileLine
	Pages   pager                 // of the files
	Told    []loader.OutcomeRange // what became of the offsets, a page of it
	Tells   pager
	Wrote   []loader.OutcomeHour // hours, a page of them
	Writes  pager
	Counts  []reason
	JSON    string
	Short   bool // the JSON is the beginning of it
	Lines   []string
	Begun   string // the command line that begins such a run
	Offsets int64
	Open    bool
	Retry   bool
	Again   bool   // it committed and its job reads: it can be loaded again
	Unread  string // why its plan and commit could not be read
}

// stage is a stretch of a run with its share of the whole, for the bar.
type stage struct {
	jobs.Phase
	X, W float64
	Took string
}

// fileLine is one file a run wrote.
type fileLine struct {
	loader.File
	In string // the hour; empty = quarantine
}

// reason is a kind of offset that is not a row, how many there are, and what it means.
type reason struct {
	Name  string
	N     int64
	Means string
}

// What the page of a run shows at most.
const (
	lanesShown   = 60
	filesOnPage  = 100
	rangesOnPage = 100
	hoursOnPage  = 100
	jsonShown    = 64 << 10 // bytes; the API has all of it
)

func (k *console) run(w http.ResponseWriter, r *http.Request) {
	z, err := zoneOf(r)
	if err != nil {
		k.missing(w, err)
		return
	}
	run, err := k.Jobs.Run(r.PathValue("run"))
	if err != nil {
		k.missing(w, err)
		return
	}
	body := runBody{
		runLine: lineOf(run, k.Now().UTC()), Path: runPath(run.Run),
		Open: run.CannotCancel() == nil, Retry: run.CannotRetry() == nil, Again: run.CannotLoadAgain() == nil,
		Stage: stagesOf(run.Phases), Counts: reasonsOf(run), Begun: begunBy(run), Lines: runLines(run),
	}
	for _, in := range run.Ranges {
		body.Offsets += int64(in.End - in.Start)
	}
	splits, commit, err := k.detail(r, run)
	if err != nil {
		body.Unread = err.Error()
	}
	limit := lanesShown
	if r.URL.Query().Get("lanes") == "all" {
		limit = len(run.Tasks)
	}
	body.Lanes, body.More = lanesOf(run, splits, limit)
	body.Splits = len(splits)
	body.Tells = pagesOf(r, "ranges", len(run.Ranges), rangesOnPage)
	body.Told = shownOf(run.Ranges, body.Tells)
	body.Writes = pagesOf(r, "hours", len(run.Hours), hoursOnPage)
	body.Wrote = shownOf(run.Hours, body.Writes)
	if commit != nil {
		body.Pages = pages(r, len(commit.Files), filesOnPage)
		for _, f := range commit.Files[body.Pages.From:body.Pages.To] {
			line := fileLine{File: f}
			if f.Hour != nil {
				line.In = z.Minute(time.Unix(*f.Hour, 0))
			}
			body.Files = append(body.Files, line)
		}
	}
	text, err := json.MarshalIndent(run, "", "  ")
	if err != nil {
		k.missing(w, err)
		return
	}
	body.JSON = cut(string(text), jsonShown)
	body.Short = len(body.JSON) < len(text)
	k.show(w, http.StatusOK, "run.html", page{Title: run.Run, Nav: "runs", Watch: run.Job, Zone: z, Body: body})
}

// detail reads the plan and the commit of a run, where there are some.
func (k *console) detail(r *http.Request, run *jobs.Run) ([]loader.Split, *loader.Record, error) {
	spec, err := k.Jobs.Spec(run.Job)
	if err != nil || k.Detail == nil {
		return nil, nil, err
	}
	return k.Detail(r.Context(), spec, run)
}

// stagesOf lays the phases of a run out in a bar.
func stagesOf(phases []jobs.Phase) []stage {
	total := int64(0)
	for _, p := range phases {
		total += p.MS
	}
	x, out := 0.0, make([]stage, 0, len(phases))
	for _, p := range phases {
		width := 0.0
		if total > 0 {
			width = float64(p.MS) / float64(total) * stripWidth
		}
		out = append(out, stage{Phase: p, X: x, W: width, Took: duration(time.Duration(p.MS) * time.Millisecond)})
		x += width
	}
	return out
}

// reasonsOf says what became of the offsets that are no rows.
func reasonsOf(run *jobs.Run) []reason {
	var t loader.Account
	for i := range run.Ranges {
		t.Add(&run.Ranges[i].Account)
	}
	var out []reason
	for _, c := range []reason{
		{"quarantined", t.Quarantined, "records that could not be decoded or have no plausible time; they are kept whole in .quarantine files beside the rows"},
		{"skipped", t.Skipped, "records the job leaves out: tombstones, and header lines of CSV"},
		{"gap", t.Gap, "offsets that retention had taken before they were loaded; somebody accepted that: " + run.AcceptGap},
		{"compacted", t.Compacted, "offsets that compaction of the topic has removed"},
		{"aborted", t.Aborted, "records of transactions that were aborted"},
		{"control", t.Control, "marks of transactions, which are no records"},
	} {
		if c.N > 0 {
			out = append(out, c)
		}
	}
	return out
}

// begunBy is the command line that does what began the run.
func begunBy(run *jobs.Run) string {
	job := shell(run.Job)
	switch {
	case run.Backfill != "":
		return "sawlog backfill get " + shell(run.Backfill)
	case run.Again != nil:
		return ""
	case !run.Tick.IsZero():
		tick := run.Tick.UTC()
		return "sawlog run " + job + " --window " + tick.Format(time.RFC3339) + ".." + tick.Add(time.Second).Format(time.RFC3339)
	}
	return "sawlog run " + job
}

// runLines are command lines for what the page shows.
func runLines(run *jobs.Run) []string {
	id := shell(run.Run)
	lines := []string{"sawlog runs get " + id + " -o json"}
	switch {
	case run.CannotCancel() == nil:
		return append(lines, "sawlog runs watch "+id, "sawlog runs cancel "+id)
	case run.Status == jobs.Partial:
		return append(lines, "sawlog runs retry "+id+" --accept-bad", "sawlog runs retry "+id)
	case run.CannotRetry() == nil:
		return append(lines, "sawlog runs retry "+id)
	case run.Status == jobs.Committed:
		lines = append(lines, "sawlog verify "+id, "sawlog rerun "+id, "sawlog rerun "+id+" --with-current-job")
		if len(run.Ranges) == 1 {
			in := run.Ranges[0]
			lines = append(lines, fmt.Sprintf("sawlog replay %s --range %s --to URI --decode job --job FILE", shell(in.Topic), shell(fmt.Sprintf("%s/%d=%d..%d", in.Topic, in.Partition, in.Start, in.End))))
		}
	}
	return lines
}
