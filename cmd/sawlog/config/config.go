// Package config resolves the settings of `sawlog serve`: a flag beats a
// SAWLOG_ variable, that beats the file, that beats the default; and it
// remembers which one won.
package config

import (
	"fmt"
	"net"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"sawlog/formats"
)

// Setting is one setting of the server: the name of its flag and of its key in
// the file; in the environment it is SAWLOG_ and the name in capitals.
type Setting struct {
	Name    string
	Default string
	Help    string
	Bool    bool
}

// IsSetting tells whether a name is that of a setting.
func IsSetting(name string) bool {
	return slices.ContainsFunc(Settings(), func(s Setting) bool { return s.Name == name })
}

// Settings lists every setting of the server, in the order help shows them.
func Settings() []Setting {
	return []Setting{
		{Name: "data", Default: "data", Help: "directory of the log, the metadata and the offsets"},
		{Name: "listen", Default: "127.0.0.1:9092", Help: "address Kafka clients connect to"},
		{Name: "advertise", Default: "", Help: "HOST:PORT told to clients; needed when --listen is not loopback"},
		{Name: "peer", Default: "127.0.0.1:9093", Help: "address other brokers connect to"},
		{Name: "peer-advertise", Default: "", Help: "HOST:PORT told to other brokers; needed when --peer names no host"},
		{Name: "join", Default: "", Help: "PEER,… of a cluster to become a member of; where all nodes name all, themselves too, the first of them founds it. Counts only for an empty data directory"},
		{Name: "cluster-key", Default: "", Help: "FILE with the secret all brokers of the cluster share; needed when --peer is not loopback"},
		{Name: "http", Default: "127.0.0.1:8088", Help: "address of the console, the API and the metrics"},
		{Name: "http-token", Default: "", Help: "FILE with the secret that the console, the API and the metrics ask for, the same on all nodes; needed when --http is not loopback"},
		{Name: "http-cert", Default: "", Help: "FILE with the certificate of the HTTP side, and those that vouch for it, as PEM: it is HTTPS then, on all nodes"},
		{Name: "http-key", Default: "", Help: "FILE with the key of --http-cert"},
		{Name: "node-id", Default: "", Help: "id of this broker; empty: kept from the data directory, 1 at first"},
		{Name: "rack", Default: "", Help: "rack of this broker, for placing replicas"},
		{Name: "insecure", Default: "false", Help: "serve beyond loopback without authentication", Bool: true},
	}
}

// Value is a resolved setting and where it came from.
type Value struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // flag, environment, FILE:LINE or default
}

// Config is what the server runs with.
type Config struct {
	Data, Listen, Advertise, Peer, HTTP, Rack string
	PeerAdvertise                             string
	NodeID                                    int32 // 0 = not set
	Insecure                                  bool
	// PeerGiven tells that Peer is somebody's choice, not the default.
	PeerGiven bool
	Join      []string // peer addresses
	// ClusterKey and HTTPToken are the contents of their files, nil without one.
	ClusterKey, HTTPToken []byte
	// HTTPCert and HTTPKey are files; empty = HTTP.
	HTTPCert, HTTPKey string
	// Topics are defaults of topic configs, by Kafka's own names.
	Topics map[string]string
	// Values are all settings with their origins, in the order of Settings;
	// topic defaults follow as topics.NAME.
	Values []Value
}

// Error is a setting that cannot be used: Place names the flag, variable or
// line of the file.
type Error struct {
	Place, Msg string
}

func (e *Error) Error() string { return e.Place + ": " + e.Msg }

// ExitCode says that the invocation is at fault.
func (e *Error) ExitCode() int { return 2 }

// Advice is how to see all settings.
func (e *Error) Advice() string {
	return "sawlog config view --origin shows each setting and where it comes from, sawlog serve --help what it takes"
}

type fromFile struct {
	value string
	line  int
}

// Load resolves all settings. path may be empty; flags holds only flags that
// were given; getenv is os.LookupEnv but in tests.
func Load(path string, flags map[string]string, getenv func(string) (string, bool)) (*Config, error) {
	file, topics, err := readFile(path)
	if err != nil {
		return nil, err
	}
	c := &Config{Topics: map[string]string{}}
	for _, s := range Settings() {
		v := Value{Name: s.Name, Value: s.Default, Origin: "default"}
		if f, ok := file[s.Name]; ok {
			v.Value, v.Origin = f.value, fmt.Sprintf("%s:%d", path, f.line)
		}
		if name := EnvName(s.Name); getenv != nil {
			if text, ok := getenv(name); ok {
				v.Value, v.Origin = text, "environment "+name
			}
		}
		if text, ok := flags[s.Name]; ok {
			v.Value, v.Origin = text, "flag --"+s.Name
		}
		if err := c.set(s, v); err != nil {
			return nil, err
		}
		c.Values = append(c.Values, v)
	}
	names := make([]string, 0, len(topics))
	for name := range topics {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		f := topics[name]
		c.Topics[name] = f.value
		c.Values = append(c.Values, Value{"topics." + name, f.value, fmt.Sprintf("%s:%d", path, f.line)})
	}
	return c, c.check()
}

// EnvName is the variable that holds a setting.
func EnvName(setting string) string {
	return "SAWLOG_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

func (c *Config) set(s Setting, v Value) error {
	wrong := func(want string) error {
		return &Error{Place: v.Origin, Msg: fmt.Sprintf("%s = %q: want %s", s.Name, v.Value, want)}
	}
	switch s.Name {
	case "data":
		if v.Value == "" {
			return wrong("a directory")
		}
		c.Data = v.Value
	case "listen", "peer", "http":
		if _, _, err := net.SplitHostPort(v.Value); err != nil {
			return wrong("HOST:PORT")
		}
		*map[string]*string{"listen": &c.Listen, "peer": &c.Peer, "http": &c.HTTP}[s.Name] = v.Value
		if s.Name == "peer" {
			c.PeerGiven = v.Origin != "default"
		}
	case "advertise", "peer-advertise":
		if v.Value != "" && !dialable(v.Value) {
			return wrong("HOST:PORT")
		}
		*map[string]*string{"advertise": &c.Advertise, "peer-advertise": &c.PeerAdvertise}[s.Name] = v.Value
	case "join":
		for addr := range strings.SplitSeq(v.Value, ",") {
			if addr = strings.TrimSpace(addr); addr == "" {
				continue
			}
			if !dialable(addr) {
				return wrong("HOST:PORT,… of brokers' peer addresses")
			}
			c.Join = append(c.Join, addr)
		}
	case "cluster-key", "http-token":
		return c.readSecret(v)
	case "http-cert":
		c.HTTPCert = v.Value
	case "http-key":
		c.HTTPKey = v.Value
	case "node-id":
		if v.Value == "" {
			return nil
		}
		n, err := strconv.ParseInt(v.Value, 10, 32)
		if err != nil || n < 1 {
			return wrong("a number from 1 up")
		}
		c.NodeID = int32(n)
	case "rack":
		c.Rack = v.Value
	case "insecure":
		on, err := strconv.ParseBool(v.Value)
		if err != nil {
			return wrong("true or false")
		}
		c.Insecure = on
	}
	return nil
}

// dialable tells whether an address names a host and a port.
func dialable(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	return err == nil && host != "" && port != "" && port != "0"
}

// check holds what one setting alone cannot tell.
func (c *Config) check() error {
	if !loopback(c.Listen) {
		if !c.Insecure {
			return &Error{Place: c.origin("listen"), Msg: fmt.Sprintf("%s is reachable from other machines and nothing is authenticated: say --insecure to allow it", c.Listen)}
		}
		if c.Advertise == "" {
			return &Error{Place: c.origin("listen"), Msg: fmt.Sprintf("%s is not loopback: --advertise HOST:PORT must say how clients reach this broker", c.Listen)}
		}
	}
	if !loopback(c.Peer) {
		host, _, _ := net.SplitHostPort(c.Peer) // set has looked at it
		ip := net.ParseIP(host)
		switch {
		case c.ClusterKey == nil:
			return &Error{Place: c.origin("peer"), Msg: fmt.Sprintf("%s is reachable from other machines: brokers there need --cluster-key FILE, the same on all of them", c.Peer)}
		case c.PeerAdvertise == "" && (host == "" || ip != nil && ip.IsUnspecified()):
			return &Error{Place: c.origin("peer"), Msg: fmt.Sprintf("%s names no host: --peer-advertise HOST:PORT must say how other brokers reach this one", c.Peer)}
		}
	}
	if len(c.Join) > 0 && !slices.ContainsFunc(c.Join, func(addr string) bool { return addr != c.Peer && addr != c.PeerAdvertise }) {
		return &Error{Place: c.origin("join"), Msg: "a broker can't join itself: name the --peer of another one, or leave join out to found a cluster"}
	}
	if (c.HTTPCert == "") != (c.HTTPKey == "") {
		return &Error{Place: c.origin("http-cert"), Msg: "http-cert and http-key go together: a certificate, and the key of it"}
	}
	if !loopback(c.HTTP) && c.HTTPToken == nil && !c.Insecure {
		return &Error{Place: c.origin("http"), Msg: fmt.Sprintf("%s is reachable from other machines: say who may use it by --http-token FILE (sawlog cluster key FILE makes one), or by --insecure that everybody may", c.HTTP)}
	}
	return nil
}

func (c *Config) origin(name string) string {
	for _, v := range c.Values {
		if v.Name == name {
			return v.Origin
		}
	}
	return name
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// readFile reads a YAML file of settings; topics: holds topic defaults.
func readFile(path string) (settings, topics map[string]fromFile, err error) {
	if path == "" {
		return nil, nil, nil
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, &Error{Place: path, Msg: err.Error()}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return nil, nil, &Error{Place: path, Msg: strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	if len(doc.Content) == 0 {
		return nil, nil, nil // an empty file
	}
	top := doc.Content[0]
	known := []string{"topics"}
	for _, s := range Settings() {
		known = append(known, s.Name)
	}
	settings, topics = map[string]fromFile{}, map[string]fromFile{}
	if err := eachKey(path, top, func(key, value *yaml.Node) error {
		name := strings.ReplaceAll(key.Value, "_", "-")
		switch {
		case name == "topics":
			return eachKey(path, value, func(key, value *yaml.Node) error {
				return scalar(path, topics, key.Value, value)
			})
		case slices.Contains(known, name):
			return scalar(path, settings, name, value)
		}
		msg := fmt.Sprintf("unknown key %q", key.Value)
		if near := formats.Nearest(name, known); near != "" {
			msg += fmt.Sprintf(": did you mean %q?", near)
		}
		return &Error{Place: place(path, key), Msg: msg}
	}); err != nil {
		return nil, nil, err
	}
	return settings, topics, nil
}

func scalar(path string, into map[string]fromFile, name string, value *yaml.Node) error {
	if value.Kind != yaml.ScalarNode {
		return &Error{Place: place(path, value), Msg: name + ": want one value"}
	}
	into[name] = fromFile{value.Value, value.Line}
	return nil
}

func eachKey(path string, node *yaml.Node, visit func(key, value *yaml.Node) error) error {
	if node.Kind != yaml.MappingNode {
		return &Error{Place: place(path, node), Msg: "want keys with values"}
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if seen[key.Value] {
			return &Error{Place: place(path, key), Msg: fmt.Sprintf("key %q stands twice", key.Value)}
		}
		seen[key.Value] = true
		if err := visit(key, node.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func place(path string, n *yaml.Node) string {
	return fmt.Sprintf("%s:%d:%d", path, n.Line, n.Column)
}
