package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sawlog/cmd/sawlog/output"
	"sawlog/jobs"
)

// rehearsals are lines that change something; each is tried with --dry-run.
var rehearsals = []fault{
	{"topic create fresh --partitions 2", 0, ""},
	{"topic create orders", output.Conflict, ""},
	{"topic alter orders --partitions 12 --config retention.ms=5000", 0, ""},
	{"topic delete orders strict", 0, ""},
	{"topic trim orders --to latest", 0, ""},
	{"group reset checkers --topic orders --to latest", 0, ""},
	{"group delete checkers", 0, ""},
	{"group delete checkers --topic orders", 0, ""},
	{"group delete busy", output.Conflict, ""},
	{"group delete busy --topic orders", output.Conflict, ""},
	{"group reset busy --topic orders --to earliest", output.Conflict, ""},
	{"produce orders lines.txt", 0, ""},
	{"cluster drain 1", output.Conflict, ""},
	{"cluster move orders --to 1", 0, ""},
	{"cluster elect", 0, ""},
	{"cluster elect --unclean orders", 0, ""},
	{"cluster forget 1", output.Conflict, ""},
	{"cluster key new.key", 0, ""},
	{"cluster key sawlog.yaml", output.Conflict, ""},
	{"cluster upgrade", 0, ""},
	{"man pages", 0, ""},
	{"run pageviews.yaml", 0, ""},
	{"run jobs/orders.yaml", 0, ""},
	{"run pageviews.yaml --window 2025-06-01..2026-06-01", 0, ""},
	{"run pageviews-hourly", 0, ""},
	{"run --plan plan.json", 0, ""},
	{"rerun RUN", 0, ""},
	{"rerun 4 --root warehouse/pageviews", 0, ""},
	{"rerun RUN --with-current-job", 0, ""},
	{"rerun RUN --with-current-job --job pageviews.yaml", 0, ""},
	{"replay orders --range orders/0=0..5 --to replayed", 0, ""},
	{"backfill pageviews-hourly --from 2026-11-28 --to 2026-11-29 --only all", 0, ""},
	{"backfill strict --from 2020-01-01 --to 2025-01-02", 0, ""},
	{"backfill pause OPEN", 0, ""},
	{"backfill resume OPEN", output.Conflict, ""},
	{"backfill cancel OPEN", 0, ""},
	{"backfill cancel BACKFILL", output.Conflict, ""},
	{"backfill retry BAD", 0, ""},
	{"backfill retry BACKFILL", output.Conflict, ""},
	{"job apply pageviews.yaml jobs/orders.yaml", 0, ""},
	{"job pause pageviews-hourly", 0, ""},
	{"job resume pageviews-hourly", 0, ""},
	{"job delete pageviews-hourly", 0, ""},
	{"runs cancel GOING", 0, ""},
	{"runs cancel RUN", output.Conflict, ""},
	{"runs retry FAILED", 0, ""},
	{"runs retry RUN", output.Conflict, ""},
	{"out rewrite pageviews-hourly", 0, ""},
	{"out requeue 4 --job pageviews.yaml", 0, ""},
	{"out drop pageviews-hourly --window 2026-11-28T14..2026-11-28T15", 0, ""},
	{"out drop pageviews-hourly --run 4", 0, ""},
	{"out amend 4 --root warehouse/pageviews", 0, ""},
}

// writers are the verbs that have no --dry-run and write all the same, with the
// reason.
var writers = map[string]string{
	"serve":     "it is what all else is done with",
	"demo":      "it shows how things are written, in a folder of its own",
	"task exec": "an engine calls it, for a plan that is carried out",
	"consume":   "only with -g it commits offsets; without, it is the look at what would be read",
}

// rehearsed: with --dry-run a verb says what it would do, ends with the code it
// would end with, and changes nothing; verbs without it change nothing at all.
func (s *shop) rehearsed() {
	t := s.t
	seen := map[string]bool{}
	before := s.state()
	for _, r := range rehearsals {
		seen[leafOf(t, r.line)] = true
		code, out, told := invoke(t, "", append(s.words(r.line), "--dry-run", "-o", "json")...)
		if code != r.code {
			t.Errorf("%s --dry-run: exit code %d, want %d: %s", r.line, code, r.code, told)
		} else if code == output.OK {
			if err := oneValue(out); err != nil {
				t.Errorf("%s --dry-run: %v", r.line, err)
			}
		}
	}
	s.unchanged(before)
	for _, c := range leaves(tree()) {
		name, has := leafName(c), c.Flags().Lookup("dry-run") != nil
		if has && !seen[name] {
			t.Errorf("%s --dry-run is not rehearsed", name)
		}
		if has && writers[name] != "" {
			t.Errorf("%s has a --dry-run", name)
		}
		seen[name] = has || writers[name] != ""
	}
	for _, ask := range conversation {
		if seen[leafOf(t, ask.line)] || strings.Contains(ask.line, "fresh") {
			continue
		}
		if code, _, told := invoke(t, "", s.words(ask.line)...); code != ask.code {
			t.Errorf("%s: exit code %d, want %d: %s", ask.line, code, ask.code, told)
		}
	}
	s.unchanged(before)
}

// state is all that verbs can change, by name: topics with their settings and
// offsets, groups, jobs, runs, backfills, and the files of the folder. What the
// server does by itself meanwhile is left out.
func (s *shop) state() map[string]string {
	s.t.Helper()
	all := map[string]string{}
	take := func(line string) string {
		out := s.sawlog(append(strings.Fields(line), "-o", "json")...)
		all[line] = out
		return out
	}
	var topics []topicLine
	s.read(take("topic list"), &topics)
	for _, topic := range topics {
		take("topic describe " + topic.Name)
	}
	var groups []groupLine
	s.read(take("group list"), &groups)
	for _, group := range groups {
		take("group describe " + group.Group)
	}
	var list []jobs.Status
	s.read(take("job list"), &list)
	for _, job := range list {
		take("job get " + job.Name)
	}
	take("backfill list")
	take("cluster brokers")
	take("cluster upgrade --dry-run")
	var runs []jobs.Run
	s.read(s.sawlog("runs", "list", "--limit", "1000", "-o", "json"), &runs)
	for _, run := range runs {
		all["run "+run.Run] = fmt.Sprint(run.Status, run.Attempt, run.Ended, run.By)
	}
	maps.Copy(all, s.tree())
	return all
}

func (s *shop) read(text string, into any) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		s.t.Fatalf("%v: %.200s", err, text)
	}
}

// tree is the files of the folder by their content, but for the server's own and
// for those of the load that goes on.
func (s *shop) tree() map[string]string {
	s.t.Helper()
	own := []string{filepath.Join(s.dir, "data"), filepath.Join(s.dir, "warehouse", "slow"), s.bin}
	files := map[string]string{}
	err := filepath.WalkDir(s.dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case slices.Contains(own, path) && d.IsDir():
			return filepath.SkipDir
		case d.IsDir():
			files[path] = "a folder"
			return nil
		case slices.Contains(own, path):
			return nil
		}
		raw, err := os.ReadFile(path)
		files[path] = fmt.Sprintf("%x", sha256.Sum256(raw))
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return files
}

// unchanged compares the state with what it was.
func (s *shop) unchanged(before map[string]string) {
	s.t.Helper()
	after := s.state()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if after[name] != before[name] {
			s.t.Errorf("%s was changed: %.600s, was %.600s", name, after[name], before[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, had := before[name]; !had {
			s.t.Errorf("%s was made: %.600s", name, after[name])
		}
	}
}
