package jobs

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"sawlog/formats"
	"sawlog/loader"
)

// Set is one data set of a job: its name, and the topic it is made of when the
// job keeps its topics apart.
type Set struct {
	Dataset string `json:"dataset"`
	Topic   string `json:"topic,omitempty"`
	// Late says that the topic came after the job: its first load begins at the
	// start of its log, whatever source.start says.
	Late bool `json:"late,omitempty"`
}

// Sets lists the data sets of a job. matched are the topics a pattern was
// found to match; it is ignored by a job that names its topics.
func (s *Spec) Sets(matched []string) []Set {
	if !s.Separate() {
		return []Set{{Dataset: s.Name}}
	}
	topics := s.Source.Topics
	if s.Source.Pattern != "" {
		topics = slices.Sorted(slices.Values(matched))
	}
	sets := make([]Set, 0, len(topics))
	for _, topic := range topics {
		sets = append(sets, Set{Dataset: s.Name + "." + topic, Topic: topic})
	}
	return sets
}

// Load turns the job into what the loader carries out for one data set. topic
// is empty unless the job keeps its topics apart. now is the moment plausible
// distances count from.
func (s *Spec) Load(topic string, now time.Time) (*loader.Spec, error) {
	decode, err := s.options(now)
	if err != nil {
		return nil, err
	}
	l := &loader.Spec{
		Name: s.Name, Dataset: s.Name,
		Brokers: s.Source.Brokers, Topics: s.Source.Topics, Pattern: s.Source.Pattern,
		Isolation: s.Source.Isolation, Start: s.Source.Start,
		Decode: decode, Schema: s.Schema,
		Unit: s.PartitionBy.Unit, Zone: s.PartitionBy.Zone, Path: s.PartitionBy.Path, Lateness: s.PartitionBy.Lateness,
		Fields: s.PartitionBy.Fields,
		Root:   s.Output.Root, Format: s.Output.Format, Codec: s.Output.Codec, Level: s.Output.Level, Encodings: s.Output.Encodings,
		TargetBytes: s.Output.TargetSize, Merge: s.Output.Merge, MergeTopics: s.Source.MergeTopics,
		MaxBad: s.Decode.MaxBad, Parallelism: s.Run.Parallelism, Memory: s.Run.Memory,
		Retries: s.Run.Retries, Timeout: s.Run.Timeout, Rate: s.Run.Rate, Hold: s.RetentionHold,
	}
	if topic != "" {
		l.Dataset, l.Topics, l.Pattern = s.Name+"."+topic, []string{topic}, ""
	}
	if len(l.Topics) == 1 {
		l.Root = strings.ReplaceAll(l.Root, "{topic}", l.Topics[0])
	}
	if err := l.Decode.Validate(); err != nil {
		return nil, err
	}
	return l, l.Validate()
}

func (s *Spec) options(now time.Time) (formats.Options, error) {
	d, t := s.Decode, s.Time
	o := formats.Options{
		Value: d.Value, Pattern: formats.PatternText(d.Pattern), Columns: d.Columns, Delimiter: d.Delimiter, SkipHeader: d.SkipHeader,
		Key: d.Key, Tombstones: d.Tombstones, OnBad: d.OnBad,
		Time: formats.TimeOptions{
			Field: t.Field, Format: t.Format, Zone: t.Zone,
			PlausibleFrom: new(formats.Instant(t.Plausible[0].Resolve(now).UnixMicro())),
			PlausibleTo:   new(formats.Instant(t.Plausible[1].Resolve(now).UnixMicro())),
		},
		Include: s.Columns.Include, Exclude: s.Columns.Exclude, Rename: s.Columns.Rename, Hash: s.Columns.Hash,
		Metadata: s.Metadata,
	}
	return o, s.wire(&o)
}

func checkZone(name string) error {
	_, _, err := formats.LoadZone(name)
	return err
}

func mustMoment(text string) Moment {
	m, err := ParseMoment(text)
	if err != nil {
		panic("jobs: " + err.Error())
	}
	return m
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}

// loadZone is for names already checked; UTC stands in for one that is not.
func loadZone(name string) *time.Location {
	where, _, err := formats.LoadZone(name)
	if err != nil {
		return time.UTC
	}
	return where
}
