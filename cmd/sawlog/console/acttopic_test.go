package console

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
)

// deed sends a form; the answer is where it leads, or its text.
func (s *stand) deed(path string, form url.Values, status int) string {
	s.t.Helper()
	resp := s.ask(http.MethodPost, path, form)
	text := readAll(s.t, resp)
	if resp.StatusCode != status {
		s.t.Fatalf("POST %s: status %d, want %d:\n%s", path, resp.StatusCode, status, mainOf(text))
	}
	if status == http.StatusSeeOther {
		return resp.Header.Get("Location")
	}
	return text
}

// alter sets a config of a topic as another client does; nil brings it back.
func (s *stand) alter(topic, name string, value *string) {
	s.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Op, c.Value = name, kmsg.IncrementalAlterConfigOpSet, value
	if value == nil {
		c.Op = kmsg.IncrementalAlterConfigOpDelete
	}
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(s.t.Context(), s.client)
	if err != nil || resp.Resources[0].ErrorCode != 0 {
		s.t.Fatal(err, resp)
	}
}

// TestNewTopic: the form shows the configs there are with their defaults, a wrong
// value is refused with its place, and what is made is what was shown.
func TestNewTopic(t *testing.T) {
	s := newStand(t, nil)
	s.has(s.page("/console/topics", http.StatusOK), "No topics yet", "/console/newtopic")
	s.has(s.page("/console/newtopic", http.StatusOK), "Preview", `name="config.retention.ms"`, "604800000", `<select id="c-preallocate"`)
	for query, says := range map[string]string{
		"name=":                                 "a topic needs one",
		"name=a/b":                              "a/b",
		"name=x&partitions=0":                   "partitions: &#34;0&#34; is no number from 1 on",
		"name=x&partitions=many":                "partitions: &#34;many&#34;",
		"name=x&replication=5":                  "topic x: ",
		"name=x&config.retention.ms=soon":       "Invalid value soon for configuration retention.ms",
		"name=x&config.retention.mss=1":         "did you mean retention.ms?",
		"name=x&config.cleanup.policy=shredded": "String must be one of: compact, delete",
	} {
		s.has(s.page("/console/newtopic?"+query, http.StatusBadRequest), says, "Preview")
	}
	wrong := s.page("/console/newtopic?name=x&config.retention.ms=soon", http.StatusBadRequest)
	s.has(wrong, `name="config.retention.ms" value="soon" autocomplete="off" spellcheck="false" aria-invalid="true"`, "<details open>")
	s.lacks(wrong, "Make the topic")
	page := s.page("/console/newtopic?name=x&partitions=3&config.retention.ms=86400000&config.segment.ms=", http.StatusOK)
	s.has(page, "Make the topic", "sawlog topic create x --partitions 3 --replication-factor 1 --config retention.ms=86400000<", "there is one copy")
	s.page("/console/topics/x", http.StatusNotFound)
	form := s.form(page)
	if to := s.deed("/console/newtopic", form, http.StatusSeeOther); to != "/console/topics/x" {
		t.Errorf("it leads to %s", to)
	}
	s.has(s.page("/console/topics/x", http.StatusOK), "<dd>3</dd>", "86400000", "set on the topic")
	s.has(s.deed("/console/newtopic", form, http.StatusConflict), "x")
	s.has(s.page("/console/newtopic?name=x", http.StatusConflict), "topic x")
	s.has(s.page("/console/newtopic?name=plain", http.StatusOK), "--partitions 1 --replication-factor 1<")
	s.page("/console/topics/new", http.StatusNotFound) // a topic may have the name
}

// TestChangeConfigs: only what differs is changed, and only from what was shown.
func TestChangeConfigs(t *testing.T) {
	s := newStand(t, nil)
	s.create("x", 1, "retention.ms", "86400000")
	const base = "/console/topics/x/configs"
	s.has(s.page("/console/topics/x", http.StatusOK), base)
	s.has(s.page(base, http.StatusOK), `name="config.retention.ms" value="86400000"`, `<tr class="set">`, "604800000")
	s.has(s.page(base+"?preview=1&config.retention.ms=86400000", http.StatusOK), "Nothing differs")
	page := s.page(base+"?preview=1&config.retention.ms=86400000&config.max.message.bytes=5000", http.StatusOK)
	s.has(page, "Change 1 config", "sawlog topic alter x --config max.message.bytes=5000<", ">1048588<", ">default<")
	s.lacks(page, "deleted for good")
	form := s.form(page)
	s.has(s.page(base+"?preview=1&config.max.message.bytes=many", http.StatusBadRequest), "Invalid value many for configuration max.message.bytes", `value="many"`)
	s.has(s.page(base+"?preview=1&config.max.mesage.bytes=1", http.StatusBadRequest), "did you mean max.message.bytes?")
	if to := s.deed(base, form, http.StatusSeeOther); to != "/console/topics/x#configs" {
		t.Errorf("it leads to %s", to)
	}
	s.has(s.page("/console/topics/x", http.StatusOK), ">5000<", ">86400000<")
	s.has(s.deed(base, form, http.StatusConflict), "max.message.bytes has changed since it was shown")

	s.has(s.page(base+"?preview=1&config.max.message.bytes=5000", http.StatusOK), "Nothing differs") // what is not named stays
	page = s.page(base+"?preview=1&config.max.message.bytes=5000&config.retention.ms=", http.StatusOK)
	s.has(page, "--unset retention.ms", "the default: 604800000", "deleted for good", "danger")
	form = s.form(page)
	s.alter("x", "retention.ms", new("1000000"))
	s.has(s.deed(base, form, http.StatusConflict), "retention.ms has changed")
	s.alter("x", "retention.ms", new("86400000"))
	s.deed(base, form, http.StatusSeeOther)
	s.lacks(s.page("/console/topics/x", http.StatusOK), ">86400000<")

	s.deed(base, url.Values{"id": form["id"]}, http.StatusBadRequest)
	s.has(s.page("/console/topics/__none/configs", http.StatusNotFound), "__none")
}

// inputs are the configs that a page's form would send if nobody changed it.
func (s *stand) inputs(page string) url.Values {
	s.t.Helper()
	values := url.Values{"preview": {"1"}}
	for _, m := range regexp.MustCompile(`name="((?:config|old)\.[^"]*)" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		values.Set(m[1], html.UnescapeString(m[2]))
	}
	for _, m := range regexp.MustCompile(`<select id="[^"]*" name="(config\.[^"]*)">(.*?)</select>`).FindAllStringSubmatch(page, -1) {
		values.Set(m[1], "")
		if chosen := regexp.MustCompile(`<option selected>([^<]*)<`).FindStringSubmatch(m[2]); chosen != nil {
			values.Set(m[1], html.UnescapeString(chosen[1]))
		}
	}
	return values
}

// TestConfigsOfAnOldForm: between the form and its preview others change configs, and
// jobs what they hold. The deed is what the user changed, and nothing else.
func TestConfigsOfAnOldForm(t *testing.T) {
	s := newStand(t, nil)
	s.create("x", 1, "retention.ms", "86400000", "preallocate", "TRUE")
	const base = "/console/topics/x/configs"
	for _, step := range []struct {
		what, config string
		to           *string
	}{
		{"a first hold", "retention.hold.loads", new("0:5")},
		{"a hold that moves on", "retention.hold.loads", new("0:900")},
		{"a hold that is let go", "retention.hold.loads", nil},
		{"another that is set", "segment.ms", new("3600000")},
		{"another that is unset", "segment.ms", nil},
		{"another that is changed", "retention.ms", new("1000000")},
	} {
		s.alter("x", "max.message.bytes", nil)
		form := s.inputs(s.page(base, http.StatusOK))
		if len(form) < 20 || form.Get("config.retention.ms") != form.Get("old.retention.ms") {
			t.Fatalf("the form: %v", form)
		}
		s.alter("x", step.config, step.to)
		s.has(s.page(base+"?"+form.Encode(), http.StatusOK), "Nothing differs")
		form.Set("config.max.message.bytes", "5000")
		page := s.page(base+"?"+form.Encode(), http.StatusOK)
		s.has(page, "Change 1 config<", "sawlog topic alter x --config max.message.bytes=5000<")
		if deed := s.form(page); len(deed["change"]) != 1 {
			t.Errorf("%s: the deed changes %v", step.what, deed["change"])
		}
		// The page has a form again, of what there is now and what the user wants.
		if again := s.page(base+"?"+s.inputs(page).Encode(), http.StatusOK); mainOf(again) != mainOf(page) {
			t.Errorf("%s: previewed again it is another:\n%s", step.what, mainOf(again))
		}
	}
	// The very config the user changes was changed: the preview says what it is now.
	form := s.inputs(s.page(base, http.StatusOK))
	s.alter("x", "retention.ms", new("7777"))
	form.Set("config.retention.ms", "")
	s.has(s.page(base+"?"+form.Encode(), http.StatusOK), "--unset retention.ms", ">7777<")

	s.alter("x", "retention.hold.loads", new("0:5"))
	page := s.page(base, http.StatusOK)
	s.has(page, "Job loads has retention spare", "sawlog topic alter x --unset retention.hold.loads takes it off")
	s.lacks(page, "config.retention.hold.loads")
	for _, to := range []string{"", "0:9"} {
		s.has(s.page(base+"?preview=1&config.retention.hold.loads="+to, http.StatusBadRequest), "is set by job loads")
	}
}

// TestAddPartitions: more, never fewer, from as many as were shown.
func TestAddPartitions(t *testing.T) {
	s := newStand(t, nil)
	s.create("x", 2)
	const base = "/console/topics/x/partitions"
	s.has(s.page(base, http.StatusOK), "more than 2")
	for _, bad := range []string{"1", "2", "0", "-3", "some", "99999999999"} {
		s.has(s.page(base+"?to="+bad, http.StatusBadRequest), "Preview")
	}
	page := s.page(base+"?to=5", http.StatusOK)
	s.has(page, "Add 3 partitions", "sawlog topic alter x --partitions 5<", "no order that counts")
	form := s.form(page)
	s.deed(base, form, http.StatusSeeOther)
	s.has(s.page("/console/topics/x", http.StatusOK), "<dd>5</dd>")
	s.has(s.deed(base, form, http.StatusConflict), "has 5 partitions, not those that were shown")
}

// TestDeleteRecords: which go is shown by partition, with who loses them; what is
// deleted is what was shown.
func TestDeleteRecords(t *testing.T) {
	s := newStand(t, nil)
	s.create("x", 2)
	s.create("keyed", 1, "cleanup.policy", "compact")
	s.send(s.numbers("x", 0, 100)...)
	s.send(s.numbers("x", 1, 10)...)
	s.alter("x", "retention.hold.loads", new("0:40,1:0"))
	s.commit("checkers", "x", map[int32]int64{0: 10})
	const base = "/console/topics/x/trim"
	s.has(s.page(base, http.StatusOK), "Preview")
	for query, says := range map[string]string{
		"to=50": "x/1: offset 50 lies behind the end of the log, 10", "to=+5": "want partitions as", "to=never": "x up to never",
		"to=5&partition=7": "has no partition 7", "to=5&partition=a": "want partitions as",
	} {
		s.has(s.page(base+"?"+strings.ReplaceAll(query, "+", "%2B"), http.StatusBadRequest), says)
	}
	s.has(s.page(base+"?to=0", http.StatusOK), "there is nothing to delete")
	when := "@" + noon.Add(-5*time.Second).Format(time.RFC3339)
	s.has(s.page(base+"?to="+url.QueryEscape(when), http.StatusOK), "Delete 100 records", "--to "+shell(when))
	page := s.page(base+"?to=50&partition=0", http.StatusOK)
	s.has(page, "Delete 50 records", "sawlog topic trim x --partition 0 --to 50 --yes", "Job loads has not loaded x/0 beyond offset 40: 10 records are lost to it", "Group checkers has yet to read 40 of them")
	form := s.form(page)
	s.has(s.deed(base, form, http.StatusBadRequest), "nothing was done")
	form.Set("typed", "y")
	s.deed(base, form, http.StatusBadRequest)
	form.Set("typed", "x")
	s.send(s.numbers("x", 0, 7)...) // what is done is what was shown
	other := s.form(s.page(base+"?to=30&partition=0", http.StatusOK))
	other.Set("typed", "x")
	s.deed(base, form, http.StatusSeeOther)
	s.has(s.deed(base, other, http.StatusConflict), "the log of x/0 starts at offset 50, not at 0 as was shown: nothing was done")
	s.has(s.page(base+"?to=latest", http.StatusOK), ">50<", ">107<", "Delete 67 records")
	for _, forged := range []url.Values{{"cut": {"0:50:-1"}}, {"cut": {"0:50:999"}}, {}} {
		forged.Set("typed", "x")
		forged["id"] = form["id"]
		s.deed(base, forged, http.StatusBadRequest)
	}
	s.has(s.page("/console/topics/keyed/trim", http.StatusConflict), "is compacted", "cleanup.policy=compact,delete")
}

// TestDeleteTopic: what is lost is said, and to whom; only the topic that was shown
// is deleted.
func TestDeleteTopic(t *testing.T) {
	s := newStand(t, nil)
	s.create("x", 2)
	s.send(s.numbers("x", 0, 100)...)
	s.commit("checkers", "x", map[int32]int64{0: 10})
	s.commit("others", "x", map[int32]int64{1: 0})
	s.commit("sawlog.x-hourly", "x", map[int32]int64{0: 70}) // its mirror
	if _, err := s.jobs.Apply(t.Context(), []byte(strings.ReplaceAll(job, "pageviews", "x")), "job.yaml", "ann", false); err != nil {
		t.Fatal(err)
	}
	const base = "/console/topics/x/delete"
	mirrored := s.page(base, http.StatusOK)
	s.has(mirrored, ">x-hourly<", ">30<")
	s.lacks(mirrored, ">sawlog.x-hourly<")
	s.alter("x", "retention.hold.x-hourly", new("0:40"))
	s.has(s.page("/console/topics/x", http.StatusOK), base)
	page := s.page(base, http.StatusOK)
	s.has(page, "Records lost, at most", ">100<", ">checkers<", ">90<", ">others<", ">x-hourly<", ">60<", "sawlog topic delete x --yes", "Delete the topic")
	form := s.form(page)
	s.has(s.deed(base, form, http.StatusBadRequest), "nothing was done")
	form.Set("typed", "x")
	stale := url.Values{"typed": {"x"}, "id": {"AAAAAAAAAAAAAAAAAAAAAA"}}
	s.has(s.deed(base, stale, http.StatusConflict), "not the one that was shown")
	s.has(s.page("/console/topics/x", http.StatusOK), ">100<")
	if to := s.deed(base, form, http.StatusSeeOther); to != "/console/topics" {
		t.Errorf("it leads to %s", to)
	}
	s.page("/console/topics/x", http.StatusNotFound)
	s.page(base, http.StatusNotFound)
	s.create("x", 1)
	s.has(s.deed(base, form, http.StatusConflict), "made anew")
	s.page("/console/topics/x", http.StatusOK)
	for _, deed := range []string{"configs", "partitions", "trim", "delete"} {
		s.has(s.page("/console/topics/__consumer_offsets/"+deed, http.StatusConflict), "the brokers&#39; own")
		s.deed("/console/topics/__consumer_offsets/"+deed, url.Values{"typed": {"__consumer_offsets"}, "to": {"99"}}, http.StatusConflict)
	}
	s.lacks(s.page("/console/topics/__consumer_offsets", http.StatusOK), "/delete", "/trim")
}

// TestDeedsWithoutCluster say so, and those that brokers never answer end.
func TestDeedsWithoutCluster(t *testing.T) {
	s := standOver(t, runner{}, func(*Sources) {})
	for path := range (&console{}).acts() {
		if nav := placeOf(path); nav == "topics" || nav == "groups" {
			path = "/console/" + strings.NewReplacer("{topic}", "x").Replace(path)
			s.has(s.page(path+"?group=g&topic=x", http.StatusNotFound), "no cluster to show")
			form := url.Values{"group": {"g"}, "topic": {"x"}, "typed": {"x"}, "name": {"x"}, "to": {"3"}}
			if strings.Contains(path, "/group/") {
				form.Set("typed", "g")
			}
			s.has(s.deed(path, form, http.StatusNotFound), "no cluster to show")
		}
	}
}

// TestAwaitTopic: a broker that still knows a topic, or does not yet, is waited for,
// and none for longer than a page is patient.
func TestAwaitTopic(t *testing.T) {
	b := newBrokers(1, 1, 1)
	late := &lateBroker{brokers: b, left: 3}
	awaitTopic(t.Context(), late, "topic-000", true)
	if late.left >= 0 {
		t.Errorf("broker 3 had %d answers left", late.left)
	}
	late = &lateBroker{brokers: b, left: 1 << 30}
	began := time.Now()
	awaitTopic(t.Context(), late, "topic-000", true)
	if took := time.Since(began); took < patience || took > 2*patience {
		t.Errorf("it waited %v", took)
	}
}

// lateBroker is a cluster whose broker 3 does not know topics for so many answers.
type lateBroker struct {
	*brokers
	left int
}

func (l *lateBroker) Broker(id int32) consumer.Requestor {
	if id != 3 {
		return l.brokers.Broker(id)
	}
	if l.left--; l.left >= 0 {
		return newBrokers(0, 0, 0)
	}
	return l.brokers.Broker(id)
}
