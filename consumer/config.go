package consumer

import "time"

// Config says how to reach a cluster. It travels in task specs, so secrets are
// names of files.
type Config struct {
	Brokers  []string      `json:"brokers"`   // HOST:PORT to start from
	ClientID string        `json:"client_id"` // empty = "sawlog-batch/" and the process id
	Timeout  time.Duration `json:"timeout"`   // nanoseconds a request may take; 0 = 30 s

	// Rack is where this client is: replicas there are read from rather than
	// leaders elsewhere (KIP-392). Empty = leaders.
	Rack string `json:"rack,omitempty"`

	TLS      bool   `json:"tls,omitempty"`
	CAFile   string `json:"ca_file,omitempty"`   // PEM; empty = the system's
	CertFile string `json:"cert_file,omitempty"` // PEM, for mutual TLS
	KeyFile  string `json:"key_file,omitempty"`

	SASL         string `json:"sasl,omitempty"` // PLAIN | SCRAM-SHA-256 | SCRAM-SHA-512
	User         string `json:"user,omitempty"`
	PasswordFile string `json:"password_file,omitempty"`
}
