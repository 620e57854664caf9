package client

// UseOldest uses the name that was used longest ago.
func (c *Client) UseOldest() { c.used(c.known.oldest) }

// Names is how many names the client knows.
func (c *Client) Names() int { return len(c.names) }

// Parts are the structs that a client's state is made of, as far as there are any now.
func (c *Client) Parts() map[string]any {
	parts := map[string]any{"client": c}
	add := func(name string, part any) {
		if parts[name] == nil {
			parts[name] = part
		}
	}
	for cl := c.oldest; cl != nil; cl = cl.next {
		add("claim", cl)
		if cl.pending != nil {
			add("pending", cl.pending)
		}
		if cl.handover != nil {
			add("handover", cl.handover)
		}
		if cl.delay != nil {
			add("delay", cl.delay)
		}
		if cl.unit != nil {
			add("unit", cl.unit)
		}
		add("name", cl.name)
		for _, w := range cl.watches {
			if len(w.claims) > 1 {
				add("watch", w)
			}
		}
	}
	for _, s := range c.sessions {
		add("session", s)
	}
	for _, s := range c.semaphores {
		add("semaphore", s)
	}
	add("outbox", &c.outbox)
	for _, e := range c.cleanups {
		add("cleanup", e)
	}
	return parts
}
