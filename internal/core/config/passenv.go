package config

import "github.com/org/rollout-action/internal/lib/fields"

// passed checks environment.pass_env and adds the values of these variables to the secrets, except
// those in except. An unset variable is not reported here, but may be a problem of the tasks that
// use it.
func (c *checker) passed(secrets, except map[string]bool) {
	at := fields.Path{"environment", "pass_env"}
	c.out.VisiblePassed = map[string]string{}
	for i, name := range c.out.Job.Environment.PassEnv {
		if p := at.Index(i); !variableName.MatchString(name) {
			c.Problem(p, "write the name alone, without ${}", "%s: %q is not a name for a variable", p, fields.Shorten(name))
			continue
		}
		value, _ := c.opts.Getenv(name)
		if except[name] {
			c.out.VisiblePassed[name] = value
			continue
		}
		c.out.HiddenPassed = append(c.out.HiddenPassed, name)
		if value != "" {
			secrets[value] = true
		}
	}
}
