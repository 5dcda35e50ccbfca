package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sawlog/jobs"
)

// act is something a person can have done. Asked for by GET it is a page that
// says exactly what it would do and the equal command line; by POST it is done,
// and the answer leads to where its outcome is seen.
type act struct {
	ask func(context.Context, *http.Request, zone) (*confirm, error)
	do  func(context.Context, *http.Request) (to string, err error)
}

// confirm is what the page of an act says.
type confirm struct {
	Title  string
	Job    string // it concerns
	Back   string // where it came from
	Name   string // of Back
	Does   string // what it does, in a sentence
	Facts  []fact
	Ranges []rangeLine
	Items  []itemLine // of a backfill
	Pages  pager      // of ranges, items and tables: they are turned together
	Notes  []string
	Tables []table // what would change
	Fields []field // of the form
	Form   string  // where the fields lead to another preview; empty = they go with the deed
	Hidden []fact  // go with the deed, unseen
	Button string  // empty = there is nothing to do
	Danger bool
	Line   string // the equal command line
	Path   string // where the deed is posted

	Settings []topicSetting // configs, of the form
	Of       string         // what Typed is the name of
	Typed    string         // the name that has to be typed for the deed; empty = none
	Wrong    string         // why the form can't be carried out as it stands
	Hint     string         // the way out of it
	Status   int            // of the answer; 0 = 200
}

// Open tells whether the configs of the form are seen at once: not where a preview
// stands below them, and of a new topic only once some have a value.
func (c *confirm) Open() bool {
	return c.Button == "" && (c.Fields[0].Name != "name" || slices.ContainsFunc(c.Settings, func(s topicSetting) bool { return s.Value != "" }))
}

// table is lines of what would change.
type table struct {
	Title   string
	Heads   []string
	Numbers int // so many columns, the last ones, are numbers
	Rows    [][]string
}

// Number tells whether a column is of numbers.
func (t table) Number(column int) bool { return column >= len(t.Heads)-t.Numbers }

func (t *table) add(cells ...string) { t.Rows = append(t.Rows, cells) }

// turn keeps the page of each list that is asked for: previews may be long.
func (c *confirm) turn(r *http.Request) {
	longest := max(len(c.Ranges), len(c.Items))
	for _, t := range c.Tables {
		longest = max(longest, len(t.Rows))
	}
	c.Pages = pages(r, longest, linesOnPage)
	c.Ranges, c.Items = shownOf(c.Ranges, c.Pages), shownOf(c.Items, c.Pages)
	for i := range c.Tables {
		c.Tables[i].Rows = shownOf(c.Tables[i].Rows, c.Pages)
	}
}

// shownOf is the part of a list that a page shows.
func shownOf[T any](list []T, p pager) []T {
	return list[min(p.From, len(list)):min(p.To, len(list))]
}

// refused keeps why a form can't be carried out, for the page that shows the form
// again; other errors it gives back.
func (c *confirm) refused(err error) (*confirm, error) {
	refusal, ok := errors.AsType[*jobs.Refusal](err)
	if !ok {
		return nil, err
	}
	c.Wrong, c.Hint, c.Status = refusal.Msg, refusal.Hint, statusOf(refusal)
	for i := range c.Settings {
		c.Settings[i].Wrong = names(refusal.Msg, c.Settings[i].Name)
	}
	return c, nil
}

// names tells whether a text holds a name of a config as a word.
func names(text, name string) bool {
	return slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" :,\"'()", r) }), name)
}

// fact is one thing with its name.
type fact struct{ Name, Value string }

// field is an input of a form.
type field struct {
	Name, Label, Value, Type string // text | checkbox | select | hidden
	Hint                     string
	Options                  []string
}

// rangeLine is a range that is read.
type rangeLine struct {
	Dataset   string
	Topic     string
	Partition int32
	Start     int64
	End       int64
	Gap       int64
}

// Offsets is how many it has.
func (l rangeLine) Offsets() int64 { return l.End - l.Start }

// itemLine is one run a backfill would make.
type itemLine struct {
	jobs.ItemView
	Ranges []rangeLine
}

// linesOnPage is how many lines of each of its lists a preview shows.
const linesOnPage = 200

// acts are all there are, by their path below /console/.
func (k *console) acts() map[string]act {
	return map[string]act{
		"jobs/{job}/run":              {k.askRun, k.doRun},
		"jobs/{job}/pause":            {k.askPause, k.doPause},
		"jobs/{job}/resume":           {k.askResume, k.doResume},
		"jobs/{job}/verify":           {k.askVerifySet, k.doVerifySet},
		"jobs/{job}/backfill":         {k.askBackfill, k.doBackfill},
		"runs/{run}/cancel":           {k.askCancel, k.doCancel},
		"runs/{run}/retry":            {k.askRetry, k.doRetry},
		"runs/{run}/verify":           {k.askVerify, k.doVerify},
		"runs/{run}/rerun":            {k.askRerun, k.doRerun},
		"runs/{run}/again":            {k.askAgain, k.doAgain},
		"backfills/{backfill}/pause":  k.steer(jobs.SteerPause),
		"backfills/{backfill}/resume": k.steer(jobs.SteerResume),
		"backfills/{backfill}/cancel": k.steer(jobs.SteerCancel),
		"backfills/{backfill}/retry":  k.steer(jobs.SteerRetry),
		"newtopic":                    {k.askNewTopic, k.doNewTopic},
		"topics/{topic}/configs":      {k.ofTopic(k.askConfigs), k.doConfigs},
		"topics/{topic}/partitions":   {k.ofTopic(k.askPartitions), k.doPartitions},
		"topics/{topic}/trim":         {k.ofTopic(k.askTrim), k.doTrim},
		"topics/{topic}/delete":       {k.ofTopic(k.askDeleteTopic), k.doDeleteTopic},
		"group/delete":                {k.askDeleteGroup, k.doDeleteGroup},
		"group/offsets":               {k.askDeleteOffsets, k.doDeleteOffsets},
	}
}

// placeOf is the place in the navigation that an act belongs to.
func placeOf(path string) string {
	switch room, _, _ := strings.Cut(path, "/"); room {
	case "newtopic", "topics":
		return "topics"
	case "group":
		return "groups"
	default:
		return room
	}
}

// routeActs gives each act its page and its deed.
func (k *console) routeActs(mux *http.ServeMux) {
	for path, a := range k.acts() {
		nav := placeOf(path)
		mux.HandleFunc("GET /console/"+path, func(w http.ResponseWriter, r *http.Request) {
			z, err := formOf(r)
			if err != nil {
				k.cannot(w, nav, err)
				return
			}
			c, err := a.ask(r.Context(), r, z)
			if err != nil {
				k.cannot(w, nav, err)
				return
			}
			c.Path = r.URL.Path
			c.turn(r)
			k.show(w, cmp.Or(c.Status, http.StatusOK), "confirm.html", page{Title: c.Title, Nav: nav, Still: true, Zone: z, Body: c})
		})
		mux.HandleFunc("POST /console/"+path, func(w http.ResponseWriter, r *http.Request) {
			z, err := formOf(r)
			if err != nil {
				k.cannot(w, nav, err)
				return
			}
			to, err := a.do(r.Context(), r)
			if err != nil {
				k.cannot(w, nav, err)
				return
			}
			http.Redirect(w, r, page{Zone: z}.Link(to), http.StatusSeeOther)
		})
	}
}

// formOf reads the form of an act, and the zone of its page.
func formOf(r *http.Request) (zone, error) {
	if err := r.ParseForm(); err != nil {
		return zone{}, &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: "the form does not read: " + err.Error()}
	}
	return zoneOf(r)
}

// cannot shows why an act can't be shown or done.
func (k *console) cannot(w http.ResponseWriter, nav string, err error) {
	if nav == "topics" || nav == "groups" {
		k.refuse(w, nav, err)
		return
	}
	k.missing(w, err)
}

// typed refuses a deed whose page asks for a name that was not typed.
func typed(r *http.Request, of, name string) error {
	if r.PostFormValue("typed") == name {
		return nil
	}
	return &jobs.Refusal{
		Kind: jobs.ErrInvalid, Msg: "the name that was typed is not " + strconv.Quote(name) + ": nothing was done",
		Hint: "go back and type the name of the " + of + " to say that you mean it",
	}
}

// by is who the history says asked for something.
const by = "console"

func jobPath(job string) string { return "/console/jobs/" + url.PathEscape(job) }

func runPath(run string) string { return "/console/runs/" + url.PathEscape(run) }
