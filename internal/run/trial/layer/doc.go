// Package layer shares agent layers between the trials of a job, and with later jobs. An agent
// layer is an image with an agent installed: the result of the agent's install script
// (agents[].cache_install). The package decides which trial makes a layer, which ones wait for it,
// what a layer depends on, and that it holds no secret. It does not know how a trial installs an
// agent.
package layer
