package main

import (
	"context"
	"errors"

	"github.com/hashicorp/go-hclog"

	"raftmaster/cluster/config"
)

// serve runs one master.
var serve = runServer(func(context.Context, config.Config, hclog.Logger, string) error {
	return errors.New("this build contains no server")
})
