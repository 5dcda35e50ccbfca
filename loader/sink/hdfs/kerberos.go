package hdfs

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	krb "github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/krberror"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// login is one identity at the KDC and the ticket it has now.
//
// A ticket counts only while a connection is made, and the library makes one in
// the middle of any call. So renew stands in the dial function: it fetches a new
// ticket, from the keytab as it is by then, once two thirds of the old one's life
// are over. The library holds on to the *krb.Client it was given, so the new
// one takes its place in the same memory; nobody reads it meanwhile, since a
// connection is made by who dialled it and by nobody else.
//
// The client is always made of one ticket, never of a password or key: with
// those gokrb5 renews by itself, in a goroutine, and gives up for good when the
// KDC was away for as long as a ticket lives.
type login struct {
	client    *krb.Client
	config    *config.Config
	principal string // NAME[/HOST]@REALM; found in the cache where there is no keytab
	keytab    string
	cache     string // file of tickets, without a keytab
	spn       string // of the NameNodes, with _HOST for theirs
	now       func() time.Time
	env       func(string) string

	mu         sync.Mutex
	begin, end time.Time // of the ticket
}

// loginError says who could not log in, by what, and why.
type loginError struct {
	login  *login
	end    time.Time // of the last ticket, zero = there was none
	denied bool      // the KDC or a file says no; otherwise another try may do better
	err    error
}

func (e *loginError) Error() string {
	text := fmt.Sprintf("Kerberos: %s by %s: %v", e.login.principal, e.login.by(), e.err)
	if !e.end.IsZero() {
		text += ", and the last ticket ended at " + e.end.UTC().Format(time.RFC3339)
	}
	return text
}

// Is tells that a refusal is one of permission, which exit code 5 stands for. The
// cause isn't unwrapped: a keytab that isn't there would be a root that isn't.
func (e *loginError) Is(target error) bool { return target == fs.ErrPermission && e.denied }

// newLogin logs in by the keytab of the target, or takes the tickets somebody
// else fetched: those of $KRB5CCNAME, as kinit leaves them.
func newLogin(t *target, env func(string) string) (*login, error) {
	l := &login{principal: t.principal, keytab: t.keytab, spn: t.spn, now: time.Now, env: env, client: &krb.Client{}}
	var err error
	if l.config, err = l.readConfig(); err == nil {
		if l.keytab == "" {
			l.cache, err = cachePath(env)
		} else {
			l.principal, err = qualified(t.principal, l.config.LibDefaults.DefaultRealm)
		}
	}
	if err != nil {
		return nil, &loginError{l, time.Time{}, true, err}
	}
	return l, l.renew(t.namenodes[0])
}

// by is what the identity is proved by.
func (l *login) by() string {
	if l.keytab == "" {
		return "ticket cache " + l.cache
	}
	return "keytab " + l.keytab
}

// qualified is a principal with its realm, and with this machine's name in the
// place of _HOST.
func qualified(principal, realm string) (string, error) {
	name, given, has := strings.Cut(principal, "@")
	if has {
		realm = given
	}
	if realm == "" {
		return "", fmt.Errorf("principal %s: has no realm, and krb5.conf has no default_realm: write NAME@REALM", principal)
	}
	if primary, host, _ := strings.Cut(name, "/"); host == "_HOST" {
		own, err := os.Hostname()
		if err != nil {
			return "", err
		}
		name = primary + "/" + strings.ToLower(own)
	}
	return name + "@" + realm, nil
}

// cachePath is the file that holds the tickets of this user.
func cachePath(env func(string) string) (string, error) {
	name := env("KRB5CCNAME")
	if name == "" {
		return fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid()), nil
	}
	kind, path, typed := strings.Cut(name, ":")
	switch {
	case !typed:
		return name, nil
	case kind == "FILE":
		return path, nil
	}
	return "", fmt.Errorf("$KRB5CCNAME %s: a cache of tickets of kind %s can't be read: want FILE:/path, or keytab: and principal: in the job", name, kind)
}

// renew makes sure that the ticket lasts for a while, and that the KDC gives one
// for the NameNode at addr: the library would only say that there is none.
func (l *login) renew(addr string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.fetch()
	if err == nil {
		if _, _, err = l.client.GetServiceTicket(l.service(addr)); err != nil {
			err = fmt.Errorf("no ticket for the NameNode as %s, see dfs.namenode.kerberos.principal: %w", l.service(addr), err)
		}
	}
	if err == nil {
		return nil
	}
	var said krberror.Krberror
	away := errors.As(err, &said) && (said.RootCause == krberror.NetworkingError || strings.Contains(said.Error(), "KDC_ERR_SVC_UNAVAILABLE"))
	return &loginError{l, l.end, !away, err}
}

// service is the principal of the NameNode at addr.
func (l *login) service(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return strings.Replace(l.spn, "_HOST", host, 1)
}

// key is that of the ticket for the NameNode at addr, which renew fetched.
func (l *login) key(addr string) (types.EncryptionKey, error) {
	_, key, err := l.client.GetServiceTicket(l.service(addr))
	return key, err
}

// fetch gets a new ticket when the one there is has lived most of its life.
func (l *login) fetch() error {
	if left := l.end.Sub(l.now()); left > 0 && left > l.end.Sub(l.begin)/3 {
		return nil
	}
	fetch := l.fromKeytab
	if l.keytab == "" {
		fetch = l.fromCache
	}
	cache, ticket, err := fetch()
	if err == nil {
		var client *krb.Client
		if client, err = krb.NewFromCCache(cache, l.config); err == nil {
			*l.client, l.begin, l.end = *client, ticket.AuthTime, ticket.EndTime
		}
	}
	if l.now().Before(l.end) {
		return nil // where the KDC is away, the ticket there was is still good
	}
	return err
}

// expires is when the ticket ends.
func (l *login) expires() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// fromKeytab asks the KDC for a ticket.
func (l *login) fromKeytab() (*credentials.CCache, *credentials.Credential, error) {
	keys, err := l.keys()
	if err != nil {
		return nil, nil, err
	}
	name, realm, _ := strings.Cut(l.principal, "@")
	c, err := l.narrowed(keys, name, realm)
	if err != nil {
		return nil, nil, err
	}
	client := krb.NewWithKeytab(name, realm, keys, c, krb.DisablePAFXFAST(true)) // Active Directory refuses it
	ask, err := messages.NewASReqForTGT(realm, c, client.Credentials.CName())
	if err != nil {
		return nil, nil, err
	}
	got, err := client.ASExchange(realm, ask, 0)
	if err != nil {
		return nil, nil, outdated(err)
	}
	ticket, err := got.Ticket.Marshal()
	if err != nil {
		return nil, nil, err
	}
	part := got.DecryptedEncPart
	entry := &credentials.Credential{Key: part.Key, AuthTime: part.AuthTime, StartTime: part.StartTime, EndTime: part.EndTime, Ticket: ticket}
	entry.Server.Realm, entry.Server.PrincipalName = realm, got.Ticket.SName
	cache := &credentials.CCache{Credentials: []*credentials.Credential{entry}}
	cache.DefaultPrincipal.Realm, cache.DefaultPrincipal.PrincipalName = realm, client.Credentials.CName()
	return cache, entry, nil
}

// wrongKeys is what a KDC, or gokrb5 for one that doesn't ask first, says of keys
// that are not those of the principal.
var wrongKeys = []string{"KDC_ERR_PREAUTH_FAILED", "KRB_AP_ERR_BAD_INTEGRITY", "client password/keytab incorrect"}

// outdated explains the error of a login by keys of an earlier password.
func outdated(err error) error {
	for _, text := range wrongKeys {
		if strings.Contains(err.Error(), text) {
			return fmt.Errorf("the keys are not those the KDC has, export the keytab anew if the password was changed: %w", err)
		}
	}
	return err
}

// narrowed is the configuration with only the encryption types the keytab has
// keys of: the KDC would choose another one.
func (l *login) narrowed(keys *keytab.Keytab, name, realm string) (*config.Config, error) {
	c := *l.config
	c.LibDefaults.DefaultTktEnctypeIDs = nil
	var others []string
	for _, e := range keys.Entries {
		if e.Principal.String() != name+"@"+realm {
			others = append(others, e.Principal.String())
		} else if slices.Contains(l.config.LibDefaults.DefaultTktEnctypeIDs, e.Key.KeyType) {
			c.LibDefaults.DefaultTktEnctypeIDs = append(c.LibDefaults.DefaultTktEnctypeIDs, e.Key.KeyType)
		}
	}
	if len(c.LibDefaults.DefaultTktEnctypeIDs) > 0 {
		return &c, nil
	}
	if len(others) == len(keys.Entries) {
		slices.Sort(others)
		return nil, fmt.Errorf("the keytab has no key of it, only of %s", strings.Join(slices.Compact(others), ", "))
	}
	return nil, errors.New("the keytab's keys are all of encryption types that krb5.conf (default_tkt_enctypes) leaves out")
}

// fromCache reads the tickets somebody fetched.
func (l *login) fromCache() (*credentials.CCache, *credentials.Credential, error) {
	cache, err := credentials.LoadCCache(l.cache)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w: run kinit, or give keytab: and principal: in the job", err)
	}
	if err != nil {
		return nil, nil, err
	}
	realm := cache.GetClientRealm()
	l.principal = cache.GetClientPrincipalName().PrincipalNameString() + "@" + realm
	entry, ok := cache.GetEntry(types.NewPrincipalName(2, "krbtgt/"+realm))
	if !ok {
		return nil, nil, fmt.Errorf("holds no ticket of %s: run kinit", realm)
	}
	if !l.now().Before(entry.EndTime) {
		return nil, nil, fmt.Errorf("its ticket ended at %s: run kinit, or give keytab: and principal: in the job, which need nobody to renew them", entry.EndTime.UTC().Format(time.RFC3339))
	}
	return cache, entry, nil
}
