package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sawlog/jobs"
	"sawlog/loader"
)

// outputsBody is the page of all data sets.
type outputsBody struct {
	Query   string
	Rows    []outputRow
	Pager   pager
	All     int
	Trouble string
	Lines   []string
}

// outputRow is one data set of the list.
type outputRow struct {
	jobs.Set
	Job    string
	Root   string
	Format string
	Head   int64 // of its ledger; untold = nothing was loaded
	Recent int64 // rows of the last day
	Newest time.Time
	State  string    // of its newest hour
	Error  string    // why its ledger can't be read; what is told is of Known
	Known  time.Time // when its ledger was read last; zero = nothing is known

	Reading bool // its ledger is read still; what is told is of before
}

// recentDays is how far back the list of data sets looks for rows.
const recentDays = 1

func (k *console) outputs(w http.ResponseWriter, r *http.Request) {
	body := outputsBody{Query: r.URL.Query().Get("q"), Lines: []string{"sawlog out ls DATASET", "sawlog out count DATASET"}}
	var picked []outputRow
	for _, j := range k.Jobs.List() {
		for _, set := range j.Datasets {
			body.All++
			if strings.Contains(strings.ToLower(set.Dataset+" "+j.Root), strings.ToLower(body.Query)) {
				picked = append(picked, outputRow{Set: set, Job: j.Name, Root: j.Root, Head: untold})
			}
		}
	}
	slices.SortFunc(picked, func(a, b outputRow) int { return strings.Compare(a.Dataset, b.Dataset) })
	body.Pager = pages(r, len(picked), perPage)
	body.Rows = picked[body.Pager.From:body.Pager.To]
	k.fillOutputs(r.Context(), body.Rows)
	k.draw(w, r, "outputs.html", page{Title: "Outputs", Nav: "outputs", Body: body})
}

// fillOutputs adds what the grids of the rows say, as far as it is known soon.
func (k *console) fillOutputs(ctx context.Context, rows []outputRow) {
	ctx, done := context.WithTimeout(ctx, gridPatience)
	defer done()
	to := k.Now().UTC().Truncate(time.Hour).Add(time.Hour)
	room := make(chan struct{}, viewersOnce)
	var wg sync.WaitGroup
	for i := range rows {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			k.fillOutput(ctx, &rows[i], to)
		})
	}
	wg.Wait()
}

func (k *console) fillOutput(ctx context.Context, row *outputRow, to time.Time) {
	g, err := k.Jobs.Grid(ctx, row.Job, row.Dataset, to.AddDate(0, 0, -recentDays-1), to)
	if row.Error = say(err); err == nil {
		row.take(&g, to)
	}
	if spec, err := k.Jobs.Spec(row.Job); err == nil {
		row.Format = spec.Output.Format + ", " + spec.Output.Codec
		if l, err := spec.Load(row.Topic, k.Now()); err == nil {
			row.Root = l.Root
		}
	}
}

// take adds what a grid says.
func (o *outputRow) take(g *jobs.Grid, to time.Time) {
	o.Head, o.Error, o.Reading, o.Known = g.Head, g.Error, g.Reading, g.Known
	for _, h := range g.Hours {
		if h.Hour.Before(to.AddDate(0, 0, -recentDays)) {
			continue
		}
		o.Recent += h.Rows
		if h.Files > 0 {
			o.Newest, o.State = h.Hour, h.State
		}
	}
}

// ledgerPatience is how long a page waits for a store that is not this machine.
const ledgerPatience = 10 * time.Second

// dataset is a data set with its ledger open, for one page.
type dataset struct {
	jobs.Set
	Job    string
	Root   string
	spec   *jobs.Spec
	ledger *loader.Ledger // nil = nothing was loaded yet
	fold   *loader.Fold
}

// open finds a data set and reads its ledger.
func (k *console) open(ctx context.Context, name string) (*dataset, error) {
	for _, j := range k.Jobs.List() {
		for _, set := range j.Datasets {
			if set.Dataset == name {
				return k.openSet(ctx, j.Name, set)
			}
		}
	}
	return nil, &jobs.Refusal{Kind: jobs.ErrNotFound, Msg: "no job of this server writes a data set " + name, Hint: "a job that takes topics by a pattern has a data set for each of them once it was loaded"}
}

func (k *console) openSet(ctx context.Context, job string, set jobs.Set) (*dataset, error) {
	spec, err := k.Jobs.Spec(job)
	if err != nil {
		return nil, err
	}
	d := &dataset{Set: set, Job: job, Root: spec.Output.Root, spec: spec, fold: loader.NewFold()}
	if l, err := spec.Load(set.Topic, k.Now()); err == nil {
		d.Root = l.Root
	}
	if k.Ledger == nil {
		return nil, &jobs.Refusal{Kind: jobs.ErrNotFound, Msg: "this server has no data sets to show"}
	}
	if d.ledger, err = k.Ledger(ctx, spec, set); err != nil {
		return nil, err
	}
	if d.ledger != nil {
		d.fold = d.ledger.Fold()
	}
	return d, nil
}

// of opens the data set of a request, for as long as the page may take.
func (k *console) of(r *http.Request) (*dataset, context.Context, context.CancelFunc, zone, error) {
	ctx, done := context.WithTimeout(r.Context(), ledgerPatience)
	z, err := zoneOf(r)
	if err != nil {
		return nil, ctx, done, z, err
	}
	d, err := k.open(ctx, r.PathValue("dataset"))
	return d, ctx, done, z, err
}

// href is a page below that of the data set.
func (d *dataset) href(page string, query ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(query); i += 2 {
		q.Set(query[i], query[i+1])
	}
	return outputHref(d.Dataset) + page + "?" + q.Encode()
}

// outputBody is the page of one data set.
type outputBody struct {
	*dataset
	Head       int64
	Sum        sum
	Quarantine sum
	QuaranHref string
	Changes    string
	Days       []dayRow
	Pager      pager
	Hours      []hourRow // of the chosen day
	Day        string
	Columns    []columnRow
	Positions  []loaded
	More       int // positions that are not shown
	Where      string
	Lines      []string
}

// sum adds up files.
type sum struct{ Files, Rows, Late, Bytes int64 }

// dayRow is one day of a data set.
type dayRow struct {
	sum
	Day    string
	Href   string
	Hours  int
	Open   int // hours that are not sealed
	Chosen bool
}

// hourRow is one hour of a day.
type hourRow struct {
	loader.HourState
	At     time.Time
	Href   string
	Sealed string // the record that sealed it
}

// columnRow is one column of a data set.
type columnRow struct{ Name, Type, From string }

// loaded is how far a partition is loaded.
type loaded struct {
	Topic     string
	Partition int32
	Start     int64
	Next      int64
	Apart     int64 // offsets loaded beyond Next, behind a hole
}

// Limits of the page of a data set.
const (
	daysOnPage     = 31
	positionsShown = 100
)

func (k *console) output(w http.ResponseWriter, r *http.Request) {
	d, _, done, z, err := k.of(r)
	defer done()
	if err != nil {
		k.refuse(w, "outputs", err)
		return
	}
	body := outputBody{dataset: d, Head: d.fold.Head, Day: r.URL.Query().Get("day"), Changes: d.href("/changes"), QuaranHref: d.href("/hour", "quarantine", "1")}
	for _, f := range d.fold.Files {
		if f.Hour == nil {
			body.Quarantine.add(f.Rows, 0, f.Bytes)
		}
	}
	body.days(r, z)
	body.schema()
	body.positions()
	name := shell(d.Dataset)
	body.Lines = []string{"sawlog out ls " + name, "sawlog out count " + name, "sawlog out head " + name, "sawlog verify " + name}
	k.draw(w, r, "output.html", page{Title: d.Dataset, Nav: "outputs", Watch: d.Job, Body: body})
}

func (s *sum) add(rows, late, bytes int64) {
	s.Files, s.Rows, s.Late, s.Bytes = s.Files+1, s.Rows+rows, s.Late+late, s.Bytes+bytes
}

// days groups the hours by the days of the zone, the newest first.
func (b *outputBody) days(r *http.Request, z zone) {
	states := b.fold.HourStates(0, 0)
	slices.Reverse(states)
	var days []dayRow
	for _, h := range states {
		day := z.In(time.Unix(h.Key, 0)).Format(time.DateOnly)
		if n := len(days); n == 0 || days[n-1].Day != day {
			days = append(days, dayRow{Day: day, Href: "?" + keep(r.URL.Query(), "day", day) + "#hours", Chosen: day == b.Day})
		}
		one := &days[len(days)-1]
		one.Hours++
		for _, s := range []*sum{&one.sum, &b.Sum} {
			s.Files, s.Rows, s.Late, s.Bytes = s.Files+h.Files, s.Rows+h.Rows, s.Late+h.Late, s.Bytes+h.Bytes
		}
		if h.Sealed == nil {
			one.Open++
		}
		if day == b.Day {
			b.Hours = append(b.Hours, b.hour(h))
		}
	}
	slices.Reverse(b.Hours)
	b.Pager = pages(r, len(days), daysOnPage)
	b.Days = days[b.Pager.From:b.Pager.To]
}

func (d *dataset) hour(h loader.HourState) hourRow {
	row := hourRow{HourState: h, At: time.Unix(h.Key, 0).UTC(), Href: d.href("/hour", "at", strconv.FormatInt(h.Key, 10))}
	if h.Sealed != nil {
		row.Sealed = strconv.FormatInt(*h.Sealed, 10)
	}
	return row
}

// schema lists the columns.
func (b *outputBody) schema() {
	if b.fold.Schema == nil {
		return
	}
	for _, f := range b.fold.Schema.Fields {
		b.Columns = append(b.Columns, columnRow{f.Name, f.Type.String(), strings.Join(f.From, " › ")})
	}
}

// positions lists how far each partition is loaded.
func (b *outputBody) positions() {
	for key, p := range b.fold.Partitions {
		next := p.Next()
		b.Positions = append(b.Positions, loaded{
			Topic: p.Topic, Partition: key.Partition, Start: int64(p.Start), Next: int64(next),
			Apart: p.Covered.Len() - int64(next-p.Start),
		})
	}
	slices.SortFunc(b.Positions, func(a, b loaded) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	b.More = max(0, len(b.Positions)-positionsShown)
	b.Positions = b.Positions[:len(b.Positions)-b.More]
}
