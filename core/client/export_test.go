package client

// Names is how many names the client remembers.
func (c *Client) Names() int { return len(c.memory.names) }
