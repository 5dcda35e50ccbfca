package loader

import (
	"time"

	"sawlog/formats"
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

	Unit     string // hour (default) | day
	Zone     string // IANA name; default UTC
	Path     string // strftime letters; default dt=%Y-%m-%d/hr=%H, for days dt=%Y-%m-%d
	Lateness time.Duration

	Root        string // URI of the data set
	Format      string // parquet
	Codec       string // zstd (default) | snappy | gzip | none
	Level       int    // of the codec; 0 = its default
	TargetBytes int64  // size a split aims at; default 256 MiB
	Merge       string // auto (default) | always | never
	MergeTopics bool   // several topics share the data set; needs Schema

	MaxBad      MaxBad
	Parallelism int           // tasks at a time; 0 = cores
	Memory      int64         // bytes, divided among the tasks; 0 = 512 MiB
	FetchBytes  int           // bytes of one fetch; 0 = 4 MiB
	Retries     int           // attempts after the first of a split
	Timeout     time.Duration // of one attempt; 0 = none
}
