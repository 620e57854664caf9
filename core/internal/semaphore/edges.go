package semaphore

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// SemaphoreEdges is every move that a Semaphore can make. It is never written.
var SemaphoreEdges = [...]base.Edge[core.SemaphoreState]{
	{From: core.SemaphoreIdle, To: core.SemaphoreObserving, Why: "asked for, or given back: list, or exists"},
	{From: core.SemaphoreIdle, To: core.SemaphoreCommitting, Why: "the same, and the newest value is known: create"},
	{From: core.SemaphoreIdle, To: core.SemaphoreClosed, Why: "leave"},
	{From: core.SemaphoreObserving, To: core.SemaphoreCommitting, Why: "there is room, or something to take out or to shut out: create"},
	{From: core.SemaphoreObserving, To: core.SemaphoreWaiting, Why: "no room, or no session yet; and somebody waits"},
	{From: core.SemaphoreObserving, To: core.SemaphoreIdle, Why: "nothing is left to do"},
	{From: core.SemaphoreObserving, To: core.SemaphoreClosed, Why: "leave, and nothing of ours is left"},
	{From: core.SemaphoreCommitting, To: core.SemaphoreIdle, Why: "made, and nothing is left to do"},
	{From: core.SemaphoreCommitting, To: core.SemaphoreWaiting, Why: "made, and somebody waits for room"},
	{From: core.SemaphoreCommitting, To: core.SemaphoreObserving, Why: "exists, or made long after the observation: list"},
	{From: core.SemaphoreCommitting, To: core.SemaphoreDoubtful, Why: "unknown: it may land"},
	{From: core.SemaphoreCommitting, To: core.SemaphoreClosed, Why: "leave, and nothing of ours is left"},
	{From: core.SemaphoreDoubtful, To: core.SemaphoreObserving, Why: "back-off: list"},
	{From: core.SemaphoreDoubtful, To: core.SemaphoreIdle, Why: "its session is dead, or nothing is left to do"},
	{From: core.SemaphoreDoubtful, To: core.SemaphoreClosed, Why: "leave, and its session is dead"},
	{From: core.SemaphoreWaiting, To: core.SemaphoreObserving, Why: "poll, changed, or a session can be dead: exists, or list"},
	{From: core.SemaphoreWaiting, To: core.SemaphoreCommitting, Why: "given back, or asked for, and the newest value is known: create"},
	{From: core.SemaphoreWaiting, To: core.SemaphoreIdle, Why: "nobody waits any more"},
	{From: core.SemaphoreWaiting, To: core.SemaphoreClosed, Why: "leave, and nothing of ours is left"},
}
