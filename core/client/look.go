package client

import "github.com/mopslock/mopslock/core"

func (c *Client) castLook(_ *begun, ev *core.Event) error {
	return &core.Error{Code: core.ErrorEvent, Text: "event " + ev.Kind.String() + " is not known yet"}
}
