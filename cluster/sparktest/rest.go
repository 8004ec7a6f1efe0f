package sparktest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Submission is every answer of the REST submission gateway (Spark's
// deploy/rest/SubmitRestProtocolResponse.scala).
type Submission struct {
	Action         string `json:"action"`
	Message        string `json:"message"`
	Version        string `json:"serverSparkVersion"`
	ID             string `json:"submissionId"`
	Success        bool   `json:"success"`
	DriverState    string `json:"driverState"`
	WorkerID       string `json:"workerId"`
	WorkerHostPort string `json:"workerHostPort"`
}

// restClient waits longer than client: the first answer of Spark's own gateway
// takes seconds on a loaded machine.
var restClient = &http.Client{Timeout: 30 * time.Second, Transport: client.Transport}

// RESTAddress is host:port of the submission gateway.
func (m *Master) RESTAddress() string { return net.JoinHostPort(m.Host, strconv.Itoa(masterREST)) }

// RESTURLOf is spark://a:p,b:p of the gateways of the given masters: what
// spark-submit wants as its master when it is to use REST.
func RESTURLOf(masters ...*Master) string {
	list := make([]string, len(masters))
	for i, m := range masters {
		list[i] = m.RESTAddress()
	}
	return "spark://" + strings.Join(list, ",")
}

// REST calls a route of the gateway, for example POST /create; a nil body sends
// none. Every answer of the gateway has a Submission's form; an error means that
// there was none. It may be called from any goroutine.
func (m *Master) REST(method, route string, body any) (int, Submission, error) {
	var answer Submission
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return 0, answer, err
		}
		reader = bytes.NewReader(data)
	}
	request, err := http.NewRequest(method, "http://"+m.RESTAddress()+"/v1/submissions"+route, reader)
	if err != nil {
		return 0, answer, err
	}
	request.Header.Set("Content-Type", "application/json;charset=utf-8")
	response, err := restClient.Do(request)
	if err != nil {
		return 0, answer, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return response.StatusCode, answer, err
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return response.StatusCode, answer, fmt.Errorf("%s %s of %s: %d %.200q: %w", method, route, m.Name(), response.StatusCode, data, err)
	}
	return response.StatusCode, answer, nil
}

// DriverStatus asks the leader's gateway about a driver.
func (c *Cluster) DriverStatus(id string) (Submission, error) {
	leader, err := c.findLeader(nil)
	if err != nil {
		return Submission{}, err
	}
	code, s, err := leader.REST(http.MethodGet, "/status/"+id, nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("status of %s: %d %+v", id, code, s)
	}
	return s, err
}

// WaitDriver waits until the leader says that the driver is in the state, and
// returns all that it says.
func (c *Cluster) WaitDriver(id, state string) Submission {
	c.tb.Helper()
	var s Submission
	Eventually(c.tb, startTimeout, id+" "+state, func() error {
		var err error
		if s, err = c.DriverStatus(id); err != nil {
			return err
		}
		if !s.Success || s.DriverState != state {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	return s
}

// KillDriver asks the leader's gateway to end a driver and fails unless the
// request was taken.
func (c *Cluster) KillDriver(id string) {
	c.tb.Helper()
	Eventually(c.tb, startTimeout, "request to kill "+id, func() error {
		leader, err := c.findLeader(nil)
		if err != nil {
			return err
		}
		code, s, err := leader.REST(http.MethodPost, "/kill/"+id, nil)
		if err == nil && (code != http.StatusOK || !s.Success) {
			err = fmt.Errorf("%d %+v", code, s)
		}
		return err
	})
}

// ClusterWide polls until every running master answers the status of a driver in
// one way: the leader with the state, a standby with who leads.
func (c *Cluster) ClusterWide(id, state string, timeout time.Duration) {
	c.tb.Helper()
	Eventually(c.tb, timeout, "all masters about "+id, func() error {
		for _, m := range c.masters {
			if !m.Running() {
				continue
			}
			code, s, err := m.REST(http.MethodGet, "/status/"+id, nil)
			if err != nil {
				return err
			}
			if code != http.StatusOK || !saneStatus(s, state) {
				return fmt.Errorf("%s: %d %+v", m.Name(), code, s)
			}
		}
		return nil
	})
}

// saneStatus accepts what a poller may see of a driver that is in the state: the
// state itself, or a refusal that says why and begins as Spark's does.
func saneStatus(s Submission, state string) bool {
	if s.Success {
		return s.DriverState == state
	}
	return s.DriverState == "" && strings.Contains(s.Message, "Current state is not alive: STANDBY")
}
