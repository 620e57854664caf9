package client

// Names is how many names the client knows.
func (c *Client) Names() int { return len(c.names) }
