package client

import "github.com/mopslock/mopslock/core/internal/base"

// alarm is one instant at which something is to be done. It is embedded in what does it.
type alarm struct {
	at     int64 // Mono
	serial uint64
	index  int // in the heap, from 1; 0 outside
	rings  ringer
}

type ringer interface{ ring(c *Client) }

// alarms is a heap by instant; of two at one instant the one that was set first is first.
type alarms []*alarm

func (c *Client) before(i, j int) bool {
	a, b := c.alarms[i], c.alarms[j]
	return a.at < b.at || a.at == b.at && a.serial < b.serial
}

func (c *Client) swap(i, j int) {
	c.alarms[i], c.alarms[j] = c.alarms[j], c.alarms[i]
	c.alarms[i].index, c.alarms[j].index = i+1, j+1
}

// arm sets an alarm, or moves it; at base.Unset it takes it away.
func (c *Client) arm(a *alarm, rings ringer, at int64) {
	if at == base.Unset {
		c.disarm(a)
		return
	}
	if a.index != 0 && a.at == at {
		return
	}
	c.serial++
	a.at, a.serial, a.rings = at, c.serial, rings
	if a.index == 0 {
		c.alarms = append(c.alarms, a)
		a.index = len(c.alarms)
	}
	c.fix(a.index - 1)
}

func (c *Client) disarm(a *alarm) {
	if a.index == 0 {
		return
	}
	i, last := a.index-1, len(c.alarms)-1
	c.swap(i, last)
	c.alarms[last] = nil
	c.alarms = c.alarms[:last]
	a.index = 0
	if i < last {
		c.fix(i)
	}
}

// fix moves an entry up or down to where it belongs.
func (c *Client) fix(i int) {
	for i > 0 && c.before(i, (i-1)/2) {
		c.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(c.alarms); child++ {
			if c.before(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		c.swap(i, least)
		i = least
	}
}
