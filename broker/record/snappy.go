package record

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/s2"
)

// xerialMagic begins the stream of xerial's snappy library for Java; version
// and compatible version, both 1, follow as big-endian int32, then blocks of
// {int32 length, raw snappy}.
const xerialMagic = "\x82SNAPPY\x00"

// xerialHeader is the whole header as we write it.
const xerialHeader = xerialMagic + "\x00\x00\x00\x01\x00\x00\x00\x01"

// xerialBlock is how much goes in one block.
const xerialBlock = 32 << 10

func xerialCompress(dst, src []byte) []byte {
	dst = append(dst, xerialHeader...)
	for len(src) > 0 {
		block := src[:min(len(src), xerialBlock)]
		src = src[len(block):]
		at := len(dst)
		dst = grow(dst, 4+s2.MaxEncodedLen(len(block)))
		out := s2.EncodeSnappy(dst[at+4:cap(dst)], block)
		binary.BigEndian.PutUint32(dst[at:at+4], uint32(len(out)))
		dst = dst[:at+4+len(out)]
	}
	return dst
}

// snappyDecompress reads xerial's frames, with whatever byte order the two
// versions have been written in, or one raw block.
func snappyDecompress(dst, src []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(src, []byte(xerialMagic)) {
		return snappyBlock(dst, src, limit)
	}
	start := len(dst)
	for len(src) > 0 {
		if bytes.HasPrefix(src, []byte(xerialMagic)) {
			if len(src) < len(xerialHeader) {
				return dst[:start], fmt.Errorf("%w: snappy header is cut short", ErrCorrupt)
			}
			src = src[len(xerialHeader):]
			continue
		}
		if len(src) < 4 {
			return dst[:start], fmt.Errorf("%w: %d bytes after the last snappy block", ErrCorrupt, len(src))
		}
		n := binary.BigEndian.Uint32(src)
		if uint64(n) > uint64(len(src)-4) {
			return dst[:start], fmt.Errorf("%w: snappy block of %d bytes, %d are there", ErrCorrupt, n, len(src)-4)
		}
		var err error
		if dst, err = snappyBlock(dst, src[4:4+n], limit-(len(dst)-start)); err != nil {
			return dst[:start], err
		}
		src = src[4+n:]
	}
	return dst, nil
}

func snappyBlock(dst, src []byte, limit int) ([]byte, error) {
	n, err := s2.DecodedLen(src)
	if err != nil {
		return dst, err
	}
	if n > limit {
		return dst, tooLarge(Snappy, limit)
	}
	// A copy element of 3 bytes yields at most 64: a longer claim is a lie.
	if n > 32*len(src)+64 {
		return dst, fmt.Errorf("%w: snappy block of %d bytes claims %d", ErrCorrupt, len(src), n)
	}
	at := len(dst)
	dst = grow(dst, n)
	out, err := s2.Decode(dst[at:at+n], src)
	if err != nil {
		return dst[:at], err
	}
	return dst[:at+len(out)], nil
}
