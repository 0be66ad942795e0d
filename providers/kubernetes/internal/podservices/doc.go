// Package podservices runs the services of an environment as further containers of its pod: it says
// which services a pod can have, adds their containers and volumes to the pod, and starts them in
// order. It does not talk to a cluster.
package podservices
