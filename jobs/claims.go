package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sawlog/loader"
	"sawlog/loader/sink"
)

// This file says what a job may take for its own: a root that no other job writes
// in, names of data sets that none makes, and folders that its own rows are not in
// by another rule.

// checkOthers refuses a job that would write where another one writes, or make
// a data set of another's name.
func (s *Scheduler) checkOthers(spec *Spec) error {
	var specs []*Spec // of the job itself, then of others
	var topics [][]string
	s.mu.Lock()
	specs, topics = append(specs, spec), append(topics, s.matched(spec.Name, spec))
	for _, name := range sortedKeys(s.f.jobs) {
		if other := s.f.jobs[name].spec; name != spec.Name && other != nil {
			specs, topics = append(specs, other), append(topics, s.matched(name, other))
		}
	}
	s.mu.Unlock()
	places := placesOf(specs, topics, sink.Followed)
	for i, other := range specs[1:] {
		if how := places[0].meets(places[i+1]); how != "" {
			return &Refusal{
				Kind: ErrConflict, Msg: fmt.Sprintf("%s %s %s, the root of job %s: a data set has a tree of its own", spec.Output.Root, how, other.Output.Root, other.Name),
				Hint: "choose another output.root",
			}
		}
		for _, a := range spec.Sets(nil) {
			for _, b := range other.Sets(nil) {
				if a.Dataset == b.Dataset {
					return refuse(ErrConflict, "data set %s is made by job %s already; choose another name", a.Dataset, other.Name)
				}
			}
		}
	}
	return nil
}

// linksTime is how long the links of all roots together are followed.
const linksTime = 2 * time.Second

// placesOf follows the links of roots by followed. From where a file system hangs,
// which nothing can end, roots are taken as they are written.
func placesOf(specs []*Spec, topics [][]string, followed func(string) string) []place {
	found := make(chan place, len(specs)) // so that who follows them late is let go
	go func() {
		for i, spec := range specs {
			found <- placeOf(spec, topics[i], followed)
		}
	}()
	late := time.NewTimer(linksTime)
	defer late.Stop()
	var places []place
	for len(places) < len(specs) {
		select {
		case p := <-found:
			places = append(places, p)
		case <-late.C:
			for i := len(places); i < len(specs); i++ {
				places = append(places, placeOf(specs[i], topics[i], func(dir string) string { return dir }))
			}
		}
	}
	return places
}

// matched are the topics a job is known to load. The caller holds mu.
func (s *Scheduler) matched(job string, spec *Spec) []string {
	if spec.Source.Pattern == "" {
		return spec.Source.Topics
	}
	var topics []string
	if list := s.topics[job]; list != nil && list.pattern == spec.Source.Pattern {
		topics = list.names
	}
	if j := s.f.jobs[job]; j != nil && j.spec != nil && j.spec.Source.Pattern == spec.Source.Pattern {
		topics = append(slices.Clone(topics), j.Topics...)
	}
	return topics
}

// place is where a job's data sets are: one root, or one a topic.
type place struct {
	store    string   // which file system
	elements []string // of the path; {topic} may stand in some
	topics   []string
}

func placeOf(spec *Spec, topics []string, followed func(string) string) place {
	root := spec.Output.Root
	if len(spec.Source.Topics) == 1 && spec.Source.Pattern == "" {
		root = strings.ReplaceAll(root, topicWord, spec.Source.Topics[0])
	}
	u, err := url.Parse(root)
	if err != nil {
		return place{store: root} // a spec that was read has a root that can be
	}
	p := place{store: u.Scheme, topics: topics}
	dir := path.Clean(u.Path)
	if u.Scheme == "file" {
		dir = filepath.ToSlash(followed(filepath.FromSlash(dir)))
	} else {
		p.store += "://" + strings.ToLower(u.Hostname()) + ":" + cmp.Or(u.Port(), namenodePort)
	}
	p.elements = strings.Split(strings.Trim(dir, "/"), "/")
	return p
}

const (
	topicWord    = "{topic}"
	namenodePort = "8020" // where a URI names none
)

// meets says how a data set of one place is to one of another, as words between
// their roots; "" = each has a tree of its own.
func (p *place) meets(other place) string {
	if p.store != other.store {
		return ""
	}
	for i := range min(len(p.elements), len(other.elements)) {
		if !intersect(p.names(i), other.names(i)) {
			return ""
		}
	}
	switch {
	case len(p.elements) > len(other.elements):
		return "lies in"
	case len(p.elements) < len(other.elements):
		return "holds"
	default:
		return "is"
	}
}

// names are what an element of the path may be: by the topics that are known, and
// as it is written, by which jobs with the same pattern of roots are told.
func (p *place) names(i int) []string {
	names := []string{p.elements[i]}
	if strings.Contains(p.elements[i], topicWord) {
		for _, topic := range p.topics {
			names = append(names, strings.ReplaceAll(p.elements[i], topicWord, topic))
		}
	}
	return names
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(name string) bool { return slices.Contains(b, name) })
}

// bucketWait is how long a job that is applied waits for its ledgers to be read.
const bucketWait = 2 * time.Second

// keepsBuckets refuses a changed job that would put rows of a data set into other
// hours or folders than those before them; unseen are the data sets it could not
// ask. A run would be refused as well.
func (s *Scheduler) keepsBuckets(ctx context.Context, spec *Spec) (unseen []string, err error) {
	old, err := s.job(spec.Name)
	if err != nil || old.spec == nil || old.spec.Output.Root != spec.Output.Root || old.spec.PartitionBy.sameFolders(&spec.PartitionBy) {
		return nil, nil
	}
	s.mu.Lock()
	sets := s.presentSets(old)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, bucketWait)
	defer cancel()
	for _, set := range sets {
		l, err := spec.Load(set.Topic, s.now())
		if err != nil {
			return nil, err
		}
		v := s.view(ctx, old, set)
		if v.view == nil || v.err != nil || v.view.BucketErr != nil {
			unseen = append(unseen, set.Dataset)
			continue
		}
		if err := l.KeepsBuckets(v.view.Bucket); err != nil {
			r := &Refusal{Kind: ErrConflict, Msg: "data set " + set.Dataset + ": " + err.Error()}
			if e, ok := errors.AsType[*loader.Error](err); ok {
				r.Hint = e.Hint
			}
			return nil, r
		}
	}
	return unseen, nil
}

// sameFolders tells whether two rules are written alike but for when hours seal.
func (p *PartitionBy) sameFolders(q *PartitionBy) bool {
	return p.Unit == q.Unit && p.Zone == q.Zone && p.Path == q.Path && slices.Equal(p.Fields, q.Fields)
}
