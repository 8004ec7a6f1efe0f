package security

import (
	"crypto/sha256"
	"crypto/subtle"

	"raftmaster/cluster/config"
	"raftmaster/transport/webui"
)

// tokenSet is the contents of a token file.
type tokenSet struct {
	list  []config.Token
	reads bool // somebody has the role read
}

// tokenFile makes the live value of a token file.
func tokenFile(path string) *live[tokenSet] {
	return &live[tokenSet]{what: "the admin token file", files: []file{{path, true}}, parse: func(contents [][]byte) (*tokenSet, error) {
		list, err := config.ParseTokens(contents[0])
		if err != nil {
			return nil, &fileError{path, err}
		}
		set := &tokenSet{list: list}
		for _, t := range list {
			set.reads = set.reads || t.Role == config.RoleRead
		}
		return set, nil
	}}
}

// fileError is about a file; the error goes on with a verb.
type fileError struct {
	path string
	err  error
}

func (e *fileError) Error() string { return e.path + ": it " + e.err.Error() }
func (e *fileError) Unwrap() error { return e.err }

// tokens implements webui.Tokens.
type tokens struct{ l *live[tokenSet] }

// Find implements webui.Tokens: it compares digests, with every token, whichever it is.
func (t tokens) Find(given string) (webui.Token, bool) {
	set, sum, found := t.l.get(), sha256.Sum256([]byte(given)), -1
	for i := range set.list {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], set.list[i].Sum[:]), i, found)
	}
	if found < 0 {
		return webui.Token{}, false
	}
	x := set.list[found]
	return webui.Token{Name: x.Name, Operate: x.Role == config.RoleOperate}, true
}

// ReadsNeedToken implements webui.Tokens.
func (t tokens) ReadsNeedToken() bool { return t.l.get().reads }
