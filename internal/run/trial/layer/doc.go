// Package layer shares agent layers between the trials of a job, and with later jobs. An agent
// layer is an image with an agent installed: the result of the agent's install script
// (agents[].cache_install). The package decides which trial makes a layer and which ones wait for
// it, computes the layer's key from its inputs, and checks that it contains no secret. Trials
// install the agents.
package layer
