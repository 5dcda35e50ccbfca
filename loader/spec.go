package loader

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"sawlog/formats"
	"sawlog/offsets"
)

// Spec is what a job file or a replay asks for, resolved: one data set, its
// source and how its records become files.
type Spec struct {
	Name    string // of the job
	Dataset string // name of the data set; empty = Name

	Brokers   []string // HOST:PORT of the source cluster
	Topics    []string // topic names; empty when Pattern is set
	Pattern   string   // regular expression over topic names
	Isolation string   // read_committed (default) | read_uncommitted
	Start     string   // first run only: earliest (default) | latest | @TIME | group:NAME

	Decode formats.Options
	Schema *formats.Schema // declared columns; nil = inferred and frozen

	Unit     string   // hour (default) | day
	Zone     string   // IANA name; default UTC
	Path     string   // strftime letters; default dt=%Y-%m-%d/hr=%H, for days dt=%Y-%m-%d
	Fields   []string // columns, or key paths of records, whose values make folders below
	Lateness time.Duration

	Root        string // URI of the data set
	Format      string // parquet (default) | arrow | jsonl
	Codec       string // zstd (default), or another of Codecs
	Level       int    // of the codec; 0 = its default
	Encodings   string // of Parquet files: EncodingsPlain, or all there are (default)
	TargetBytes int64  // size a split aims at; default 256 MiB
	Merge       string // auto (default) | always | never
	MergeTopics bool   // several topics share the data set; needs Schema

	MaxBad      MaxBad
	Parallelism int           // tasks at a time; 0 = cores
	Memory      int64         // bytes, divided among the tasks; 0 = 512 MiB
	FetchBytes  int           // bytes of one fetch; 0 = 4 MiB
	Rate        int64         // bytes a second a run may fetch; 0 = no limit
	Retries     int           // attempts after the first of a split
	Timeout     time.Duration // of one attempt; 0 = none
	Hold        time.Duration // age up to which the source keeps what is yet to be loaded; 0 = it isn't asked to
}

// Isolations of a source.
const (
	isolationCommitted   = "read_committed"
	isolationUncommitted = "read_uncommitted"
)

// What merge_partitions may say.
const (
	mergeAuto   = "auto"
	mergeAlways = "always"
	mergeNever  = "never"
)

// EncodingsPlain makes Parquet files of PLAIN and dictionaries alone, for readers
// that know nothing else.
const EncodingsPlain = "plain"

const (
	defaultTarget = 256 << 20
	defaultMemory = 512 << 20
	defaultFetch  = 4 << 20
	startGroup    = "group:"
)

// resolved fills in defaults; the spec itself stays as it is.
func (s *Spec) resolved() *Spec {
	r := *s
	set := func(to *string, value string) {
		if *to == "" {
			*to = value
		}
	}
	set(&r.Dataset, r.Name)
	set(&r.Isolation, isolationCommitted)
	set(&r.Start, "earliest")
	set(&r.Unit, UnitHour)
	set(&r.Zone, "UTC")
	if r.Unit == UnitDay {
		set(&r.Path, "dt=%Y-%m-%d")
	}
	set(&r.Path, "dt=%Y-%m-%d/hr=%H")
	set(&r.Format, formatParquet)
	set(&r.Codec, "zstd")
	set(&r.Merge, mergeAuto)
	if r.TargetBytes == 0 {
		r.TargetBytes = defaultTarget
	}
	r.Decode.Reserved = append(pathKeys(r.Path), r.Fields...)
	return &r
}

// Validate says everything about the spec that cannot be carried out.
func (s *Spec) Validate() error {
	r := s.resolved()
	var wrong []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	oneOf := func(what, value string, allowed ...string) {
		if slices.Contains(allowed, value) {
			return
		}
		wrong = append(wrong, fmt.Errorf("%s %q: want %s", what, value, strings.Join(allowed, ", ")))
	}
	check(r.Name != "", "no job name")
	check(r.Root != "", "no output root")
	check(len(r.Topics) > 0 != (r.Pattern != ""), "source: want topics or a pattern, one of the two")
	if _, err := regexp.Compile(r.Pattern); err != nil {
		wrong = append(wrong, fmt.Errorf("source pattern: %w", err))
	}
	seen := map[string]bool{}
	for _, t := range r.Topics {
		check(t != "" && !seen[t], "source topics: %q is empty or stands twice", t)
		seen[t] = true
	}
	check(len(r.Topics) < 2 || r.MergeTopics, "source: %d topics in one data set need merge_topics", len(r.Topics))
	check(!r.MergeTopics || r.Schema != nil, "merge_topics needs a declared schema")
	oneOf("isolation", r.Isolation, isolationCommitted, isolationUncommitted)
	check(validStart(r.Start), "source start %q: want earliest, latest, @TIME or group:NAME", r.Start)
	oneOf("output format", r.Format, Formats()...)
	if err := CheckCodec(r.Format, r.Codec, r.Level); err != nil {
		wrong = append(wrong, err)
	}
	check(r.Encodings == "" || r.Encodings == EncodingsPlain, "encodings %q: want %s, or none for all there are", r.Encodings, EncodingsPlain)
	check(r.Encodings == "" || r.Format == formatParquet, "encodings %q: %s files have none to choose", r.Encodings, r.Format)
	oneOf("merge_partitions", r.Merge, mergeAuto, mergeAlways, mergeNever)
	check(r.TargetBytes > 0, "target file size %d: want more than 0", r.TargetBytes)
	check(r.Lateness >= 0, "lateness %v: want 0 or more", r.Lateness)
	check(r.MaxBad.Count >= 0 && r.MaxBad.PPM >= 0 && r.MaxBad.PPM <= 1_000_000, "max_bad: want a count, or a share of 0..100 %%")
	check(r.Parallelism >= 0, "parallelism %d: want 0 or more", r.Parallelism)
	check(r.Memory >= 0, "memory %d: want 0 or more", r.Memory)
	check(r.FetchBytes >= 0 && r.FetchBytes <= 1<<30, "fetch bytes %d: want 0..1 GiB", r.FetchBytes)
	check(r.Rate >= 0, "rate %d: want 0 or more", r.Rate)
	check(r.Retries >= 0, "retries %d: want 0 or more", r.Retries)
	check(r.Timeout >= 0, "timeout %v: want 0 or more", r.Timeout)
	check(r.Hold >= 0, "retention_hold %v: want 0 or more", r.Hold)
	bucket, err := newBucket(r)
	if err != nil {
		wrong = append(wrong, err)
	}
	if err := r.Decode.Validate(); err != nil {
		wrong = append(wrong, fmt.Errorf("decode: %w", err))
	} else if r.Decode.Unresolved() {
		// The planner asks the registry first.
	} else if base, err := r.Decode.Base(r.Schema); err != nil {
		wrong = append(wrong, fmt.Errorf("schema: %w", err))
	} else if err := haveFields(base, &r.Decode, bucket.Fields); err != nil {
		wrong = append(wrong, err)
	}
	if len(wrong) == 0 {
		return nil
	}
	return &Error{Code: ExitUsage, Err: errors.Join(wrong...)}
}

func validStart(start string) bool {
	switch {
	case start == "earliest", start == "latest":
		return true
	case strings.HasPrefix(start, startGroup):
		return len(start) > len(startGroup)
	case strings.HasPrefix(start, "@"):
		_, err := offsets.ParseTime(start[1:], time.Unix(0, 0))
		return err == nil
	default:
		return false
	}
}

// shareOf is one task's part of a rate; 0 = no limit.
func shareOf(rate int64, tasks int) int64 {
	if rate <= 0 {
		return 0
	}
	return max(1, rate/int64(tasks))
}

// share divides memory among tasks: how many run at a time, and the bytes of
// each. Tasks are as many as asked for, or cores, but never more than splits.
func share(parallelism int, memory int64, splits int) (tasks int, bytes int64) {
	if memory <= 0 {
		memory = defaultMemory
	}
	if parallelism <= 0 {
		parallelism = runtime.NumCPU()
	}
	tasks = max(1, min(parallelism, splits))
	return tasks, memory / int64(tasks)
}
