package hdfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/keytab"
)

// Secrets stand in what Hadoop 3.5 wrote (testdata/container_tokens) beside a
// delegation token, a job's token and a secret of MapReduce's own; of a file that is
// cut off anywhere, of another form or damaged, none is believed.
func TestCredentials(t *testing.T) {
	data, err := os.ReadFile("testdata/container_tokens")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseCredentials(data)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || string(got[keytabSecret]) != strings.Repeat("y", 120) || string(got[krb5Secret]) != strings.Repeat("x", 300) || len(got["MapReduceShuffleToken"]) != 8 {
		t.Errorf("%q", got)
	}
	for n := range data {
		if got, err := parseCredentials(data[:n]); err == nil {
			t.Fatalf("%d of %d bytes: %q", n, len(data), got)
		}
	}
	other := []byte(strings.Replace(string(data), "HDTS\x00", "HDTS\x01", 1))
	if _, err := parseCredentials(other); err == nil || !strings.Contains(err.Error(), "form 1") {
		t.Errorf("another form: %v", err)
	}
	for at := range data { // no damage takes memory or the process
		data[at] ^= 0xff
		_, _ = parseCredentials(data)
		data[at] ^= 0xff
	}
}

// A keytab goes along with the keys of its principal and no others, and with the
// krb5.conf this process was told of; it is read again from an application's
// credentials, and from nowhere else.
func TestPacked(t *testing.T) {
	dir := t.TempDir()
	all := keytab.New()
	for _, name := range []string{"etl", "hdfs/h1", "etl"} {
		if err := all.AddEntry(name, "EX.ORG", "password", time.Unix(1_700_000_000, 0), uint8(1+len(all.Entries)), 18); err != nil {
			t.Fatal(err)
		}
	}
	data, err := all.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	env := map[string]string{"KRB5_CONFIG": put("krb5.conf", []byte("include "+put("more.conf", []byte("[libdefaults]\ndefault_realm = EX.ORG\n"))+"\n"))}
	l := &login{principal: "etl@EX.ORG", keytab: put("etl.keytab", data), env: func(name string) string { return env[name] }}
	name, secrets, err := l.pack()
	if err != nil {
		t.Fatal(err)
	}
	l.principal = "gone@EX.ORG"
	if _, _, err := l.pack(); err == nil || !strings.Contains(err.Error(), "no keys of gone@EX.ORG") {
		t.Errorf("a keytab without the principal's keys: %v", err)
	}
	there := &login{principal: "etl@EX.ORG", keytab: name, env: func(name string) string { return env[name] }}
	if _, err := there.keys(); err == nil || !strings.Contains(err.Error(), "no container") {
		t.Errorf("outside of a container: %v", err)
	}
	env = map[string]string{"HADOOP_TOKEN_FILE_LOCATION": put("container_tokens", credentialsOf(secrets)), "KRB5_CONFIG": "/not/there"}
	keys, err := there.keys()
	if err != nil || len(keys.Entries) != 2 {
		t.Fatalf("%v, %v: want two keys of etl", keys, err)
	}
	for _, e := range keys.Entries {
		if e.Principal.String() != "etl@EX.ORG" || string(e.Key.KeyValue) != string(all.Entries[0].Key.KeyValue) {
			t.Errorf("%v", e)
		}
	}
	if c, err := there.readConfig(); err != nil || c.LibDefaults.DefaultRealm != "EX.ORG" {
		t.Errorf("krb5.conf: %v", err)
	}
	for what, l := range map[string]*login{
		"kinit": {cache: "/tmp/krb5cc_0", env: l.env},
		"credentials without it": {keytab: packedKeytab, env: func(string) string {
			return put("none", credentialsOf(nil))
		}},
	} {
		if _, _, err := l.pack(); err == nil {
			t.Errorf("%s: was sent", what)
		}
	}
}

// credentialsOf are credentials with short secrets and no token.
func credentialsOf(secrets map[string]string) []byte {
	out := append([]byte("HDTS\x00\x00"), byte(len(secrets)))
	for name, text := range secrets {
		out = append(append(out, byte(len(name))), name...)
		out = append(append(out, 0x8e, byte(len(text)>>8), byte(len(text))), text...)
	}
	return out
}
