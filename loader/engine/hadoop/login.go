package hadoop

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"sawlog/loader"
)

// Login is who the driver is on a cluster with Kerberos.
type Login struct {
	Principal  string                    // NAME[/HOST]@REALM
	Keytab     string                    // path of its keys
	Protection string                    // of calls between servers (hadoop.rpc.protection)
	Negotiate  func(*http.Request) error // puts a ticket into a request to the ResourceManager
	// Pack makes the keytab ready to go along: as secrets of the application's
	// credentials, and as what tasks are told for its path.
	Pack func() (keytab string, secrets map[string]string, err error)
}

// check refuses a login that no task could have.
func (l *Login) check() error {
	if l == nil || l.Keytab != "" {
		return nil
	}
	return &loader.Error{
		Code: loader.ExitAuth, Msg: "hadoop engine: a ticket of kinit stays on this machine, and tasks in containers have none",
		Hint: "give output.hdfs a keytab and a principal, and run.hadoop send_keytab: true where the nodes have no such keytab",
	}
}

// user is the short name of the principal.
func (l *Login) user() string {
	name, _, _ := strings.Cut(l.Principal, "@")
	name, _, _ = strings.Cut(name, "/")
	return name
}

// env has Hadoop's clients log in by the keytab (3.1 and later, HADOOP-9747). A
// krb5.conf that this process was told of is told to them, too, of several the
// first there is: Java reads $KRB5_CONFIG nowhere.
func (l *Login) env(of func(string) string) ([]string, error) {
	env := []string{"KRB5PRINCIPAL=" + l.Principal, "KRB5KEYTAB=" + l.Keytab}
	for path := range strings.SplitSeq(of("KRB5_CONFIG"), ":") {
		if _, err := os.Stat(path); path == "" || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if strings.ContainsAny(path, " \t") {
			return nil, &loader.Error{
				Code: loader.ExitUsage, Msg: fmt.Sprintf("hadoop engine: $KRB5_CONFIG is %q: Hadoop's commands take no path with blanks", path),
				Hint: "name the file by another path",
			}
		}
		return append(env, "HADOOP_CLIENT_OPTS="+strings.TrimSpace(of("HADOOP_CLIENT_OPTS")+" -Djava.security.krb5.conf="+path)), nil
	}
	return env, nil
}

// protection is the word for how calls between servers are guarded.
func (l *Login) protection() string {
	if l.Protection == "" {
		return "authentication"
	}
	return l.Protection
}
