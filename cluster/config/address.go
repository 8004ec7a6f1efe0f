package config

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ParseCluster reads spark://a:7077,b:7077; as in Spark the prefix may be repeated or left out on any entry. Hosts stay
// as they are written.
func ParseCluster(list string) ([]Address, error) {
	var out []Address
	for i, written := range strings.Split(list, ",") {
		entry := strings.TrimPrefix(strings.TrimSpace(written), "spark://")
		wrong := func(allowed string) error {
			return fmt.Errorf("cluster list %q: entry %q (number %d): %s", list, entry, i+1, allowed)
		}
		host, portText, err := net.SplitHostPort(entry)
		if err != nil {
			if scheme, _, found := strings.Cut(entry, "://"); found {
				return nil, wrong("must be host:port, after spark:// and not " + scheme + "://")
			}
			return nil, wrong("must be host:port")
		}
		port, err := strconv.Atoi(portText)
		if err != nil || port < 1 || port > 65535 {
			return nil, wrong("the port must be from 1 to 65535")
		}
		if checkHost("", host) != nil {
			return nil, wrong("its host must be a host name or address")
		}
		out = append(out, Address{Host: host, Port: port})
	}
	return out, nil
}

// checkHost refuses what cannot be a host: nothing, blanks, a port or a URL. Brackets of IPv6 are taken off first.
func checkHost(name, host string) error {
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if bare == "" || strings.ContainsAny(bare, " \t\r\n/@,%\"'<>") || (strings.Contains(bare, ":") && net.ParseIP(bare) == nil) {
		return invalid(name, strconv.Quote(host), "a host name or address without a port")
	}
	return nil
}

// isWildcard: an address that one can bind to, and nobody can dial.
func isWildcard(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsUnspecified()
}

// isLoopback judges by the text alone: names are not resolved.
func isLoopback(host string) bool {
	h := strings.ToLower(strings.Trim(host, "[]"))
	if h == "localhost" || strings.HasSuffix(h, ".localhost") || h == "localhost.localdomain" {
		return true
	}
	ip := net.ParseIP(h)
	return ip != nil && ip.IsLoopback()
}

// defaultHost is SPARK_LOCAL_HOSTNAME, else SPARK_LOCAL_IP, else the first address that is not loopback.
func (l *loader) defaultHost() (string, error) {
	for _, name := range []string{envLocalHost, envLocalIP} {
		if v, ok := l.env.get(name); ok {
			return v, nil
		}
	}
	return l.src.LocalHost()
}

var errNoAddress = errors.New("this machine has no address but loopback: give --host")

// localHost finds the first global IPv4 address, else the first global IPv6 one, as Spark does (util/Utils.scala).
func localHost() (string, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("find this machine's address (give --host): %w", err)
	}
	v6 := ""
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok || !n.IP.IsGlobalUnicast() {
			continue
		}
		if v4 := n.IP.To4(); v4 != nil {
			return v4.String(), nil
		}
		if v6 == "" {
			v6 = n.IP.String()
		}
	}
	if v6 == "" {
		return "", errNoAddress
	}
	return v6, nil
}

// defaultDataDir is a place that survives a restart and that two masters on one machine do not share: below systemd's
// state directory, else below /var/lib for root, else below the user's state directory.
func (l *loader) defaultDataDir() (string, error) {
	a := l.cfg.Advertise()
	leaf := strings.NewReplacer(":", "_", "[", "", "]", "").Replace(a.Host) + "-" + strconv.Itoa(a.Port)
	if v, ok := l.env.get(envStateDir); ok {
		first, _, _ := strings.Cut(v, ":")
		return filepath.Join(first, leaf), nil
	}
	if v, ok := l.env.get(envXDGState); ok {
		return filepath.Join(v, "raftmaster", leaf), nil
	}
	if os.Getuid() == 0 {
		return filepath.Join(rootDataParent, leaf), nil
	}
	home, err := l.src.HomeDir()
	if err != nil {
		return "", fmt.Errorf("no default data directory, give --data-dir: %w", err)
	}
	return filepath.Join(home, ".local", "state", "raftmaster", leaf), nil
}
