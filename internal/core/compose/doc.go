// Package compose reads a task's docker-compose.yaml. It knows neither providers nor trials: it
// returns the services as the contract of providers describes them, and the images that they need.
package compose
