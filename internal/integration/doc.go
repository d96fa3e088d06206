// Package integration holds the tests that start the real programs and put real peers around them: Prometheus v2 and
// v3, and servers written with Prometheus's Python client. They are behind the build tag integration; `make integration`
// runs them.
package integration
