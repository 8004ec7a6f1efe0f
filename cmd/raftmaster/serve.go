package main

import "raftmaster/cluster/server"

// serve runs one master.
var serve runServer = server.Run
