package hdfs

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"sawlog/loader/sink"
	"sawlog/loader/sink/hdfs/mini"
)

// first is what isn't well, nil when all is.
func first(list []Finding) *Finding {
	for i := range list {
		if list[i].Err != nil {
			return &list[i]
		}
	}
	return nil
}

// examined has the doctor look at the roots of TestRefusals.
func examined(t *testing.T, c *mini.Cluster) {
	found := Examine(t.Context(), c.URI("/w/new/root"), sink.Access{})
	if f := first(found); f != nil {
		t.Fatalf("%s: %v", f.Check, f.Err)
	}
	var said []string
	for _, f := range found {
		said = append(said, f.Check+": "+f.Detail)
	}
	all := strings.Join(said, "\n")
	for _, want := range []string{
		"resolve: /w/new/root at " + c.NameNodes[0], "user loader", "connected in", "/w/new/root isn't there yet; /w is there",
		"safe mode: off", "write, read, rename, put, delete: all in", "clocks: within", "replication ", "quota: no limit of names, no limit of bytes",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("the doctor doesn't say %q:\n%s", want, all)
		}
	}
	if list, err := openAs(t, c.URI("/w"), sink.Access{}).List(""); err != nil || strings.Contains(names(list), "doctor") || strings.Contains(names(list), "new") {
		t.Errorf("the doctor left %s (%v)", names(list), err)
	}
	c.Do("safemode on")
	safe := first(Examine(t.Context(), c.URI("/w"), sink.Access{}))
	c.Do("safemode off")
	if safe == nil || safe.Check != "safe mode" || sink.ClassOf(safe.Err) != sink.Retryable || safe.Advice == "" {
		t.Errorf("in safe mode: %+v", safe)
	}
	for root, want := range map[string]struct {
		check string
		is    error
	}{
		"/coded": {"folder", sink.ErrRefused}, "/encrypted/a": {"folder", sink.ErrRefused},
		"/theirs": {"write", fs.ErrPermission}, "/names": {"write", sink.ErrRefused}, "/bytes": {"write", sink.ErrRefused},
	} {
		if f := first(Examine(t.Context(), c.URI(root), sink.Access{})); f == nil || !strings.HasPrefix(f.Check, want.check) || !errors.Is(f.Err, want.is) {
			t.Errorf("%s: %+v", root, f)
		}
	}
}

func names(list []sink.Entry) string {
	var all []string
	for _, e := range list {
		all = append(all, e.Name)
	}
	return strings.Join(all, " ")
}

func TestDoctorStopsWhereNothingFurtherCanBeTold(t *testing.T) {
	t.Setenv("HADOOP_CONF_DIR", "")
	t.Setenv("HADOOP_HOME", "")
	var usage *UsageError
	if f := first(Examine(t.Context(), "hdfs:///a", sink.Access{})); f == nil || f.Check != "resolve" || !errors.As(f.Err, &usage) {
		t.Errorf("a root without a host: %+v", f)
	}
	found := Examine(t.Context(), "hdfs://127.0.0.1:1/a", sink.Access{User: "u"})
	if f := found[len(found)-1]; f.Check != "connect" || sink.ClassOf(f.Err) != sink.Retryable || f.Advice == "" {
		t.Errorf("nobody there: %+v", found)
	}
}

// quotas is a content summary.
type quotas struct {
	names, files, folders int
	space, used           int64
}

func (q quotas) NameQuota() int              { return q.names }
func (q quotas) SpaceQuota() int64           { return q.space }
func (q quotas) FileCount() int              { return q.files }
func (q quotas) DirectoryCount() int         { return q.folders }
func (q quotas) SizeAfterReplication() int64 { return q.used }

func TestQuotaLeft(t *testing.T) {
	for _, c := range []struct {
		what string
		q    quotas
		want string
		bad  bool
	}{
		{"none", quotas{names: -1, space: -1}, "no limit of names, no limit of bytes", false},
		{"Hadoop's largest", quotas{names: 1<<63 - 1, space: 1<<63 - 1}, "no limit of names, no limit of bytes", false},
		{"room", quotas{names: 1000, files: 300, folders: 200, space: 1 << 30, used: 1 << 29}, "500 of 1000 names left, 536870912 of 1073741824 bytes left", false},
		{"few names", quotas{names: 1000, files: 900, folders: 20, space: -1}, "80 of 1000 names left", true},
		{"less than a block", quotas{names: -1, space: 1 << 20, used: 1 << 19}, "524288 of 1048576 bytes left", true},
	} {
		got, err := quotaLeft("/a", c.q, 1<<20)
		if c.bad != (err != nil) || !strings.Contains(got+errorText(err), c.want) || c.bad && !errors.Is(err, sink.ErrRefused) {
			t.Errorf("%s: %q, %v", c.what, got, err)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
