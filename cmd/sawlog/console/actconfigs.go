package console

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
	"sawlog/consumer/admin"
	"sawlog/jobs"
)

// configChange is a config of a topic that becomes another; nil = not set there.
type configChange struct {
	Name    string
	Was, To *string
}

// askConfigs is a form of all configs, then what of them would change.
func (k *console) askConfigs(ctx context.Context, r *http.Request, cluster consumer.Cluster, t *admin.Topic, set map[string]string) (*confirm, error) {
	wanted := wantedSettings(r.Form)
	c := &confirm{
		Title: "Configs of " + t.Name, Back: topicHref(t.Name), Name: t.Name, Form: r.URL.Path, Fields: []field{{Name: "preview", Value: "1", Type: "hidden"}},
		Does:     "Sets configs of the topic. An empty one is at its default. Nothing is changed before it was shown here.",
		Settings: k.topicSettings(set, wanted),
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if job := consumer.HoldingJob(name); job != "" {
			c.Notes = append(c.Notes, "Job "+job+" has retention spare what it has yet to load, by "+name+", which it moves on by itself: it is not to be set here. If the job is no more, sawlog topic alter "+shell(t.Name)+" --unset "+name+" takes it off.")
		}
	}
	if !r.Form.Has("preview") {
		return c, nil
	}
	if err := unknownSettings(c.Settings, wanted); err != nil {
		return c.refused(err)
	}
	changes := changesOf(c.Settings, set)
	if len(changes) == 0 {
		c.Notes = append(c.Notes, "Nothing differs from what the topic sets: there is nothing to change.")
		return c, nil
	}
	if err := admin.AlterConfigs(ctx, cluster, alteration(t.Name, changes), true); err != nil {
		return c.refused(refusedBy(err))
	}
	c.previewConfigs(t, changes)
	return c, nil
}

// changesOf are the settings of a form that differ from what a topic sets.
func changesOf(settings []topicSetting, set map[string]string) []configChange {
	var out []configChange
	for _, s := range settings {
		change := configChange{Name: s.Name}
		if was, had := set[s.Name]; had {
			change.Was = &was
		}
		if s.Value != "" {
			change.To = &s.Value
		}
		if (change.Was == nil || *change.Was == "") && change.To == nil || change.Was != nil && change.To != nil && *change.Was == *change.To {
			continue
		}
		out = append(out, change)
	}
	return out
}

// deletes are the configs that decide which records are kept.
var deletes = []string{"cleanup.policy", "retention.bytes", "retention.hold.max.bytes", "retention.hold.max.ms", "retention.ms"}

// previewConfigs shows what would change, and has the deed change the same.
func (c *confirm) previewConfigs(t *admin.Topic, changes []configChange) {
	c.Hidden = []fact{{"id", topicID(t.ID)}}
	c.Line = "sawlog topic alter " + shell(t.Name)
	diff := table{Title: "What changes", Heads: []string{"Config", "Now", "Comes from", "Becomes"}}
	for _, change := range changes {
		s := c.Settings[slices.IndexFunc(c.Settings, func(s topicSetting) bool { return s.Name == change.Name })]
		now, from, to := s.Default, s.Origin, "the default: "+s.Default
		c.Hidden = append(c.Hidden, fact{"change", change.Name})
		if change.Was != nil {
			now, from = *change.Was, origins[kmsg.ConfigSourceDynamicTopicConfig]
			c.Hidden = append(c.Hidden, fact{"was." + change.Name, now})
		}
		if change.To != nil {
			to = *change.To
			c.Hidden = append(c.Hidden, fact{"to." + change.Name, to})
			c.Line += " --config " + shell(change.Name+"="+to)
		} else {
			c.Line += " --unset " + shell(change.Name)
		}
		diff.add(change.Name, now, from, to)
		if slices.Contains(deletes, change.Name) {
			c.Danger = true
		}
	}
	if c.Danger {
		c.Notes = append(c.Notes, "The change decides which records are kept: those that no longer are get deleted for good within minutes, and setting it back brings none of them back.")
	}
	c.Tables = append(c.Tables, diff)
	c.Button = "Change " + plural(len(changes), "config")
}

func (k *console) doConfigs(ctx context.Context, r *http.Request) (string, error) {
	name := r.PathValue("topic")
	return topicHref(name) + "#configs", k.topicDeed(ctx, r, func(ctx context.Context, c consumer.Cluster, t *admin.Topic, set map[string]string) error {
		var changes []configChange
		for _, config := range r.PostForm["change"] {
			change := configChange{config, given(r.PostForm, "was."+config), given(r.PostForm, "to."+config)}
			now, had := set[config]
			if had != (change.Was != nil) || had && now != *change.Was {
				return &jobs.Refusal{Kind: jobs.ErrConflict, Msg: fmt.Sprintf("topic %s: %s has changed since it was shown: nothing was done", name, config), Hint: "look again: " + topicHref(name)}
			}
			changes = append(changes, change)
		}
		if len(changes) == 0 {
			return &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: "the form names no config that changes"}
		}
		err := admin.AlterConfigs(ctx, c, alteration(name, changes), false)
		k.record("configs of a topic are changed", err, "topic", name, "configs", r.PostForm["change"])
		return done(err, topicHref(name))
	})
}

// given is a value of a form, nil where it has none.
func given(form url.Values, name string) *string {
	if !form.Has(name) {
		return nil
	}
	return new(form.Get(name))
}

// alteration is what brokers are asked for.
func alteration(topic string, changes []configChange) []admin.Change {
	of := admin.Change{Kind: kmsg.ConfigResourceTypeTopic, Name: topic}
	for _, change := range changes {
		if change.To == nil {
			of.Unset = append(of.Unset, change.Name)
			continue
		}
		of.Set = append(of.Set, [2]string{change.Name, *change.To})
	}
	return []admin.Change{of}
}

// askPartitions is a form, then what adding partitions would do.
func (k *console) askPartitions(ctx context.Context, r *http.Request, cluster consumer.Cluster, t *admin.Topic, _ map[string]string) (*confirm, error) {
	now, text := len(t.Partitions), strings.TrimSpace(r.Form.Get("to"))
	c := &confirm{
		Title: "Add partitions to " + t.Name, Back: topicHref(t.Name), Name: t.Name, Form: r.URL.Path,
		Does:   "Adds partitions to the topic, which has " + count(now) + ". They can't be taken away again.",
		Fields: []field{{Name: "to", Label: "Partitions in all", Type: "text", Value: text, Hint: "more than " + count(now)}},
	}
	if text == "" {
		return c, nil
	}
	n, err := wholeNumber("partitions", text, 31)
	if err == nil {
		err = refusedBy(admin.CreatePartitions(ctx, cluster, t.Name, int32(n), true))
	}
	if err != nil {
		return c.refused(err)
	}
	c.Facts = []fact{{"Partitions now", count(now)}, {"Become", count(int(n))}, {"New", count(int(n) - now)}}
	c.Notes = append(c.Notes, "From then on most producers send the records of a key to another partition than before: old and new records of a key are in no order that counts, and compaction keeps one of each.")
	for _, l := range k.loadsOf(t.Name) {
		c.Notes = append(c.Notes, "Job "+l.Job+" loads new partitions from their first record.")
	}
	c.Hidden = []fact{{"id", topicID(t.ID)}, {"was", strconv.Itoa(now)}, {"to", strconv.Itoa(int(n))}}
	c.Button, c.Danger, c.Line = "Add "+plural(int(n)-now, "partition"), true, fmt.Sprintf("sawlog topic alter %s --partitions %d", shell(t.Name), n)
	return c, nil
}

func (k *console) doPartitions(ctx context.Context, r *http.Request) (string, error) {
	name := r.PathValue("topic")
	n, err := wholeNumber("partitions", r.PostFormValue("to"), 31)
	if err != nil {
		return "", err
	}
	return topicHref(name), k.topicDeed(ctx, r, func(ctx context.Context, c consumer.Cluster, t *admin.Topic, _ map[string]string) error {
		if r.PostFormValue("was") != strconv.Itoa(len(t.Partitions)) {
			return &jobs.Refusal{Kind: jobs.ErrConflict, Msg: fmt.Sprintf("topic %s has %d partitions, not those that were shown: nothing was done", name, len(t.Partitions)), Hint: "look again: " + topicHref(name)}
		}
		err := admin.CreatePartitions(ctx, c, name, int32(n), false)
		k.record("partitions are added to a topic", err, "topic", name, "from", len(t.Partitions), "to", n)
		return done(err, topicHref(name))
	})
}
