package api

import (
	"net/http"
	"slices"

	"sawlog/jobs"
	"sawlog/loader"
)

// route is one row of the API: what is asked for, what is answered, and who
// does it. openapi.json is made of the table, the types in it and their
// comments; openapi_test.go holds it to both and to real answers.
type route struct {
	method, path string
	jobs         bool   // only the node that runs the scheduler can answer
	says         string // one line
	more         string // what else is to be known
	query        []param
	body         any      // what its JSON is read into, as an example; a string is no JSON
	answer       any      // a value of the type that is answered
	kind         string   // content type of the answer; "" = JSON
	codes        []string // errors of its own, besides those that any request may get
	do           http.HandlerFunc
}

// param is one parameter of the query.
type param struct {
	name, kind, says, example string // kind: string, integer, boolean or time
}

var (
	dryRun = param{"dry_run", "boolean", "change nothing, say what would happen", "true"}
	paged  = []param{{"limit", "integer", "entries of a page, 1 to 1000; very long entries make it shorter", "200"}, {"after", "string", "next of the page before", ""}}
	// Of previews, which may be long.
	previewed = append([]param{{"whole", "boolean", "all of it and the plan, too, in one answer: what a plan file holds", "true"}}, paged...)
	itemized  = append([]param{{"whole", "boolean", "all items in one answer", "true"}}, paged...)
	// What a data set's own records may have against what is asked for.
	ofALedger = []string{CodeNotFound, CodeConflict, CodeMismatch}
	ofAJob    = param{"job", "string", "of this job only", "pageviews-hourly"}
	between   = []param{
		{"from", "time", "not before it: RFC 3339, a date, a date and hour, seconds or milliseconds since 1970, -24h or now", "2026-11-29T00:00:00Z"},
		{"to", "time", "before it", "2026-11-30T00:00:00Z"},
	}
)

// previewPages says what a page of previews is.
const previewPages = "A page is of the ranges, splits, hours and retired files of each preview, one list behind the other. It is planned anew for each page, and a page of other plans than the page before is a conflict: ask up to a moment that has passed, or for the whole."

// routes is the table of contents of /api/v1.
func (s *server) routes() []route {
	return slices.Concat(s.jobRoutes(), s.runRoutes(), s.datasetRoutes(), s.clusterRoutes())
}

func (s *server) jobRoutes() []route {
	rows := []route{
		{method: "GET", path: "/jobs", says: "List the jobs, by name", query: paged, answer: JobList{}, do: s.listJobs},
		{
			method: "POST", path: "/jobs", says: "Apply a job file: make the job, or change it",
			more:  "The body is the job file itself, at most 1 MiB. A new job's first tick is the next one; what a change makes of missed ticks is said in the answer.",
			query: []param{{"path", "string", "name of the file, for messages", "pageviews.yaml"}, dryRun}, body: exampleJob,
			answer: jobs.Applied{}, codes: []string{CodeConflict}, do: s.applyJob,
		},
		{method: "GET", path: "/jobs/{job}", says: "Get a job with its file", answer: jobs.Status{}, codes: []string{CodeNotFound}, do: s.getJob},
		{
			method: "DELETE", path: "/jobs/{job}", says: "Forget a job and its history",
			more: "None of its runs may be going on. Files and ledgers stay.", answer: Deleted{}, codes: []string{CodeNotFound, CodeConflict}, do: s.deleteJob,
		},
		{method: "GET", path: "/jobs/{job}/explain", says: "Get the effective job file, defaults included", answer: "name: pageviews-hourly\n", kind: "application/yaml", codes: []string{CodeNotFound}, do: s.explainJob},
		{
			method: "GET", path: "/jobs/{job}/next", says: "List the ticks to come", query: []param{{"n", "integer", "how many, 1 to 1000", "10"}},
			answer: TickList{}, codes: []string{CodeNotFound}, do: s.nextTicks,
		},
		{
			method: "GET", path: "/jobs/{job}/hours", says: "Get the hours of a job's data sets and what is in them",
			more:  "A page is of data sets, by name. Without bounds the last 72 hours; at most 400 days.",
			query: slices.Concat([]param{{"dataset", "string", "of this data set only", "pageviews-hourly"}}, between, paged), answer: HourList{}, codes: []string{CodeNotFound}, do: s.hours,
		},
		{
			method: "POST", path: "/jobs/{job}/pause", says: "Stop a job's ticks from making runs", body: PauseAsk{Reason: "the source is being moved"},
			answer: jobs.Status{}, codes: []string{CodeNotFound}, do: s.pauseJob,
		},
		{
			method: "POST", path: "/jobs/{job}/resume", says: "Let a job's ticks make runs again", body: ResumeAsk{DryRun: true},
			answer: Resumed{}, codes: []string{CodeNotFound}, do: s.resumeJob,
		},
		{
			method: "POST", path: "/jobs/{job}/trigger", says: "Queue runs of a job now",
			more: "Without a window one run of each data set, up to the end of the log; with one, a run for each tick that is due in it.",
			body: Trigger{From: "2026-11-29T00", To: "2026-11-30T00"}, answer: RunList{}, codes: []string{CodeNotFound}, do: s.triggerJob,
		},
		{
			method: "POST", path: "/jobs/{job}/plan", says: "Say what runs of a job would load", body: Trigger{Scan: true},
			more: previewPages, query: previewed, answer: PlanList{}, codes: ofALedger, do: s.planJob,
		},
		{method: "GET", path: "/backfills", says: "List backfills without their items, newest first", query: slices.Concat([]param{ofAJob}, paged), answer: BackfillList{}, codes: []string{CodeNotFound, CodeConflict}, do: s.listBackfills},
		{
			method: "POST", path: "/backfills", says: "Make a backfill of a window, or say what it would load",
			more: "A page is of items. What a dry run says is found anew for each page, and a page of other items than the page before is a conflict: ask for all of them with the window that the first one tells.", query: itemized,
			body: Backfill{Job: "pageviews-hourly", From: "2026-11-28", To: "2026-11-30", Only: jobs.OnlyMissing, Order: jobs.NewestFirst}, answer: BackfillPage{}, codes: []string{CodeNotFound, CodeConflict}, do: s.backfill,
		},
		{method: "GET", path: "/backfills/{backfill}", says: "Get a backfill with its items", query: paged, answer: BackfillPage{}, codes: []string{CodeNotFound}, do: s.getBackfill},
	}
	for _, how := range []struct{ verb, says string }{
		{jobs.SteerPause, "Begin no more items of a backfill; what runs goes on"},
		{jobs.SteerResume, "Go on with a paused backfill"},
		{jobs.SteerCancel, "Stop a backfill and what runs of it"},
		{jobs.SteerRetry, "Carry out again the items of a backfill that failed"},
	} {
		rows = append(rows, route{
			method: "POST", path: "/backfills/{backfill}/" + how.verb, says: how.says, answer: jobs.BackfillView{},
			codes: []string{CodeNotFound, CodeConflict}, do: s.steerBackfill(how.verb),
		})
	}
	return onlyThere(rows)
}

// onlyThere marks rows that need the scheduler.
func onlyThere(rows []route) []route {
	for i := range rows {
		rows[i].jobs = true
	}
	return rows
}

func (s *server) runRoutes() []route {
	gone := []string{CodeNotFound, CodeConflict}
	return onlyThere([]route{
		{
			method: "GET", path: "/runs", says: "List runs, newest first",
			query: append([]param{
				ofAJob,
				{"status", "string", "queued, running, committed, covered, failed, partial or cancelled", "failed"},
				{"kind", "string", "made by a tick, manual or backfill", "tick"},
				{"backfill", "string", "of this backfill only", "pageviews-hourly-backfill-20261129T140000Z-00ff"},
				{"tick", "time", "of this tick only", "2026-11-29T14:00:00Z"},
				{"since", "time", "that were queued or ended since", "-24h"},
				{"until", "time", "that were queued or ended before", "now"},
			}, paged...), answer: RunList{}, codes: gone, do: s.listRuns,
		},
		{
			method: "GET", path: "/runs/{run}", says: "Get a run: who or what started it, its attempts, tasks, phases, ranges, hours and counts",
			more:  "A page of the detail is of splits, then of the inputs, files, retired files and sealed hours of the commit, one list behind the other; the rest of a run stands on each. A run that goes on between two pages is a conflict.",
			query: append([]param{{"detail", "boolean", "its plan, splits, and its commit with every file, too; they are read where the data set is", "true"}}, paged...), answer: RunDetail{}, codes: gone, do: s.getRun,
		},
		{method: "POST", path: "/runs/{run}/cancel", says: "Stop a run that has not committed; its plan is abandoned", answer: jobs.Run{}, codes: gone, do: s.cancelRun},
		{method: "POST", path: "/runs/{run}/retry", says: "Queue an ended run again, with its plan and what is staged of it", body: Retry{AcceptBad: true}, answer: jobs.Run{}, codes: gone, do: s.retryRun},
		{
			method: "POST", path: "/runs/{run}/again", says: "Load the offsets of a committed run again, by the job as it is now",
			more: "The new files replace the old ones in one commit. Of a dry run: " + previewPages, query: previewed, body: AgainAsk{DryRun: true}, answer: Again{}, codes: ofALedger, do: s.againRun,
		},
		{method: "POST", path: "/runs/{run}/rerun", says: "Make the files of a committed run again from its plan, byte for byte", answer: loader.RerunReport{}, codes: ofALedger, do: s.overRun("rerun", s.Rerun)},
		{method: "POST", path: "/runs/{run}/verify", says: "Check the files of a committed run against the ledger", answer: loader.VerifyReport{}, codes: ofALedger, do: s.overRun("verify", s.Verify)},
		{
			method: "GET", path: "/events", says: "Follow what happens, as server-sent events",
			more: "Events of the kinds run, task, hour, job and backfill, each an Event as JSON; a comment every 15 s. A reader that was away sends Last-Event-ID, as browsers do, and gets what it missed, or, " +
				"where that is no longer known, one event of the kind reread: then it has to read what it shows anew. A reader that does not keep up is cut off.",
			query: []param{ofAJob}, answer: jobs.Event{}, kind: "text/event-stream", do: s.events,
		},
	})
}

func (s *server) datasetRoutes() []route {
	return onlyThere([]route{
		{method: "GET", path: "/datasets", says: "List the data sets of all jobs, by name", query: paged, answer: DatasetList{}, do: s.listDatasets},
		{method: "GET", path: "/datasets/{dataset}", says: "Get a data set: root, columns, how far each partition is loaded, and what all its hours hold", answer: Dataset{}, codes: ofALedger, do: s.getDataset},
		{
			method: "GET", path: "/datasets/{dataset}/hours", says: "List the hours of a data set that have a history", query: slices.Concat(between, paged),
			answer: DatasetHours{}, codes: ofALedger, do: s.datasetHours,
		},
		{
			method: "GET", path: "/datasets/{dataset}/files", says: "List the visible files of a data set, by path", query: slices.Concat(between, paged),
			answer: DatasetFiles{}, codes: ofALedger, do: s.datasetFiles,
		},
		{method: "POST", path: "/datasets/{dataset}/verify", says: "Check all files of a data set against its ledger", answer: loader.VerifyReport{}, codes: ofALedger, do: s.verifyDataset},
	})
}

func (s *server) clusterRoutes() []route {
	return []route{
		{method: "GET", path: "/cluster", says: "Get the cluster and its brokers", answer: ClusterInfo{}, do: s.overCluster(s.getCluster)},
		{method: "GET", path: "/topics", says: "List the topics that are not internal, by name", query: paged, answer: TopicList{}, do: s.overCluster(s.listTopics)},
		{method: "GET", path: "/topics/{topic}", says: "Get a topic and its partitions", answer: Topic{}, codes: []string{CodeNotFound}, do: s.overCluster(s.getTopic)},
		{
			method: "GET", path: "/groups", says: "List the consumer groups, by name", query: append([]param{{"offsets", "boolean", "where they stand, too", "true"}}, paged...),
			answer: GroupList{}, do: s.overCluster(s.listGroups),
		},
		{method: "GET", path: "/groups/{group}", says: "Get a consumer group and where it stands", answer: Group{}, codes: []string{CodeNotFound}, do: s.overCluster(s.getGroup)},
		{method: "GET", path: "/version", says: "Get the version of the server", answer: Version{}, do: s.version},
		{method: "GET", path: "/openapi.json", says: "Get this document", answer: map[string]any{}, do: s.document},
	}
}

// exampleJob is the smallest job file with a schedule.
const exampleJob = `name: pageviews-hourly
source: {topics: [pageviews]}
schedule: {every: 1h, delay: 5m}
output: {root: 'file:///var/lib/sawlog/warehouse/pageviews'}
`
