package security

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"raftmaster/cluster/config"
	"raftmaster/transport/raftnet"
)

// clusterCertificate makes the live certificate for other masters of the master at an address of the cluster list.
func clusterCertificate(c config.ClusterTLS, self config.Address, now func() time.Time) *live[material] {
	name := c.Name
	if name == "" {
		name = bareHost(self.Host)
	}
	return certificate("the certificate for other masters", c.TLSFiles, now, judgeMaster(name))
}

// Cluster is how this master proves to others what it is; nil without TLS between masters.
func (g *Guard) Cluster() *raftnet.Security {
	if g.cluster == nil {
		return nil
	}
	return secured(g.cfg.ClusterTLS, g.cfg.Advertise(), g.cluster)
}

func secured(c config.ClusterTLS, self config.Address, l *live[material]) *raftnet.Security {
	return &raftnet.Security{Name: c.Name, Address: self.String(), Optional: c.Optional, Material: func() (tls.Certificate, *x509.CertPool) {
		m := l.get()
		return m.cert, m.pool
	}}
}

// ForTool reads the files once, for a program that speaks to masters in the place of the one at self. It gives nil without
// TLS between masters.
func ForTool(c config.ClusterTLS, self config.Address) (*raftnet.Security, error) {
	if !c.On() {
		return nil, nil
	}
	if c.Key == "" || c.CA == "" {
		return nil, fmt.Errorf("TLS between masters needs --cluster-tls-cert, --cluster-tls-key and --cluster-tls-ca")
	}
	l := clusterCertificate(c, self, time.Now)
	if err := l.load(); err != nil {
		return nil, err
	}
	return secured(c, self, l), nil
}
