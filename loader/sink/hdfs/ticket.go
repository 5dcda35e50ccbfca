package hdfs

import (
	"context"
	"errors"
	"time"

	"sawlog/loader/sink"
)

// Ticket is a login at a KDC.
type Ticket struct {
	Service   string // whose NameNodes it is for: the root's host or name service
	Principal string // NAME[/HOST]@REALM; empty where a cache of tickets could not be read
	By        string // keytab PATH or ticket cache PATH
	End       time.Time
}

// Login logs in as a load into the root would, and gets a ticket for its
// NameNodes; none of them is asked. The ticket is nil where the root needs none;
// beside an error it has no end.
func Login(ctx context.Context, root string, access sink.Access) (*Ticket, error) {
	t, err := targetOf(root, access)
	if err != nil || !t.kerberos {
		return nil, err
	}
	l, err := t.login(ctx)
	if err == nil {
		return &Ticket{t.service, l.principal, l.by(), l.expires()}, nil
	}
	if failed, ok := errors.AsType[*loginError](err); ok {
		return &Ticket{Service: t.service, Principal: failed.login.principal, By: failed.login.by()}, err
	}
	return &Ticket{Service: t.service, Principal: t.principal}, err
}

// login logs in at the KDC.
func (t *target) login(ctx context.Context) (*login, error) {
	w := wire{usual, ctx}
	_, l, err := t.options(w.dialNameNode, w.dialDataNode)
	return l, err
}
