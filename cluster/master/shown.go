package master

import (
	"net/url"
	"strings"
)

// ShownURL is what operators are shown of the address of a driver's jar: without the name and password, and without the
// query, which may be a signature. What is no URL of a host keeps nothing behind its scheme.
func ShownURL(raw string) string {
	shown, rest := raw, ""
	if at := strings.IndexAny(raw, "?#"); at >= 0 {
		shown, rest = raw[:at], raw[at:at+1]+"..."
	}
	scheme, place, ok := strings.Cut(shown, "//")
	if !ok {
		return shown + rest
	}
	authority, path, slash := strings.Cut(place, "/")
	hidden := ""
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		authority, hidden = authority[at+1:], "...@"
	}
	if _, err := url.Parse("//" + authority); err != nil {
		return scheme + "//..." // a password with a slash, perhaps
	}
	if slash {
		path = "/" + path
	}
	return scheme + "//" + hidden + authority + path + rest
}
