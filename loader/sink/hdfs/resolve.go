package hdfs

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/user"
	"path"
	"slices"
	"strconv"
	"strings"

	"sawlog/loader/sink"
)

// defaultPort is that of a NameNode's clients since Hadoop 3.0.1 (HDFS-12990).
const defaultPort = "8020"

// target is what a root's URI, what a job says of it and Hadoop's configuration
// come to: whom to ask, as whom, and how.
type target struct {
	uri       string   // as given, without a slash at its end
	service   string   // host of the URI, or the name service it stands for
	namenodes []string // HOST:PORT
	dir       string   // absolute path of the root
	user      string   // without Kerberos

	kerberos   bool
	keytab     string // empty = a cache of tickets
	principal  string
	spn        string // of the NameNodes; _HOST stands for the host that is dialled
	protection string // dfs.data.transfer.protection: "", authentication, integrity, privacy; more than one may stand in it
	rpc        string // hadoop.rpc.protection likewise, in Kerberos' words
	encrypt    bool   // dfs.encrypt.data.transfer
	hostnames  bool   // dfs.client.use.datanode.hostname

	replication int
	blockSize   int64
	origin      string // what said where the NameNodes are
}

// resolve finds the target of a root. It asks nothing of the network.
func resolve(root string, access sink.Access, c *conf) (*target, error) {
	u, err := url.Parse(root)
	if err != nil {
		return nil, fmt.Errorf("root %q: %w", root, err)
	}
	dir := path.Clean(u.Path)
	if u.Scheme != "hdfs" || u.Opaque != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || !path.IsAbs(u.Path) {
		return nil, fmt.Errorf("root %q: want hdfs://HOST[:PORT]/FOLDER or hdfs://NAMESERVICE/FOLDER", root)
	}
	t := &target{
		uri: strings.TrimRight(root, "/"), service: u.Hostname(), dir: dir,
		keytab: access.Keytab, principal: access.Principal, replication: access.Replication, blockSize: access.BlockSize,
	}
	if err := t.locate(u, access.Namenodes, c); err != nil {
		return nil, fmt.Errorf("root %s: %w", root, err)
	}
	if err := t.secure(access, c); err != nil {
		return nil, err
	}
	return t, nil
}

// locate finds the NameNodes: those the job names; else that of the URI when it
// has a port; else those the configuration has for the name in the URI; else
// the host of the URI at the default port. Only the NameNodes of one name
// service are ever asked: another's would answer too, with other files.
func (t *target) locate(u *url.URL, named []string, c *conf) error {
	if len(named) > 0 {
		return t.locateNamed(u, named)
	}
	host, port := u.Hostname(), u.Port()
	if host == "" {
		fallback, err := c.get("fs.defaultFS")
		if err != nil {
			return err
		}
		d, err := url.Parse(fallback)
		if err != nil || d.Scheme != "hdfs" || d.Hostname() == "" {
			return fmt.Errorf("names no host, and fs.defaultFS of %s is %q: write hdfs://HOST[:PORT]/FOLDER", c.place(), fallback)
		}
		host, port = d.Hostname(), d.Port()
		t.service = host
	}
	if port != "" {
		t.namenodes, t.origin = []string{net.JoinHostPort(host, port)}, "the root's own host and port"
		return nil
	}
	ids, err := c.words("dfs.ha.namenodes." + host)
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		return t.locateService(host, ids, c)
	}
	if addr, err := c.get("dfs.namenode.rpc-address." + host); err != nil || addr != "" {
		t.namenodes, t.origin = []string{withPort(addr)}, "dfs.namenode.rpc-address."+host
		return err
	}
	services, err := c.words("dfs.nameservices")
	if err != nil {
		return err
	}
	if slices.Contains(services, host) {
		return fmt.Errorf("%s: dfs.nameservices has %s, but dfs.ha.namenodes.%s is not set", c.place(), host, host)
	}
	t.namenodes, t.origin = []string{net.JoinHostPort(host, defaultPort)}, "the root's own host, port "+defaultPort
	return nil
}

func (t *target) locateNamed(u *url.URL, named []string) error {
	for _, addr := range named {
		t.namenodes = append(t.namenodes, withPort(addr))
	}
	t.origin = "namenodes: of the job"
	if u.Host == "" {
		return errors.New("names no host: write the name service there, as in hdfs://warehouse/FOLDER")
	}
	if u.Port() != "" && !slices.Contains(t.namenodes, u.Host) {
		return fmt.Errorf("%s is none of namenodes: %s; write the name service there, without a port", u.Host, strings.Join(t.namenodes, ", "))
	}
	return nil
}

// locateService finds the NameNodes of a name service with several.
func (t *target) locateService(service string, ids []string, c *conf) error {
	for _, id := range ids {
		key := "dfs.namenode.rpc-address." + service + "." + id
		addr, err := c.get(key)
		if err != nil {
			return err
		}
		if addr == "" {
			return fmt.Errorf("%s: dfs.ha.namenodes.%s has %s, but %s is not set", c.place(), service, id, key)
		}
		t.namenodes = append(t.namenodes, withPort(addr))
	}
	t.origin = "dfs.ha.namenodes." + service + " of " + c.place()
	resolved, err := c.get("dfs.client.failover.resolve-needed." + service)
	if err == nil && resolved == "true" {
		err = fmt.Errorf("dfs.client.failover.resolve-needed.%s: one name for several NameNodes is not available: name each of them in the job", service)
	}
	return err
}

// secure finds who the client is and how the wire is protected.
func (t *target) secure(access sink.Access, c *conf) error {
	words := map[string]string{}
	for _, key := range []string{
		"hadoop.security.authentication", "dfs.namenode.kerberos.principal", "dfs.data.transfer.protection",
		"dfs.encrypt.data.transfer", "hadoop.rpc.protection", "dfs.client.use.datanode.hostname",
	} {
		text, err := c.get(key)
		if err != nil {
			return err
		}
		words[key] = text
	}
	t.hostnames = words["dfs.client.use.datanode.hostname"] == "true"
	t.encrypt = strings.EqualFold(words["dfs.encrypt.data.transfer"], "true")
	t.protection = strings.ToLower(words["dfs.data.transfer.protection"])
	t.rpc = strings.ToLower(words["hadoop.rpc.protection"])
	switch mode := strings.ToLower(words["hadoop.security.authentication"]); mode {
	case "", "simple":
		t.kerberos = access.Keytab != ""
	case "kerberos":
		t.kerberos = true
	default:
		return fmt.Errorf("hadoop.security.authentication of %s is %q: want simple or kerberos", c.place(), mode)
	}
	if (access.Keytab == "") != (access.Principal == "") {
		return errors.New("keytab and principal go together")
	}
	if !t.kerberos {
		t.user = who(access.User, c.env)
		return nil
	}
	if access.User != "" {
		return fmt.Errorf("user %s: with Kerberos the principal says who the user is: take user away", access.User)
	}
	// Any realm: the one of the KDC that gives the ticket.
	t.spn, _, _ = strings.Cut(words["dfs.namenode.kerberos.principal"], "@")
	if t.spn == "" {
		t.spn = "nn/_HOST"
	}
	if t.protection == "" && !t.encrypt {
		// DataNodes of a cluster with Kerberos ask for SASL, but for those on
		// ports below 1024, where the library leaves it out.
		t.protection = "authentication"
	}
	return nil
}

// who is the user without Kerberos, as Hadoop's own clients find it.
func who(asked string, env func(string) string) string {
	if asked != "" {
		return asked
	}
	if name := env("HADOOP_USER_NAME"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

// place names the configuration for errors.
func (c *conf) place() string {
	if c.dir == "" {
		return "Hadoop's configuration ($HADOOP_CONF_DIR is not set)"
	}
	return c.dir
}

func withPort(addr string) string {
	if _, _, err := net.SplitHostPort(addr); err == nil {
		return addr
	}
	return net.JoinHostPort(strings.Trim(addr, "[]"), defaultPort)
}
