package hdfs

import (
	"net/http"
	"os"
	"sync"

	"github.com/jcmturner/gokrb5/v8/spnego"

	"sawlog/loader/sink"
)

// Identity is who reaches a root, for what else of its cluster is asked.
type Identity struct {
	Principal  string // NAME[/HOST]@REALM
	Keytab     string // path of its keys; empty = tickets of kinit
	Protection string // of calls between the cluster's servers: hadoop.rpc.protection, empty = its default, authentication
	// Negotiate puts a ticket into a request to a web server (SPNEGO, RFC 4559).
	Negotiate func(*http.Request) error
	// Pack makes the identity ready to go along with an application to containers of
	// a Hadoop cluster: by secrets of the application's credentials, which Hadoop
	// hands to containers beside its own tokens ($HADOOP_TOKEN_FILE_LOCATION). A task
	// is told of the keytab by what stands for its path.
	Pack func() (keytab string, secrets map[string]string, err error)
}

// Identify logs in as who reaches the root. It is nil where the cluster is
// without Kerberos.
func Identify(root string, access sink.Access) (*Identity, error) {
	t, err := targetOf(root, access)
	if err != nil || !t.kerberos {
		return nil, err
	}
	l, err := newLogin(t, os.Getenv)
	if err != nil {
		return nil, err
	}
	var one sync.Mutex
	return &Identity{
		Principal: l.principal, Keytab: l.keytab, Protection: t.rpc, Pack: l.pack,
		Negotiate: func(r *http.Request) error {
			one.Lock()
			defer one.Unlock()
			if err := l.renew(t.namenodes[0]); err != nil {
				return err
			}
			return spnego.SetSPNEGOHeader(l.client, r, "HTTP/"+r.URL.Hostname())
		},
	}, nil
}
