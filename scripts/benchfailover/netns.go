package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"raftmaster/cluster/sparktest"
)

// network is a bridge in the root namespace, where workers and the application
// live, and one network namespace for each master.
type network struct {
	id      int
	subnet  string // "10.x.y."
	bridge  string
	masters int
}

// netnsUnavailable says why network namespaces cannot be used; "" when they can.
func netnsUnavailable() string {
	if os.Geteuid() != 0 {
		return "network namespaces need root"
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return "there is no ip command (Debian: apt-get install iproute2)"
	}
	if err := ip("netns", "list"); err != nil {
		return err.Error()
	}
	return ""
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// newNetwork sets everything up; the names and the subnet come from the process
// id, so that two runs do not meet.
func newNetwork(masters int) (*network, error) {
	id := os.Getpid() % 10_000
	n := &network{id: id, subnet: fmt.Sprintf("10.%d.%d.", 64+id/200, 10+id%200), bridge: fmt.Sprintf("rmbr%d", id), masters: masters}
	if err := n.build(); err != nil {
		n.remove()
		return nil, err
	}
	return n, nil
}

func (n *network) build() error {
	steps := [][]string{{"link", "add", n.bridge, "type", "bridge", "forward_delay", "0"}, {"link", "set", n.bridge, "up"}}
	// The addresses that sparktest gives to workers, drivers and itself.
	for _, last := range []int{10, 11, 120, 250} {
		steps = append(steps, []string{"addr", "add", fmt.Sprintf("%s%d/24", n.subnet, last), "dev", n.bridge})
	}
	for i := range n.masters {
		ns, outside, inside := n.namespace(i), n.outside(i), fmt.Sprintf("rmi%d-%d", n.id, i)
		steps = append(steps, []string{"netns", "add", ns},
			[]string{"link", "add", outside, "type", "veth", "peer", "name", inside},
			[]string{"link", "set", inside, "netns", ns},
			[]string{"link", "set", outside, "master", n.bridge, "up"},
			[]string{"-n", ns, "link", "set", "lo", "up"},
			[]string{"-n", ns, "addr", "add", fmt.Sprintf("%s%d/24", n.subnet, i+1), "dev", inside},
			[]string{"-n", ns, "link", "set", inside, "up"})
	}
	for _, step := range steps {
		if err := ip(step...); err != nil {
			return err
		}
	}
	return nil
}

func (n *network) namespace(i int) string { return fmt.Sprintf("rmns%d-%d", n.id, i) }
func (n *network) outside(i int) string   { return fmt.Sprintf("rmo%d-%d", n.id, i) }

func (n *network) prefix(i int) []string { return []string{"ip", "netns", "exec", n.namespace(i)} }

// cut takes the bridge's end of the master's link down: packets vanish, nobody is
// told.
func (n *network) cut(m *sparktest.Master) error {
	return ip("link", "set", n.outside(n.index(m)), "down")
}

func (n *network) restore(m *sparktest.Master) error {
	return ip("link", "set", n.outside(n.index(m)), "up")
}

func (n *network) index(m *sparktest.Master) int {
	for i := range n.masters {
		if m.Host == fmt.Sprintf("%s%d", n.subnet, i+1) {
			return i
		}
	}
	panic("a master of another network: " + m.Host)
}

// remove deletes what build made; deleting a namespace deletes its link.
func (n *network) remove() {
	var errs []error
	for i := range n.masters {
		errs = append(errs, ip("netns", "del", n.namespace(i)))
	}
	errs = append(errs, ip("link", "del", n.bridge))
	if err := errors.Join(errs...); err != nil {
		progress("network clean-up: %v", err)
	}
}
