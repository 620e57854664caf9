package store

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckKey returns an ErrKey that names the broken rule if key cannot be the key of
// an object: it is empty, has more than MaxKey bytes, is not UTF-8, or has a control
// character, a backslash, or an empty, "." or ".." segment. Callers have already
// checked names; this is the second check, before any I/O.
func CheckKey(key string) error {
	if err := checkText(key); err != nil {
		return err
	}
	for segment := range strings.SplitSeq(key, "/") {
		if err := checkSegment(segment); err != nil {
			return err
		}
	}
	return nil
}

// CheckPrefix returns an ErrKey if no key can begin with prefix. The part behind its
// last slash may be empty, or a part of a segment.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	if err := checkText(prefix); err != nil {
		return err
	}
	slash := strings.LastIndexByte(prefix, '/')
	if slash < 0 {
		return nil
	}
	for segment := range strings.SplitSeq(prefix[:slash], "/") {
		if err := checkSegment(segment); err != nil {
			return err
		}
	}
	return nil
}

func checkText(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: it is empty", ErrKey)
	case len(key) > MaxKey:
		return fmt.Errorf("%w: it has %d bytes, %d are allowed", ErrKey, len(key), MaxKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("%w: it is not UTF-8", ErrKey)
	}
	for i := range len(key) {
		if c := key[i]; c < ' ' || c == 0x7f || c == '\\' {
			return fmt.Errorf("%w: it has a control character or a backslash", ErrKey)
		}
	}
	return nil
}

func checkSegment(segment string) error {
	switch segment {
	case "":
		return fmt.Errorf("%w: it has an empty segment (a leading, trailing or double slash)", ErrKey)
	case ".", "..":
		return fmt.Errorf("%w: it has a %q segment", ErrKey, segment)
	}
	return nil
}
