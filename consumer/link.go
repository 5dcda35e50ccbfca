package consumer

import "context"

// Link is a connection to a cluster that is made when it is first asked for, once
// for all who ask. It is safe for concurrent use.
type Link struct {
	config Config
	turn   chan struct{} // held by who dials or closes
	conn   *KafkaCluster
}

// NewLink prepares a link; it connects to nothing.
func NewLink(c Config) *Link { return &Link{config: c, turn: make(chan struct{}, 1)} }

// Cluster is the cluster; what fails is tried again by the next who asks. Nobody
// waits longer than ctx allows, not for another who dials either.
func (l *Link) Cluster(ctx context.Context) (Cluster, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.turn }()
	if l.conn == nil {
		conn, err := Dial(ctx, l.config)
		if err != nil {
			return nil, err
		}
		l.conn = conn
	}
	return l.conn, nil
}

// Close lets go of the connection.
func (l *Link) Close() error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
	return nil
}
