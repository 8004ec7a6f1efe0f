package rest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"raftmaster/transport/sparkmsg"
)

// Classes that Spark names at the beginning of its answers to malformed requests.
const (
	protocolException = "org.apache.spark.deploy.rest.SubmitRestProtocolException"
	missingException  = "org.apache.spark.deploy.rest.SubmitRestMissingFieldException"
	parseException    = "com.fasterxml.jackson.core.JsonParseException"
	inputException    = "com.fasterxml.jackson.databind.exc.MismatchedInputException"
)

const createAction = "CreateSubmissionRequest"

// requestError is the text of a 400.
type requestError struct{ text string }

func (e *requestError) Error() string { return e.text }

func malformed(class, reason string) error {
	return &requestError{text: "Malformed request: " + class + ": " + reason}
}

// invalidField is what Spark says first of a field that is missing or wrong, and then the reason.
func invalidField(format string, args ...any) error {
	return malformed(protocolException, "Validation of message "+createAction+" failed!\n"+fmt.Sprintf(format, args...))
}

// request is a CreateSubmissionRequest. Pointers are nil for fields that the client left out.
type request struct {
	ClientSparkVersion   string
	AppResource          string
	MainClass            string
	AppArgs              []string
	SparkProperties      map[string]string
	EnvironmentVariables map[string]string
	// unknown names the fields that mean nothing to this server, in order.
	unknown []string
}

// decodeRequest reads and checks a body by the rules of Spark 4, which accept what clients of 3.x send: appArgs,
// environmentVariables and spark.app.name may be left out.
func decodeRequest(body []byte) (*request, error) {
	raw, err := decodeObject(body)
	if err != nil {
		return nil, err
	}
	action, ok, err := textField(raw, "action")
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, malformed(missingException, "Action field not found in JSON: the request has no action")
	case action != createAction:
		// Spark fails with an HTML page where it has no class of that name.
		return nil, &requestError{text: fmt.Sprintf("Received message of unexpected type %s.", clip(action))}
	}
	req := &request{}
	if err := req.fill(raw); err != nil {
		return nil, err
	}
	for name := range raw {
		if !slices.Contains(knownFields, name) {
			req.unknown = append(req.unknown, name)
		}
	}
	slices.Sort(req.unknown)
	if n := req.leastBytes(); n > sparkmsg.MaxPayload {
		return nil, invalidField("The driver would have at least %d bytes, at most %d are allowed.", n, sparkmsg.MaxPayload)
	}
	return req, req.validate()
}

// leastBytes is what the driver description will have at least: every text is written with a head of three bytes. To know it
// before the description is built keeps a body of a great many short texts from taking a hundred times its own size.
func (req *request) leastBytes() int {
	const head = 3
	n := head + len(req.AppResource) + head + len(req.MainClass)
	for _, s := range req.AppArgs {
		n += head + len(s)
	}
	for k, v := range req.SparkProperties {
		n += head + len("-D") + len(k) + len("=") + len(v)
	}
	for k, v := range req.EnvironmentVariables {
		n += head + len(k) + head + len(v)
	}
	return n
}

var knownFields = []string{"action", "message", "clientSparkVersion", "appResource", "mainClass", "appArgs", "sparkProperties", "environmentVariables"}

func decodeObject(body []byte) (map[string]json.RawMessage, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, malformed(inputException, "No content to map due to end-of-input")
	}
	var raw map[string]json.RawMessage
	err := json.Unmarshal(body, &raw)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, malformed(parseException, fmt.Sprintf("%s (at byte %d)", syntax.Error(), syntax.Offset))
	case err != nil || raw == nil:
		return nil, malformed(missingException, "Action field not found in JSON: the request is no object")
	}
	return raw, nil
}

func (req *request) fill(raw map[string]json.RawMessage) error {
	var ok bool
	var err error
	for _, f := range []struct {
		name    string
		field   *string
		missing error
	}{
		{"clientSparkVersion", &req.ClientSparkVersion, invalidField("'clientSparkVersion' is missing in message %s.", createAction)},
		{"appResource", &req.AppResource, invalidField("'appResource' is missing in message %s.", createAction)},
		{"mainClass", &req.MainClass, malformed(missingException, "Main class is missing.")},
	} {
		if *f.field, ok, err = textField(raw, f.name); err != nil {
			return err
		}
		if !ok {
			return f.missing
		}
	}
	if req.SparkProperties, ok, err = textMap(raw, "sparkProperties"); err == nil && !ok {
		err = invalidField("'sparkProperties' is missing in message %s.", createAction)
	}
	if err != nil {
		return err
	}
	if req.EnvironmentVariables, _, err = textMap(raw, "environmentVariables"); err != nil {
		return err
	}
	req.AppArgs, err = textList(raw, "appArgs")
	return err
}

// textField reads a text; a number or boolean counts as its text, as in Jackson. null is the same as nothing.
func textField(raw map[string]json.RawMessage, name string) (string, bool, error) {
	v, ok := raw[name]
	if !ok || isNull(v) {
		return "", false, nil
	}
	s, err := scalar(v)
	if errors.Is(err, errNoScalar) {
		err = malformed(inputException, "'"+name+"' must be a text")
	}
	return s, err == nil, err
}

func textMap(raw map[string]json.RawMessage, name string) (map[string]string, bool, error) {
	v, ok := raw[name]
	if !ok || isNull(v) {
		return nil, false, nil
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(v, &m) != nil {
		return nil, false, malformed(inputException, "'"+name+"' must be an object")
	}
	out := make(map[string]string, len(m))
	for key, e := range m {
		s, err := scalar(e)
		if errors.Is(err, errNoScalar) || isNull(e) {
			err = malformed(inputException, "'"+name+"' must hold texts only, and does not for "+strconv.Quote(clip(key)))
		}
		if err = cmp.Or(err, checkText(key)); err != nil {
			return nil, false, err
		}
		out[key] = s
	}
	return out, true, nil
}

func textList(raw map[string]json.RawMessage, name string) ([]string, error) {
	v, ok := raw[name]
	if !ok || isNull(v) {
		return nil, nil
	}
	var l []json.RawMessage
	if json.Unmarshal(v, &l) != nil {
		return nil, malformed(inputException, "'"+name+"' must be a list")
	}
	out := make([]string, 0, len(l))
	for i, e := range l {
		s, err := scalar(e)
		if errors.Is(err, errNoScalar) || isNull(e) {
			err = malformed(inputException, fmt.Sprintf("'%s' must hold texts only, and does not at place %d", name, i))
		}
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func isNull(v json.RawMessage) bool { return bytes.Equal(bytes.TrimSpace(v), []byte("null")) }

var errNoScalar = errors.New("no text, number or boolean")

// scalar reads one value of a body that has been decoded, so that its form is known to be right. A body may hold hundreds of
// thousands of them: a decoder for each would take hundreds of MiB.
func scalar(v json.RawMessage) (string, error) {
	v = bytes.TrimSpace(v)
	switch {
	case len(v) == 0 || isNull(v):
		return "", nil
	case v[0] == '{' || v[0] == '[':
		return "", errNoScalar
	case v[0] != '"':
		return string(v), nil // a number or a boolean, as it is written
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return "", err
	}
	return s, checkText(s)
}

// checkText refuses NUL, which can be in no argument, variable or property of a process.
func checkText(s string) error {
	if strings.ContainsRune(s, 0) {
		return malformed(inputException, "a text holds a NUL character")
	}
	return nil
}

// validate checks the types of the properties that Spark checks (deploy/rest/SubmitRestProtocolRequest.scala).
func (req *request) validate() error {
	props := req.SparkProperties
	for _, key := range slices.Sorted(maps.Keys(props)) {
		if kind := propertyKind(key, props[key]); kind != "" {
			return invalidField("Property '%s' expected %s value: actual was '%s'.", key, kind, clip(props[key]))
		}
	}
	return nil
}

// propertyKind names what the property should have been, "" where the value will do.
func propertyKind(key, value string) string {
	var err error
	kind := ""
	switch key {
	case "spark.driver.supervise":
		kind = "boolean"
		_, err = parseBool(value)
	case "spark.driver.cores":
		kind = "numeric"
		_, err = parseCores(value)
	case "spark.cores.max":
		kind = "numeric"
		_, err = strconv.ParseFloat(strings.TrimSpace(value), 64)
	case "spark.driver.memory", "spark.executor.memory":
		kind = "memory"
		_, err = parseMemoryMB(value)
	}
	if err != nil {
		return kind
	}
	return ""
}
