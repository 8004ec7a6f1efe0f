package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxRedirects   = 10
	connectTimeout = 30 * time.Second
)

// fileFetcher reads file: and local: URLs and plain paths.
type fileFetcher struct{}

// Open follows links: the path is the submitter's own word.
func (fileFetcher) Open(_ context.Context, u *url.URL, offset int64, _ string) (Source, error) {
	if u.Host != "" && u.Host != "localhost" {
		return Source{}, permanent("a %s URL names a path of this machine, not a host: three slashes", u.Scheme)
	}
	// Not blocking, so that a named pipe is refused and not waited for.
	file, err := os.OpenFile(u.Path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return Source{}, &PermanentError{fmt.Errorf("%w on this worker", err)}
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err == nil && offset > 0 {
		_, err = file.Seek(offset, io.SeekStart)
	}
	if err != nil {
		return Source{}, &PermanentError{errors.Join(err, file.Close())}
	}
	return Source{Body: file, Offset: offset, Size: info.Size()}, nil
}

// httpFetcher reads http and https.
type httpFetcher struct{ client *http.Client }

func newHTTPFetcher(client *http.Client) httpFetcher {
	if client == nil {
		client = &http.Client{
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: connectTimeout}).DialContext,
				TLSHandshakeTimeout: connectTimeout,
				DisableCompression:  true, // the bytes of the file, and its size
				DisableKeepAlives:   true, // one file: no connection stays
			},
			CheckRedirect: checkRedirect,
		}
	}
	return httpFetcher{client}
}

// checkRedirect bounds redirects and refuses those that leave TLS or HTTP.
func checkRedirect(next *http.Request, before []*http.Request) error {
	switch {
	case len(before) >= maxRedirects:
		return permanent("more than %d redirects", maxRedirects)
	case next.URL.Scheme != "http" && next.URL.Scheme != "https":
		return permanent("redirected to the scheme %q", clip(next.URL.Scheme))
	case before[len(before)-1].URL.Scheme == "https" && next.URL.Scheme == "http":
		return permanent("redirected from https to http")
	}
	return nil
}

// Open asks for the rest with If-Range, so that a changed file comes from its start.
func (f httpFetcher) Open(ctx context.Context, u *url.URL, offset int64, validator string) (Source, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return Source{}, &PermanentError{withoutURL(err)}
	}
	request.Header.Set("Accept-Encoding", "identity")
	resume := offset > 0 && validator != ""
	if resume {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		request.Header.Set("If-Range", validator)
	}
	response, err := f.client.Do(request)
	if err != nil {
		return Source{}, withoutURL(err)
	}
	source, err := describeResponse(response, offset, resume)
	if err != nil {
		_ = response.Body.Close()
		return Source{}, err
	}
	return source, nil
}

func describeResponse(response *http.Response, offset int64, resume bool) (Source, error) {
	source := Source{Body: response.Body, Size: response.ContentLength, Validator: validatorOf(response.Header)}
	switch {
	case response.StatusCode == http.StatusOK:
		return source, nil
	case resume && response.StatusCode == http.StatusPartialContent:
		start, size, err := parseContentRange(response.Header.Get("Content-Range"))
		if err != nil || start != offset {
			return Source{}, permanent("the server answered with a wrong part of the file")
		}
		source.Offset, source.Size = start, size
		return source, nil
	case response.StatusCode >= 500, response.StatusCode == http.StatusRequestTimeout, response.StatusCode == http.StatusTooManyRequests:
		return Source{}, fmt.Errorf("the server answered %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	return Source{}, permanent("the server answered %d %s", response.StatusCode, http.StatusText(response.StatusCode))
}

// validatorOf is what If-Range takes: a strong entity tag, else the date.
func validatorOf(h http.Header) string {
	if tag := h.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return h.Get("Last-Modified")
}

// parseContentRange reads "bytes 5-9/10"; size is -1 for "*".
func parseContentRange(text string) (start, size int64, err error) {
	rest, ok := strings.CutPrefix(text, "bytes ")
	span, total, ok2 := strings.Cut(rest, "/")
	first, last, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return 0, 0, errors.New("malformed Content-Range")
	}
	start, err = strconv.ParseInt(first, 10, 64)
	end, err2 := strconv.ParseInt(last, 10, 64)
	size = -1
	if total != "*" {
		var err3 error
		if size, err3 = strconv.ParseInt(total, 10, 64); err3 != nil || size <= end {
			return 0, 0, errors.New("malformed Content-Range")
		}
	}
	if err = errors.Join(err, err2); err != nil || start < 0 || end < start {
		return 0, 0, errors.New("malformed Content-Range")
	}
	return start, size, nil
}

// withoutURL strips the URL, which may hold a token in its query, from an error of package http.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}
