package hdfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sawlog/loader/sink"
)

// confOf writes a configuration folder and gives the environment that names it.
func confOf(t *testing.T, files map[string]string, env ...string) func(string) string {
	t.Helper()
	dir := t.TempDir()
	for name, body := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("<?xml version=\"1.0\"?>\n<configuration xmlns:xi=\"http://www.w3.org/2001/XInclude\">"+body+"</configuration>"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(name string) string {
		if name == "HADOOP_CONF_DIR" && len(files) > 0 {
			return dir
		}
		for i := 0; i+1 < len(env); i += 2 {
			if env[i] == name {
				return env[i+1]
			}
		}
		return ""
	}
}

func prop(name, value string) string {
	return "<property><name>" + name + "</name><value>" + value + "</value></property>"
}

// service is a cluster with two NameNodes, beside another one whose NameNodes
// must never be asked.
func service() string {
	return prop("dfs.nameservices", "blue, green") +
		prop("dfs.ha.namenodes.blue", "nn1,nn2") +
		prop("dfs.namenode.rpc-address.blue.nn1", "b1.example:9000") + prop("dfs.namenode.rpc-address.blue.nn2", "b2.example") +
		prop("dfs.ha.namenodes.green", "nn1,nn2") +
		prop("dfs.namenode.rpc-address.green.nn1", "g1.example:9000") + prop("dfs.namenode.rpc-address.green.nn2", "g2.example:9000")
}

func TestNamenodesAreThoseOfOneService(t *testing.T) {
	kerberos := prop("hadoop.security.authentication", "kerberos")
	for _, c := range []struct {
		what, root string
		access     sink.Access
		files      map[string]string
		env        []string
		want       string // namenodes, or a part of the error
		bad        bool
	}{
		{what: "host and port", root: "hdfs://nn:9000/a", want: "nn:9000"},
		{what: "host", root: "hdfs://nn/a", want: "nn:8020"},
		{what: "IPv6", root: "hdfs://[::1]:9000/a", want: "[::1]:9000"},
		{what: "a port is no name service", root: "hdfs://blue:9000/a", files: map[string]string{"hdfs-site.xml": service()}, want: "blue:9000"},
		{what: "name service", root: "hdfs://blue/a", files: map[string]string{"hdfs-site.xml": service()}, want: "b1.example:9000 b2.example:8020"},
		{what: "the other name service", root: "hdfs://green/a", files: map[string]string{"hdfs-site.xml": service()}, want: "g1.example:9000 g2.example:9000"},
		{what: "name service with one NameNode", root: "hdfs://solo/a", files: map[string]string{"hdfs-site.xml": prop("dfs.nameservices", "solo") + prop("dfs.namenode.rpc-address.solo", "s:9000")}, want: "s:9000"},
		{what: "default file system", root: "hdfs:///a", files: map[string]string{"core-site.xml": prop("fs.defaultFS", "hdfs://green"), "hdfs-site.xml": service()}, want: "g1.example:9000 g2.example:9000"},
		{what: "default file system by its old name", root: "hdfs:///a", files: map[string]string{"core-site.xml": prop("fs.default.name", "hdfs://nn:9000/")}, want: "nn:9000"},
		{what: "the job's own", root: "hdfs://blue/a", access: sink.Access{Namenodes: []string{"x:9", "y"}}, files: map[string]string{"hdfs-site.xml": service()}, want: "x:9 y:8020"},
		{what: "the job's own with one of them in the root", root: "hdfs://x:9/a", access: sink.Access{Namenodes: []string{"x:9", "y"}}, want: "x:9 y:8020"},
		{what: "no host", root: "hdfs:///a", bad: true, want: "HADOOP_CONF_DIR is not set"},
		{what: "another default", root: "hdfs:///a", files: map[string]string{"core-site.xml": prop("fs.defaultFS", "viewfs://all/")}, bad: true, want: `fs.defaultFS`},
		{what: "a service without NameNodes", root: "hdfs://blue/a", files: map[string]string{"hdfs-site.xml": prop("dfs.nameservices", "blue")}, bad: true, want: "dfs.ha.namenodes.blue is not set"},
		{what: "a NameNode without address", root: "hdfs://blue/a", files: map[string]string{"hdfs-site.xml": prop("dfs.ha.namenodes.blue", "nn1")}, bad: true, want: "dfs.namenode.rpc-address.blue.nn1 is not set"},
		{what: "one name for several", root: "hdfs://blue/a", files: map[string]string{"hdfs-site.xml": service() + prop("dfs.client.failover.resolve-needed.blue", "true")}, bad: true, want: "resolve-needed"},
		{what: "none of the job's", root: "hdfs://z:9/a", access: sink.Access{Namenodes: []string{"x:9"}}, bad: true, want: "none of namenodes"},
		{what: "no path", root: "hdfs://nn", bad: true, want: "want hdfs://"},
		{what: "query", root: "hdfs://nn/a?b", bad: true, want: "want hdfs://"},
		{what: "principal without keytab", root: "hdfs://nn/a", access: sink.Access{Principal: "p@R"}, bad: true, want: "go together"},
		{what: "user beside a principal", root: "hdfs://nn/a", access: sink.Access{User: "u"}, files: map[string]string{"core-site.xml": kerberos}, bad: true, want: "take user away"},
		{what: "unknown login", root: "hdfs://nn/a", files: map[string]string{"core-site.xml": prop("hadoop.security.authentication", "oauth")}, bad: true, want: `"oauth"`},
		{what: "a variable nobody knows", root: "hdfs:///a", files: map[string]string{"core-site.xml": prop("fs.defaultFS", "hdfs://${cluster}")}, bad: true, want: "core-site.xml: fs.defaultFS: ${cluster} is not defined"},
	} {
		t.Run(c.what, func(t *testing.T) {
			conf, err := readConf(confOf(t, c.files, c.env...))
			if err != nil {
				t.Fatal(err)
			}
			got, err := resolve(c.root, c.access, conf)
			switch {
			case c.bad && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error is %v, want %q in it", err, c.want)
			case !c.bad && err != nil:
				t.Error(err)
			case !c.bad && strings.Join(got.namenodes, " ") != c.want:
				t.Errorf("NameNodes are %v, want %s", got.namenodes, c.want)
			case !c.bad && got.dir != "/a":
				t.Errorf("folder is %s, want /a", got.dir)
			}
		})
	}
}

func TestSecurityIsWhatTheClusterAsksFor(t *testing.T) {
	read := func(access sink.Access, props string, env ...string) *target {
		t.Helper()
		conf, err := readConf(confOf(t, map[string]string{"core-site.xml": props}, env...))
		if err != nil {
			t.Fatal(err)
		}
		got, err := resolve("hdfs://nn/a", access, conf)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	plain := read(sink.Access{User: "loader"}, "", "HADOOP_USER_NAME", "other")
	if plain.kerberos || plain.user != "loader" || plain.protection != "" {
		t.Errorf("without security: %+v", plain)
	}
	if u := read(sink.Access{}, "", "HADOOP_USER_NAME", "other").user; u != "other" {
		t.Errorf("user is %q, want $HADOOP_USER_NAME", u)
	}
	k := read(sink.Access{Keytab: "/k", Principal: "p@R"}, prop("dfs.namenode.kerberos.principal", "hdfs/_HOST@EXAMPLE"))
	if !k.kerberos || k.spn != "hdfs/_HOST" || k.protection != "authentication" {
		t.Errorf("with a keytab: %+v", k)
	}
	k = read(sink.Access{}, prop("hadoop.security.authentication", "Kerberos")+prop("dfs.data.transfer.protection", "privacy")+prop("dfs.client.use.datanode.hostname", "true"))
	if !k.kerberos || k.spn != "nn/_HOST" || k.protection != "privacy" || !k.hostnames {
		t.Errorf("by the configuration: %+v", k)
	}
}

func TestConfigurationIsReadAsHadoopDoes(t *testing.T) {
	env := confOf(t, map[string]string{
		"core-site.xml": prop("a", "core") + prop("b", "core") + `<property><name>c</name><value>core</value><final>true</final></property>` +
			prop("d", " ${b}-${env.NAME}-${env.NONE:-else} ") + prop("loop", "${loop2}") + prop("loop2", "x${loop}") +
			`<property name="attr" value="yes"/>` + `<xi:include href="more.xml"/>` +
			`<xi:include href="gone.xml"><xi:fallback>` + prop("fallback", "used") + `</xi:fallback></xi:include>`,
		"hdfs-site.xml": prop("b", "site") + prop("c", "site"),
		"more.xml":      prop("a", "more") + prop("included", "yes"),
	}, "NAME", "value")
	c, err := readConf(env)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"a": "more", "b": "site", "c": "core", "d": "site-value-else", "attr": "yes", "included": "yes", "fallback": "used", "nothing": "",
	} {
		if got, err := c.get(key); err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", key, got, err, want)
		}
	}
	if _, err := c.get("loop"); err == nil || !strings.Contains(err.Error(), "stands for itself") {
		t.Errorf("a loop: %v", err)
	}
}

func TestDamagedConfigurationIsNamed(t *testing.T) {
	for what, c := range map[string]struct{ body, want string }{
		"no XML":         {"<property>", "core-site.xml"},
		"itself":         {`<xi:include href="core-site.xml"/>`, "is included by itself"},
		"a missing file": {`<xi:include href="gone.xml"/>`, "gone.xml"},
		"the network":    {`<xi:include href="http://example/a.xml"/>`, "http://example/a.xml"},
		"a part":         {`<xi:include href="a.xml" xpointer="b"/>`, "only whole files"},
	} {
		if _, err := readConf(confOf(t, map[string]string{"core-site.xml": c.body})); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", what, err, c.want)
		}
	}
	empty := t.TempDir()
	_, err := readConf(func(name string) string { return map[string]string{"HADOOP_CONF_DIR": empty}[name] })
	if err == nil || !strings.Contains(err.Error(), empty) {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestHadoopHomeIsLookedInto(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "etc", "hadoop")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "hdfs-site.xml"), []byte("<configuration>"+service()+"</configuration>"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := readConf(func(name string) string { return map[string]string{"HADOOP_HOME": home}[name] })
	if err != nil {
		t.Fatal(err)
	}
	got, err := resolve("hdfs://blue/a", sink.Access{}, c)
	if err != nil || !slices.Equal(got.namenodes, []string{"b1.example:9000", "b2.example:8020"}) {
		t.Errorf("%+v, %v", got, err)
	}
}
