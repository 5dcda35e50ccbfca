package broker

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"strconv"

	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// Config is what a broker is started with. Zero values mean the default beside
// them.
type Config struct {
	Dir       string           // data directory; made when absent
	FS        vfs.FS           // vfs.OS
	Listen    string           // host:port clients connect to; 127.0.0.1:9092
	Listener  net.Listener     // serve on this one instead, as tests do; closed by Close
	Advertise string           // host:port told to clients; where Listen is bound
	NodeID    offsets.BrokerID // the data directory's, or 1, or what the cluster it joins gives it
	Rack      string

	// Peer is the host:port other brokers connect to; "" = none, and the broker
	// stays alone. PeerOptional lets a broker that is alone do without when the
	// address is taken.
	Peer          string
	PeerOptional  bool
	PeerAdvertise string       // host:port told to the others; where Peer is bound
	PeerListener  net.Listener // instead of Peer, as tests do; closed by Close
	PeerDial      func(ctx context.Context, addr string) (net.Conn, error)
	Join          []string // peer addresses of the cluster to join, while the data directory is empty; with its own, nodes that start a cluster together
	ClusterKey    []byte   // secret of the cluster; needed when Peer is not loopback
	HTTP          string   // host:port of this node's API, told to the others; may be ""
	BootID        string   // of the machine, the kernel's; tests that cut power have their own
	// FormatLevel is the newest format level of the cluster this broker goes by;
	// that of this build. Tests run older brokers.
	FormatLevel int16
	// Insecure allows a listener that others can reach, though neither
	// authentication nor encryption is there yet.
	Insecure bool
	Logger   *slog.Logger // discard
	// Stage, when not nil, is told what Open is at, so that who waits for it may know.
	Stage func(string)
	// Defaults are topic configurations for topics that don't set them, by
	// Kafka's names for them or for their broker-wide defaults, and the
	// settings of startSettings.
	Defaults map[string]string
	// QueuedBytes bounds the memory of all requests in flight; 256 MiB.
	QueuedBytes int64
	// MaxOpenFiles bounds the segment files held open; half of what the
	// process may open.
	MaxOpenFiles int
}

func (c Config) withDefaults() Config {
	if c.FS == nil {
		c.FS = vfs.OS
	}
	if c.Listen == "" {
		c.Listen = "127.0.0.1:9092"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Defaults = byTopicNames(c.Defaults)
	return c
}

// ConfigError tells that Open was given a setting that can't work or isn't safe.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

// validate refuses what can't work or isn't safe.
func (c Config) validate() error {
	if c.Dir == "" {
		return fmt.Errorf("broker: no data directory given")
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("broker: listen address %q: %w", c.Listen, err)
	}
	if c.Advertise != "" {
		if _, _, err := splitAddress(c.Advertise); err != nil {
			return fmt.Errorf("broker: advertised address: %w", err)
		}
	}
	if c.PeerAdvertise != "" {
		if _, _, err := splitAddress(c.PeerAdvertise); err != nil {
			return fmt.Errorf("broker: advertised peer address: %w", err)
		}
	}
	if len(c.Join) > 0 && c.Peer == "" && c.PeerListener == nil {
		return fmt.Errorf("broker: a member of a cluster needs an address for the other brokers: say it with --peer HOST:PORT")
	}
	if c.NodeID < 0 {
		return fmt.Errorf("broker: node id %d is negative", c.NodeID)
	}
	if !isLoopback(host) {
		if !c.Insecure {
			return fmt.Errorf("broker: %s can be reached by others, and this server has neither encryption nor authentication yet: listen on a loopback address, or say --insecure", c.Listen)
		}
		if ip := net.ParseIP(host); c.Advertise == "" && (host == "" || ip != nil && ip.IsUnspecified()) {
			return fmt.Errorf("broker: clients can't connect to %s: say with --advertise HOST:PORT which address they use", c.Listen)
		}
	}
	return checkDefaults(c.Defaults)
}

// checkDefaults judges Config.Defaults.
func checkDefaults(defaults map[string]string) error {
	topic := map[string]string{}
	for name, value := range defaults {
		var err error
		if s, ok := findStartSetting(name); ok {
			err = judge(name, s.kind, s.check, value)
		} else if s, ok := findClassSetting(name); ok {
			err = s.judge(name, value)
		} else if isRunningSetting(name) {
			err = fmt.Errorf("%s is set while brokers run, as kafka-configs --alter --entity-type brokers does, not at their start", name)
		} else {
			topic[name] = value
		}
		if err != nil {
			return fmt.Errorf("broker: %w", err)
		}
	}
	if err := checkTopicConfigs(topic); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	return nil
}

// byTopicNames puts defaults that are given by their broker-wide names under
// the topics' names; one given by both has the topic's.
func byTopicNames(defaults map[string]string) map[string]string {
	out := make(map[string]string, len(defaults))
	maps.Copy(out, defaults)
	for name, value := range defaults {
		if _, ok := findSetting(name); ok {
			continue
		}
		if s, ok := findBrokerSetting(name); ok && s.name != name {
			delete(out, name)
			if _, given := defaults[s.name]; !given {
				out[s.name] = value
			}
		}
	}
	return out
}

// advertised is the host and port to tell clients, for a listener bound to
// bound. An unset host is that of the listen address, which the operator wrote.
func (c Config) advertised(bound net.Addr) (string, int32, error) {
	if c.Advertise != "" {
		return splitAddress(c.Advertise)
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "", 0, err
	}
	_, port, err := splitAddress(bound.String())
	if host == "" {
		if host, err = os.Hostname(); err != nil {
			return "", 0, err
		}
	}
	return host, port, err
}

func splitAddress(addr string) (string, int32, error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err := strconv.ParseUint(p, 10, 16)
	if err != nil || host == "" {
		return "", 0, fmt.Errorf("%q: want HOST:PORT", addr)
	}
	return host, int32(port), nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
