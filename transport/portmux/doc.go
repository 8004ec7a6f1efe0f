// Package portmux shares one TCP port between Spark's RPC and the masters' own connections: the first byte of a
// connection tells who calls. A browser that took the port for a web page gets one line that names the right one.
package portmux
