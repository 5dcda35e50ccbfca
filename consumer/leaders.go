package consumer

import "sync"

// Leaders remembers who leads the partitions of topics, for readers that follow
// each other: a topic of a thousand partitions is asked about once, not once for
// each of them. A reader that meets an error asks anew, for itself and those after
// it. The zero value knows nothing; nil remembers nothing.
type Leaders struct {
	mu     sync.Mutex
	topics map[string]Topic
}

// of is what is known of a topic.
func (l *Leaders) of(topic string) (t Topic, known bool) {
	if l == nil {
		return Topic{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t, known = l.topics[topic]
	return t, known
}

// Learn takes in who leads the partitions of a topic.
func (l *Leaders) Learn(t Topic) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.topics == nil {
		l.topics = map[string]Topic{}
	}
	l.topics[t.Name] = t
}
