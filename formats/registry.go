package formats

// Registry says where framed values find their schemas. Only the planner asks
// it; a password stays in its file.
type Registry struct {
	URLs         []string `json:"urls"`              // of one registry, asked in turn
	Subject      string   `json:"subject,omitempty"` // of the columns' schema; "" = TOPIC-value
	User         string   `json:"user,omitempty"`
	PasswordFile string   `json:"password_file,omitempty"`
	CAFile       string   `json:"ca_file,omitempty"`
}
