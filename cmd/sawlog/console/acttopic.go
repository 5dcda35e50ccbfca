package console

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
	"sawlog/consumer/admin"
	"sawlog/jobs"
)

// askNewTopic is a form while no name is given, then what would be made.
func (k *console) askNewTopic(ctx context.Context, r *http.Request, _ zone) (*confirm, error) {
	var sent url.Values
	if r.Form.Has("name") {
		sent = r.Form
	}
	c := &confirm{
		Title: "New topic", Back: "/console/topics", Name: "Topics", Form: r.URL.Path,
		Does: "Makes a topic. Nothing is made before it was shown here.",
		Fields: []field{
			{Name: "name", Label: "Name", Type: "text", Value: r.Form.Get("name"), Hint: "letters, digits, dots, hyphens and underscores, 249 at most"},
			{Name: "partitions", Label: "Partitions", Type: "text", Value: r.Form.Get("partitions"), Hint: "empty = the server's default; more can be added later, none taken away"},
			{Name: "replication", Label: "Copies of each", Type: "text", Value: r.Form.Get("replication"), Hint: "empty = the server's default; no more than there are brokers"},
		},
		Settings: k.topicSettings(nil, wantedSettings(sent)),
	}
	cluster, within, end, err := k.kafka(ctx)
	defer end()
	if err != nil || sent == nil {
		return c, err
	}
	if err := unknownSettings(c.Settings, wantedSettings(sent)); err != nil {
		return c.refused(err)
	}
	t, err := newTopicOf(sent)
	if err != nil {
		return c.refused(err)
	}
	made, err := admin.CreateTopic(within, cluster, t, true)
	if err != nil {
		return c.refused(refusedBy(err))
	}
	t.Partitions, t.Replicas = made.Partitions, made.Replicas // the defaults of now
	c.previewTopic(t)
	return c, nil
}

// previewTopic shows the topic that would be made, and has the deed make the same.
func (c *confirm) previewTopic(t admin.NewTopic) {
	partitions, copies := strconv.Itoa(int(t.Partitions)), strconv.Itoa(int(t.Replicas))
	c.Facts = []fact{{"Name", t.Name}, {"Partitions", count(int(t.Partitions))}, {"Copies of each", copies}, {"Configs it sets", count(len(t.Configs))}}
	c.Hidden = []fact{{"name", t.Name}, {"partitions", partitions}, {"replication", copies}}
	c.Line = "sawlog topic create " + shell(t.Name) + " --partitions " + partitions + " --replication-factor " + copies
	set := table{Title: "Configs it sets", Heads: []string{"Config", "Value", "Default"}}
	for _, kv := range t.Configs {
		i := slices.IndexFunc(c.Settings, func(s topicSetting) bool { return s.Name == kv[0] })
		set.add(kv[0], kv[1], c.Settings[i].Default)
		c.Hidden = append(c.Hidden, fact{settingPrefix + kv[0], kv[1]})
		c.Line += " --config " + shell(kv[0]+"="+kv[1])
	}
	if len(set.Rows) > 0 {
		c.Tables = append(c.Tables, set)
	}
	if t.Replicas == 1 {
		c.Notes = append(c.Notes, "Of each partition there is one copy: while its broker is away nothing is read or written there, and what its disk loses is lost.")
	}
	c.Button = "Make the topic"
}

// newTopicOf reads the form of a topic.
func newTopicOf(sent url.Values) (t admin.NewTopic, err error) {
	t = admin.NewTopic{Name: strings.TrimSpace(sent.Get("name")), Partitions: -1, Replicas: -1}
	if t.Name == "" {
		return t, &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: "name: a topic needs one"}
	}
	if text := strings.TrimSpace(sent.Get("partitions")); text != "" {
		n, err := wholeNumber("partitions", text, 31)
		if err != nil {
			return t, err
		}
		t.Partitions = int32(n)
	}
	if text := strings.TrimSpace(sent.Get("replication")); text != "" {
		n, err := wholeNumber("copies", text, 15)
		if err != nil {
			return t, err
		}
		t.Replicas = int16(n)
	}
	wanted := wantedSettings(sent)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if wanted[name] != "" {
			t.Configs = append(t.Configs, [2]string{name, wanted[name]})
		}
	}
	return t, nil
}

// wholeNumber reads a number from 1 on, of so many bits.
func wholeNumber(what, text string, bits int) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, bits)
	if err != nil || n == 0 {
		return 0, &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: what + ": " + strconv.Quote(text) + " is no number from 1 on"}
	}
	return n, nil
}

func (k *console) doNewTopic(ctx context.Context, r *http.Request) (string, error) {
	t, err := newTopicOf(r.PostForm)
	if err != nil {
		return "", err
	}
	cluster, within, end, err := k.kafkaWithin(ctx, deedPatience)
	defer end()
	if err != nil {
		return "", err
	}
	_, err = admin.CreateTopic(within, cluster, t, false)
	k.record("a topic is made", err, "topic", t.Name, "partitions", t.Partitions, "copies", t.Replicas)
	if err != nil {
		return "", done(err, topicHref(t.Name))
	}
	awaitTopic(within, cluster, t.Name, true)
	return topicHref(t.Name), nil
}

// awaitTopic waits until all brokers know that a topic is there, or no more: pages
// ask any of them. It waits for a while; what is not known then comes later.
func awaitTopic(ctx context.Context, c consumer.Cluster, name string, there bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f, err := admin.Describe(ctx, c)
	if err != nil {
		return
	}
	for i := range f.Brokers {
		for !f.Brokers[i].Fenced && ctx.Err() == nil {
			_, err := admin.Topics(ctx, c.Broker(f.Brokers[i].ID), name)
			if there && err == nil || !there && errors.Is(err, consumer.ErrUnknownTopic) {
				break
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

// ofTopic asks with the topic that a path names, and the configs it sets.
func (k *console) ofTopic(ask func(context.Context, *http.Request, consumer.Cluster, *admin.Topic, map[string]string) (*confirm, error)) func(context.Context, *http.Request, zone) (*confirm, error) {
	return func(ctx context.Context, r *http.Request, _ zone) (*confirm, error) {
		cluster, within, end, err := k.kafka(ctx)
		defer end()
		if err != nil {
			return nil, err
		}
		t, set, err := topicAct(within, cluster, r.PathValue("topic"))
		if err != nil {
			return nil, err
		}
		return ask(within, r, cluster, t, set)
	}
}

// topicAct is the beginning of what is done to a topic: the topic, and the configs
// it sets. The brokers' own topics are left alone.
func topicAct(ctx context.Context, c consumer.Cluster, name string) (*admin.Topic, map[string]string, error) {
	found, err := admin.Topics(ctx, c, name)
	if err != nil {
		return nil, nil, err
	}
	t := &found[0]
	if t.Internal {
		return nil, nil, &jobs.Refusal{Kind: jobs.ErrConflict, Msg: "topic " + name + " is the brokers' own: groups and jobs live in such topics", Hint: "it is not to be changed"}
	}
	configs, err := configsOf(ctx, c, kmsg.ConfigResourceTypeTopic, []string{name}, nil)
	if err != nil {
		return nil, nil, err
	}
	set := map[string]string{}
	for _, c := range configs[name] {
		if c.Own {
			set[c.Name] = c.Value
		}
	}
	return t, set, nil
}

// sameTopic refuses a deed on a topic that was made anew since it was shown.
func sameTopic(r *http.Request, t *admin.Topic) error {
	if r.PostFormValue("id") == topicID(t.ID) {
		return nil
	}
	return &jobs.Refusal{Kind: jobs.ErrConflict, Msg: "topic " + t.Name + " is not the one that was shown, it was made anew since: nothing was done", Hint: "look again: " + topicHref(t.Name)}
}

// topicDeed begins a deed on a topic, the one that was shown.
func (k *console) topicDeed(ctx context.Context, r *http.Request, do func(context.Context, consumer.Cluster, *admin.Topic, map[string]string) error) error {
	cluster, within, end, err := k.kafkaWithin(ctx, deedPatience)
	defer end()
	if err != nil {
		return err
	}
	t, set, err := topicAct(within, cluster, r.PathValue("topic"))
	if err != nil {
		return err
	}
	if err := sameTopic(r, t); err != nil {
		return err
	}
	return do(within, cluster, t, set)
}
