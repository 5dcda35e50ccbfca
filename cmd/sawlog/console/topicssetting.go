package console

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
	"sawlog/formats"
	"sawlog/jobs"
)

// topicSetting is one config of a topic in a form.
type topicSetting struct {
	Name, Value string // "" = the default
	Default     string // what it is where the topic sets none
	Origin      string // of the default
	Doc         string
	Choices     []string
	Set         bool    // on the topic
	Shown       *string // what of a topic that is there the form shows before anybody changes it
	Wrong       bool    // brokers refuse the value
}

// What the names of configs begin with in forms: of a value, and of the one that the
// form showed at first.
const settingPrefix, shownPrefix = "config.", "old."

// topicSettings are the configs a topic may have, those it sets with their values, or
// those that are wanted instead. What jobs hold is not among them: they move it on by
// themselves.
func (k *console) topicSettings(set, wanted map[string]string) []topicSetting {
	var out []topicSetting
	if k.TopicDefaults != nil {
		for _, d := range k.TopicDefaults() {
			s := topicSetting{Name: d.Name, Default: d.Value, Origin: cmp.Or(origins[d.Source], d.Source.String()), Doc: d.Doc}
			if d.Kind == kmsg.ConfigTypeBoolean {
				s.Choices = []string{"true", "false"}
			}
			out = append(out, s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if consumer.HoldingJob(name) == "" && !slices.ContainsFunc(out, func(s topicSetting) bool { return s.Name == name }) {
			out = append(out, topicSetting{Name: name, Origin: "not known here"})
		}
	}
	for i := range out {
		s := &out[i]
		s.Value, s.Set = set[s.Name]
		if set != nil {
			s.Shown = new(s.Value)
		}
		if to, changes := wanted[s.Name]; changes {
			s.Value = to
		}
		if len(s.Choices) > 0 && s.Value != "" && !slices.Contains(s.Choices, s.Value) {
			s.Choices = append(s.Choices, s.Value) // or the form would send another
		}
	}
	return out
}

// unknownSettings refuses configs there are not, and those that jobs set.
func unknownSettings(known []topicSetting, wanted map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if slices.ContainsFunc(known, func(s topicSetting) bool { return s.Name == name }) {
			continue
		}
		if job := consumer.HoldingJob(name); job != "" {
			return &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: name + " is set by job " + job + ", which moves it on as it loads", Hint: "sawlog topic alter TOPIC --unset " + name + " takes it off"}
		}
		var all []string
		for _, s := range known {
			all = append(all, s.Name)
		}
		r := &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: "topics have no config " + name}
		if near := formats.Nearest(name, all); near != "" {
			r.Hint = "did you mean " + near + "?"
		}
		return r
	}
	return nil
}

// wantedSettings are the configs that a form gives another value than it showed, "" =
// the default. What it doesn't name, or leaves as it was, stays as it is, whatever
// that is by now: somebody else may have changed it since.
func wantedSettings(sent url.Values) map[string]string {
	out := map[string]string{}
	for key := range sent {
		name, ok := strings.CutPrefix(key, settingPrefix)
		to := strings.TrimSpace(sent.Get(key))
		if ok && (!sent.Has(shownPrefix+name) || to != strings.TrimSpace(sent.Get(shownPrefix+name))) {
			out[name] = to
		}
	}
	return out
}

// valueOf is a config's value in force where a topic sets these; "" = not known.
func (k *console) valueOf(name string, set map[string]string) string {
	for _, s := range k.topicSettings(set, nil) {
		if s.Name == name {
			return cmp.Or(s.Value, s.Default)
		}
	}
	return ""
}
