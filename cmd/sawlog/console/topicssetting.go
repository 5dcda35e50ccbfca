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
	Set         bool // on the topic
	Wrong       bool // brokers refuse the value
}

// settingPrefix is what the names of configs begin with in forms.
const settingPrefix = "config."

// settings are the configs a topic may have, those it sets with their values. A
// form that was sent says the values instead.
func (k *console) topicSettings(set map[string]string, sent url.Values) []topicSetting {
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
		if !slices.ContainsFunc(out, func(s topicSetting) bool { return s.Name == name }) {
			s := topicSetting{Name: name, Origin: "not known here"}
			if job := consumer.HoldingJob(name); job != "" {
				s.Origin, s.Doc = "nothing is kept", "Offsets that job "+job+" has yet to load; retention spares the records behind them. The job sets it."
			}
			out = append(out, s)
		}
	}
	for i := range out {
		s := &out[i]
		s.Value, s.Set = set[s.Name]
		if sent != nil {
			s.Value = strings.TrimSpace(sent.Get(settingPrefix + s.Name))
		}
	}
	return out
}

// unknownSettings refuses a form that names configs there are not.
func unknownSettings(known []topicSetting, sent url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(givenSettings(sent))) {
		if slices.ContainsFunc(known, func(s topicSetting) bool { return s.Name == name }) {
			continue
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

// givenSettings are the configs a form gives a value.
func givenSettings(sent url.Values) map[string]string {
	out := map[string]string{}
	for key := range sent {
		if name, ok := strings.CutPrefix(key, settingPrefix); ok && strings.TrimSpace(sent.Get(key)) != "" {
			out[name] = strings.TrimSpace(sent.Get(key))
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
