package hdfs

import (
	"net/http"
	"os"
	"sync"

	"github.com/jcmturner/gokrb5/v8/spnego"

	"sawlog/loader/sink"
)

// Negotiate gives what puts a ticket into requests to web servers of the cluster
// a root is on (SPNEGO, RFC 4559), by whoever reaches the root. It is nil where
// the cluster is without Kerberos.
func Negotiate(root string, access sink.Access) (func(*http.Request) error, error) {
	t, err := targetOf(root, access)
	if err != nil || !t.kerberos {
		return nil, err
	}
	l, err := newLogin(t, os.Getenv)
	if err != nil {
		return nil, err
	}
	var one sync.Mutex
	return func(r *http.Request) error {
		one.Lock()
		defer one.Unlock()
		if err := l.renew(t.namenodes[0]); err != nil {
			return err
		}
		return spnego.SetSPNEGOHeader(l.client, r, "HTTP/"+r.URL.Hostname())
	}, nil
}
