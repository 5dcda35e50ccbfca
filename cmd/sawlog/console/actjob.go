package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/offsets"
)

// setsPlanned bounds how many data sets a preview plans; a plan asks the brokers.
const setsPlanned = 10

// gapField asks why offsets that are gone may be left out.
func gapField(r *http.Request) field {
	return field{
		Name: "accept_gap", Label: "Accept a gap, because", Value: r.FormValue("accept_gap"), Type: "text",
		Hint: "Only where retention took offsets before they were loaded. The reason goes into the ledger; empty = stop there.",
	}
}

func (k *console) askRun(ctx context.Context, r *http.Request, _ zone) (*confirm, error) {
	st, err := k.Jobs.Get(r.PathValue("job"))
	if err != nil {
		return nil, err
	}
	c := &confirm{
		Title: "Run " + st.Name, Job: st.Name, Back: jobPath(st.Name), Name: st.Name, Button: "Run now", Line: "sawlog run " + shell(st.Name),
		Does: "Loads what came since the last load, up to the last stable offsets of now.", Fields: []field{gapField(r)},
	}
	spec, err := k.Jobs.Spec(st.Name)
	if err != nil {
		return nil, err
	}
	sets, err := k.Jobs.Sets(ctx, st.Name)
	if err != nil {
		return nil, err
	}
	if k.Plan == nil || len(sets) == 0 {
		c.Notes = append(c.Notes, "No topic matches yet: there is nothing to load.")
		return c, nil
	}
	var total loader.Preview
	for _, set := range sets[:min(len(sets), setsPlanned)] {
		p, err := k.Plan(ctx, spec, set, jobs.Ask{Kind: loader.Load, By: by})
		if err != nil {
			c.Notes = append(c.Notes, set.Dataset+" cannot be planned: "+err.Error())
			continue
		}
		c.take(set.Dataset, p.Preview, &total)
	}
	if n := len(sets) - setsPlanned; n > 0 {
		c.Notes = append(c.Notes, plural(n, "more data set")+" are planned when their runs start.")
	}
	c.Facts = append(previewFacts(&total), fact{"Data sets", count(len(sets))})
	return c, nil
}

// take adds what a plan would load to the preview and to the total.
func (c *confirm) take(dataset string, p *loader.Preview, total *loader.Preview) {
	if p == nil {
		return
	}
	switch p.Status {
	case loader.PreviewCovered:
		c.Notes = append(c.Notes, dataset+": nothing is left to load; the run ends at once, as covered.")
	case loader.PreviewResume:
		c.Notes = append(c.Notes, dataset+": an open plan goes on first, with what its tasks have staged.")
	}
	total.Rows, total.Bytes = total.Rows+p.Rows, total.Bytes+p.Bytes
	total.Splits, total.Hours, total.Retires = append(total.Splits, p.Splits...), append(total.Hours, p.Hours...), append(total.Retires, p.Retires...)
	c.Ranges = append(c.Ranges, linesOf(dataset, p.Ranges)...)
}

func linesOf(dataset string, ranges []loader.PreviewRange) []rangeLine {
	var out []rangeLine
	for _, in := range ranges {
		if in.Start < in.End {
			out = append(out, rangeLine{Dataset: dataset, Topic: in.Topic, Partition: in.Partition, Start: int64(in.Start), End: int64(in.End), Gap: in.Gap})
		}
	}
	return out
}

// previewFacts are the sums of a preview.
func previewFacts(p *loader.Preview) []fact {
	out := []fact{
		{"Rows, at most", count(p.Rows)},
		{"Of the log, about", size(p.Bytes)},
		{"Splits", count(len(p.Splits))},
		{"Hours, about", count(len(p.Hours))},
	}
	if len(p.Retires) > 0 {
		out = append(out, fact{"Files replaced", count(len(p.Retires))})
	}
	return out
}

func (k *console) doRun(ctx context.Context, r *http.Request) (string, error) {
	runs, err := k.Jobs.Trigger(ctx, jobs.Trigger{Job: r.PathValue("job"), By: by, AcceptGap: strings.TrimSpace(r.FormValue("accept_gap"))})
	if err != nil {
		return "", err
	}
	if len(runs) == 1 {
		return runPath(runs[0].Run), nil
	}
	return jobPath(r.PathValue("job")), nil
}

func (k *console) askPause(_ context.Context, r *http.Request, z zone) (*confirm, error) {
	st, err := k.Jobs.Get(r.PathValue("job"))
	if err != nil {
		return nil, err
	}
	c := &confirm{
		Title: "Pause " + st.Name, Job: st.Name, Back: jobPath(st.Name), Name: st.Name, Button: "Pause", Line: "sawlog job pause " + shell(st.Name) + " --reason WHY",
		Does:   "Ticks make no runs until somebody resumes the job. Runs that are queued or going on are not touched.",
		Fields: []field{{Name: "reason", Label: "Reason", Type: "text", Hint: "for those who look later"}},
	}
	if !st.Next.IsZero() {
		c.Facts = append(c.Facts, fact{"First tick without a run", z.Minute(st.Next)})
	}
	if st.Catchup != "" {
		c.Facts = append(c.Facts, fact{"Catch-up when it is resumed", st.Catchup})
	}
	c.Facts = append(c.Facts, fact{"Open runs", count(st.Open)})
	return c, nil
}

func (k *console) doPause(ctx context.Context, r *http.Request) (string, error) {
	job := r.PathValue("job")
	return jobPath(job), k.Jobs.Pause(ctx, job, by, strings.TrimSpace(r.FormValue("reason")))
}

func (k *console) askResume(ctx context.Context, r *http.Request, _ zone) (*confirm, error) {
	st, err := k.Jobs.Get(r.PathValue("job"))
	if err != nil {
		return nil, err
	}
	catchup, err := k.Jobs.Resume(ctx, st.Name, true)
	if err != nil {
		return nil, err
	}
	return &confirm{
		Title: "Resume " + st.Name, Job: st.Name, Back: jobPath(st.Name), Name: st.Name, Button: "Resume", Line: "sawlog job resume " + shell(st.Name),
		Does:  "Ticks make runs again. " + sentence(catchup.String()),
		Facts: []fact{{"Missed ticks", count(catchup.Ticks)}, {"Runs they make, for each data set", count(catchup.Runs)}},
	}, nil
}

// sentence begins with a capital and ends with a stop.
func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}

func (k *console) doResume(ctx context.Context, r *http.Request) (string, error) {
	job := r.PathValue("job")
	_, err := k.Jobs.Resume(ctx, job, false)
	return jobPath(job), err
}

// askBackfill is a form while no window is named, then the preview of one.
func (k *console) askBackfill(ctx context.Context, r *http.Request, z zone) (*confirm, error) {
	st, err := k.Jobs.Get(r.PathValue("job"))
	if err != nil {
		return nil, err
	}
	ask, err := k.backfillAsk(r)
	if err != nil {
		return nil, err
	}
	day := k.Now().UTC().Truncate(24 * time.Hour)
	from, to := r.FormValue("from"), r.FormValue("to")
	c := &confirm{
		Title: "Backfill " + st.Name, Job: st.Name, Back: jobPath(st.Name), Name: st.Name, Form: r.URL.Path,
		Does: "Carries out the ticks of a window that were missed, or whose runs failed; or, with all, loads the hours of the window again by the job as it is now. Nothing is made before it was shown here.",
		Fields: []field{
			{Name: "from", Label: "From", Type: "text", Value: cmp.Or(from, day.AddDate(0, 0, -1).Format(time.DateOnly)), Hint: "a date, 2026-11-29T14, RFC 3339, or -24h"},
			{Name: "to", Label: "To, not included", Type: "text", Value: cmp.Or(to, day.Format(time.DateOnly))},
			{Name: "only", Label: "Which ticks", Type: "select", Value: ask.Only, Options: []string{jobs.OnlyMissing, jobs.OnlyFailed, jobs.OnlyAll}},
			{Name: "order", Label: "Order", Type: "select", Value: ask.Order, Options: []string{jobs.OldestFirst, jobs.NewestFirst}, Hint: "first"},
			gapField(r),
		},
	}
	if from == "" || to == "" {
		return c, nil
	}
	ask.DryRun = true
	b, err := k.Jobs.Backfill(ctx, ask)
	if err != nil {
		return nil, err
	}
	c.backfillPreview(b, z)
	c.Line = backfillLine(ask)
	c.Hidden = []fact{
		{"from", ask.From.UTC().Format(time.RFC3339)},
		{"to", ask.To.UTC().Format(time.RFC3339)},
		{"only", ask.Only},
		{"order", ask.Order},
		{"accept_gap", ask.AcceptGap},
	}
	return c, nil
}

// backfillPreview shows what each run would load.
func (c *confirm) backfillPreview(b *jobs.BackfillView, z zone) {
	c.Facts = []fact{
		{"Runs", count(b.Total)},
		{"Rows, at most", count(b.Rows)},
		{"Of the log, about", size(b.Bytes)},
		{"Files, about", count(b.Files)},
		{"From", z.Minute(b.From)},
		{"To, not included", z.Minute(b.To)},
	}
	if b.Total == 0 {
		c.Notes = append(c.Notes, sentence(b.Say))
		return
	}
	c.Button = "Start " + plural(b.Total, "run")
	if b.Only == jobs.OnlyAll {
		c.Notes = append(c.Notes, "What was loaded is replaced in whole splits, so rows of other hours in them are loaded again too. Readers see the old files until each run commits.")
		c.Danger = true
	}
	for _, it := range b.Items {
		line := itemLine{ItemView: it}
		if it.Window != nil {
			line.Ranges = linesOf(it.Dataset, it.Window.Ranges)
		}
		c.Items = append(c.Items, line)
	}
}

// backfillAsk reads the form of a backfill.
func (k *console) backfillAsk(r *http.Request) (jobs.BackfillAsk, error) {
	ask := jobs.BackfillAsk{
		Job: r.PathValue("job"), Only: cmp.Or(r.FormValue("only"), jobs.OnlyMissing), Order: cmp.Or(r.FormValue("order"), jobs.OldestFirst),
		By: by, AcceptGap: strings.TrimSpace(r.FormValue("accept_gap")),
	}
	for _, bound := range []struct {
		text string
		to   *time.Time
	}{{r.FormValue("from"), &ask.From}, {r.FormValue("to"), &ask.To}} {
		if bound.text == "" {
			continue
		}
		at, err := offsets.ParseTime(strings.TrimSpace(bound.text), k.Now())
		if err != nil {
			return ask, &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: err.Error(), Hint: "times look like 2026-11-29, 2026-11-29T14, 2026-11-29T14:00:00Z or -24h"}
		}
		*bound.to = at
	}
	return ask, nil
}

// backfillLine is the equal command line, with the window as it was read.
func backfillLine(ask jobs.BackfillAsk) string {
	line := fmt.Sprintf("sawlog backfill %s --from %s --to %s --only %s", shell(ask.Job), ask.From.UTC().Format(time.RFC3339), ask.To.UTC().Format(time.RFC3339), ask.Only)
	if ask.Order != jobs.OldestFirst {
		line += " --order " + ask.Order
	}
	if ask.AcceptGap != "" {
		line += " --accept-gap " + shell(ask.AcceptGap)
	}
	return line
}

func (k *console) doBackfill(ctx context.Context, r *http.Request) (string, error) {
	ask, err := k.backfillAsk(r)
	if err != nil {
		return "", err
	}
	b, err := k.Jobs.Backfill(ctx, ask)
	if err != nil {
		return "", err
	}
	if b.ID == "" {
		return jobPath(ask.Job), nil // there was nothing to do
	}
	return "/console/backfills/" + url.PathEscape(b.ID), nil
}

// steer pauses, resumes or cancels a backfill, or retries what failed of it.
func (k *console) steer(how string) act {
	does := map[string]string{
		jobs.SteerPause:  "No further run of it begins; what runs goes on.",
		jobs.SteerResume: "Its waiting runs begin again, one after another in each data set.",
		jobs.SteerCancel: "Its runs that go on are stopped and their plans written off; the waiting ones get none. What has committed stays.",
		jobs.SteerRetry:  "Tries again what failed of it, and nothing else.",
	}[how]
	return act{
		ask: func(_ context.Context, r *http.Request, _ zone) (*confirm, error) {
			b, err := k.Jobs.GetBackfill(r.PathValue("backfill"))
			if err != nil {
				return nil, err
			}
			if err := b.CannotSteer(how); err != nil {
				return nil, err
			}
			c := &confirm{
				Title: strings.ToUpper(how[:1]) + how[1:] + " backfill", Job: b.Job, Back: "/console/backfills/" + url.PathEscape(b.ID), Name: b.ID,
				Does: does, Button: strings.ToUpper(how[:1]) + how[1:], Danger: how == jobs.SteerCancel, Line: "sawlog backfill " + how + " " + shell(b.ID),
			}
			for _, p := range barOf(b) {
				c.Facts = append(c.Facts, fact{p.State, count(p.N)})
			}
			if how == jobs.SteerRetry {
				for _, it := range b.Items {
					if it.State == jobs.Failed || it.State == jobs.Partial {
						c.Items = append(c.Items, itemLine{ItemView: it})
					}
				}
			}
			return c, nil
		},
		do: func(ctx context.Context, r *http.Request) (string, error) {
			id := r.PathValue("backfill")
			_, err := k.Jobs.SteerBackfill(ctx, id, how, by)
			return "/console/backfills/" + url.PathEscape(id), err
		},
	}
}
