package broker

import "github.com/twmb/franz-go/pkg/kerr"

// maxAnswer bounds the bytes of an answer that repeats much for each of a
// request's few bytes, as the configurations of a topic named a hundred
// thousand times.
const maxAnswer = 64 << 20

// budget counts what of maxAnswer is taken.
type budget int

// take tells whether an answer still has room for n bytes.
func (b *budget) take(n int) bool {
	*b += budget(n)
	return *b <= maxAnswer
}

func errAnswerTooLarge() error {
	return refuse(kerr.InvalidRequest, "The answer would be too large: ask for fewer at once.")
}
