// Command raftctl administers a cluster of raftmaster masters over their HTTP ports.
//
// It asks every endpoint that it is given, says which one answered, and works without a leader: each master answers for
// itself. Drivers are also submitted, asked about and killed through the two gateways that Spark's own master has as well
// (package submit), and canary and load speak the cluster's protocol themselves. Every command prints a table, or JSON with stable field names with -o json.
//
// Exit codes:
//
//	0    done
//	1    an error, such as no endpoint answering
//	2    wrong usage
//	3    no leader or no quorum
//	4    unhealthy, or only a part of the masters answered; a driver that was waited for was killed
//	5    refused for safety
//	124  time-out
package main
