package agent

import (
	"cmp"
	"errors"
)

// MCPServers are servers of the Model Context Protocol by name.
type MCPServers map[string]MCPServer

// MCPServer is a program that an agent starts, or a server at a URL.
type MCPServer struct {
	Command   string            `yaml:"command" json:"command,omitempty" doc:"The program, which the agent starts in the environment and talks to by stdin and stdout."`
	Args      []string          `yaml:"args" json:"args,omitempty" most:"1000" raw:"true" doc:"The arguments of the program."`
	Env       map[string]string `yaml:"env" json:"env,omitempty" doc:"Variables of the program."`
	URL       string            `yaml:"url" json:"url,omitempty" doc:"URL of a server that runs already."`
	Transport string            `yaml:"transport" json:"transport,omitempty" enum:"stdio,http,sse" doc:"How the agent talks to it. Default: stdio with a command, http with a URL."`
	Headers   map[string]string `yaml:"headers" json:"headers,omitempty" doc:"Headers of requests to the URL."`
}

// Check returns an error if the server's keys are invalid.
func (s MCPServer) Check() error {
	switch {
	case s.Command == "" && s.URL == "":
		return errors.New("it has neither a command nor a url")
	case s.Command != "" && s.URL != "":
		return errors.New("it has both a command and a url")
	case s.Command != "" && cmp.Or(s.Transport, "stdio") != "stdio", s.URL != "" && s.Transport == "stdio":
		return errors.New("its transport does not fit: stdio is for a command, http and sse are for a url")
	case s.Command != "" && len(s.Headers) > 0:
		return errors.New("a command has no headers")
	case s.URL != "" && len(s.Args)+len(s.Env) > 0:
		return errors.New("a url has no args and no env")
	}
	return nil
}

// Standard returns the servers in the form of the file mcp.json that most agents read: {"NAME":
// {"type": "stdio", "command": …}}.
func (servers MCPServers) Standard() map[string]StandardMCPServer {
	out := make(map[string]StandardMCPServer, len(servers))
	for name, s := range servers {
		transport := cmp.Or(s.Transport, "http")
		if s.Command != "" {
			transport = "stdio"
		}
		out[name] = StandardMCPServer{Type: transport, Command: s.Command, Args: s.Args, Env: s.Env, URL: s.URL, Headers: s.Headers}
	}
	return out
}

// StandardMCPServer is a server as most agents' mcp.json describes it.
type StandardMCPServer struct {
	Type    string            `json:"type"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}
