package mutants

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	seeds  = flag.Int("seeds", 50, "runs of the model for each mutant")
	traces = flag.Int("traces", 400, "traces in each of them")
	only   = flag.String("mutant", "", "the one to run")
)

// mutant is one broken rule: the text of a file, which must be there exactly
// once, and what it is replaced by.
type mutant struct {
	name, rule string
	file       string
	old, new   string
	harness    harness
}

// harness is the test that must notice.
type harness struct {
	pkg, run string
	// traces: the model, which takes a first seed and a number of traces. Else
	// each failing subtest counts, or the run as a whole where it has none.
	traces bool
}

var (
	model   = harness{"./broker/model", "TestRandomTraces", true}
	group   = harness{"./broker/group", "TestOffsetsNeverGoBack", false}
	crashes = harness{"./broker/log", "Crash|Kill|Torn|Recover|Flush|Producer|FirstError", false}
	scripts = harness{"./broker/replica", "TestScripts", false}
	disk    = harness{"./broker", "TestUnknownFoldersAreSetAside", false}
)

var mutants = []mutant{
	{
		"M1", "R5: a follower cuts back to its high watermark", "broker/replica/state_follower.go",
		"to := min(d.End, s.logEnd)", "to := min(d.End, s.highWatermark)", model,
	},
	{
		"M2", "R2: one round of truncation, an end that is high enough is taken for agreement", "broker/replica/state_leader.go",
		"(epoch < f.LastEpoch || end < f.At)", "end < f.At", model,
	},
	{
		"M3", "I1: a follower joins without what the leader began its epoch with", "broker/replica/state_isr.go",
		"f.end >= s.highWatermark && f.end >= s.epochStart", "f.end >= s.highWatermark", model,
	},
	{
		"M4", "I1: the registration a follower fetched under isn't compared", "broker/replica/state_isr.go",
		"f.brokerEpoch == brokerEpoch && f.end", "f.end", model,
	},
	{
		"M5", "H1: the high watermark waits for the committed ISR only", "broker/replica/state_leader.go",
		"{s.assigned.ISR, s.asked}", "{s.assigned.ISR, nil}", model,
	},
	{
		"M6", "H4: acknowledged once appended", "broker/replica/state_leader.go",
		"return s.highWatermark >= end, nil", "return s.logEnd >= end, nil", model,
	},
	{
		"M7", "H2: the high watermark moves below min.insync.replicas", "broker/replica/state.go",
		"if s.Leads() && !s.UnderMinISR() {", "if s.Leads() {", model,
	},
	{
		"M8", "C1: offsets are applied up to the log end", "broker/group/applier.go",
		"Read(partition, at.Offset, high, readBytes)", "Read(partition, at.Offset, 1<<62, readBytes)", group,
	},
	{
		"M9", "D1: recovery doesn't check CRCs", "broker/log/recover.go",
		"return b, b.CheckCRC()", "return b, nil", crashes,
	},
	{
		"M10", "E2: an unclean start keeps its place in the ISR and ELR", "broker/controller/state_broker.go",
		"intact := r.Intact && known", "intact := known", model,
	},
	{
		"M11", "D7: a failed fsync is tried again", "broker/log/flush.go",
		"err = f.Sync()", "if err = f.Sync(); err != nil {\nerr = f.Sync()\n}", crashes,
	},
	{
		"M12", "D1: producers aren't known again after recovery", "broker/log/recover.go",
		"r.log.producers.apply(b, r.now)", "_ = r.now", crashes,
	},
	{
		"M13", "R3: a fetch that diverges counts", "broker/replica/state_leader.go",
		"return &EpochEnd{Epoch: epoch, End: min(end, s.logEnd)}, nil",
		"s.fetched(f)\nreturn &EpochEnd{Epoch: epoch, End: min(end, s.logEnd)}, nil", model,
	},
	{
		"M14", "strays are deleted at once", "broker/log/disk.go",
		"_, err := d.forget(l, straySuffix)", "_, err := d.forget(l, deleteSuffix)", disk,
	},
	{
		"N1", "R7: what can't be compared with the leader's log counts", "broker/replica/state_leader.go",
		"f.At < s.logStart || f.At == s.logStart && f.Start < f.At", "f.At < s.logStart", scripts,
	},
	{
		"N2", "I4: an ask whose answer was lost is forgotten", "broker/replica/state_isr.go",
		"s.asking, s.doubt = false, true", "s.asking, s.asked = false, nil", model,
	},
	{
		"N3", "I3: asking for the present ISR begins no partition epoch", "broker/controller/state_isr.go",
		"	if rec == nil {", "	if rec == nil {\nreturn decision{}, nil\n}\nif rec == nil {", model,
	},
	{
		"N4", "E1: leaders come from outside ISR and ELR", "broker/controller/state_election.go",
		"if next.Leader == offsets.NoBroker && unclean {", "if next.Leader == offsets.NoBroker {", model,
	},
	{
		"N5", "I4: an old assignment is taken", "broker/replica/state.go",
		"a.PartitionEpoch < was.PartitionEpoch || a.Epoch < was.Epoch || a.Image < was.Image", "a.Epoch < was.Epoch", model,
	},
}

const root = "../../.."

// TestMutants first passes the same seeds unbroken.
func TestMutants(t *testing.T) {
	dir := t.TempDir()
	sound := map[string]bool{}
	for _, m := range mutants {
		if *only != "" && *only != m.name {
			continue
		}
		if key := m.harness.pkg + m.harness.run; !sound[key] {
			sound[key] = true
			if caught, of, said := count(t, build(t, dir, m.harness.pkg, ""), m.harness); caught > 0 {
				t.Fatalf("%s %s fails %d of %d without a mutant:\n%s", m.harness.pkg, m.harness.run, caught, of, said)
			}
		}
		caught, of, _ := count(t, build(t, dir, m.harness.pkg, overlay(t, dir, m)), m.harness)
		t.Logf("%-4s %3d of %3d  %s (%s)", m.name, caught, of, m.rule, m.harness.pkg)
		if caught == 0 {
			t.Errorf("%s was not caught", m.name)
		}
	}
}

// TestMutantsFit: every rule still stands where its mutant looks for it, and the
// package's doc has a row for each.
func TestMutantsFit(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		broken(t, m)
		row := regexp.MustCompile(`(?m)^//\t` + m.name + ` +[1-9][0-9]* of +[0-9]+ +` + m.harness.pkg[len("./"):] + ` +` + regexp.QuoteMeta(m.rule) + `$`)
		if n := len(row.FindAll(doc, -1)); n != 1 {
			t.Errorf("doc.go has %d rows of %s, by %s: %s", n, m.name, m.harness.pkg, m.rule)
		}
	}
}

// broken is a mutant's file, and what stands in it then.
func broken(t *testing.T, m mutant) (path, text string) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		t.Fatal(err)
	}
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(sound), m.old); n != 1 {
		t.Fatalf("%s: %q is %d times in %s", m.name, m.old, n, m.file)
	}
	return path, strings.Replace(string(sound), m.old, m.new, 1)
}

// overlay writes the broken file and tells the go command of it.
func overlay(t *testing.T, dir string, m mutant) string {
	t.Helper()
	path, text := broken(t, m)
	broken := filepath.Join(dir, m.name+".go")
	if err := os.WriteFile(broken, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {path: broken}})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, m.name+".json")
	if err := os.WriteFile(name, list, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func build(t *testing.T, dir, pkg, overlay string) string {
	t.Helper()
	bin := filepath.Join(dir, "tests")
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay="+overlay, "-o", bin, pkg)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", pkg, err, out)
	}
	return bin
}

var failure = regexp.MustCompile(`(?m)^    --- FAIL: \S+/`)

// count runs a harness and tells how many of its seeds failed, and what a run said
// that did.
func count(t *testing.T, bin string, h harness) (caught, of int, said string) {
	t.Helper()
	run := func(args ...string) (string, bool) {
		cmd := exec.Command(bin, append([]string{"-test.run", h.run, "-test.timeout", "5m"}, args...)...)
		cmd.Dir = filepath.Join(root, h.pkg)
		out, err := cmd.CombinedOutput()
		return string(out), err != nil
	}
	if h.traces {
		for i := range *seeds {
			if out, failed := run("-shrink=false", fmt.Sprint("-first=", i**traces), fmt.Sprint("-traces=", *traces)); failed {
				caught++
				said = out
			}
		}
		return caught, *seeds, said
	}
	out, failed := run("-test.v")
	if n := len(failure.FindAllString(out, -1)); n > 0 {
		return n, strings.Count(out, "    --- "), out
	}
	if failed {
		return 1, 1, out
	}
	return 0, 1, ""
}
