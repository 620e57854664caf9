package core

// semaphoreEdges is every move that a Semaphore can make. It is never written.
var semaphoreEdges = [...]edge[SemaphoreState]{
	{SemaphoreIdle, SemaphoreObserving, "asked for, or given back: list, or exists"},
	{SemaphoreIdle, SemaphoreCommitting, "the same, and the newest value is known: create"},
	{SemaphoreIdle, SemaphoreClosed, "leave"},
	{SemaphoreObserving, SemaphoreCommitting, "there is room, or something to take out or to shut out: create"},
	{SemaphoreObserving, SemaphoreWaiting, "no room, or no session yet; and somebody waits"},
	{SemaphoreObserving, SemaphoreDoubtful, "the store refuses what is to be given back"},
	{SemaphoreObserving, SemaphoreIdle, "nothing is left to do"},
	{SemaphoreObserving, SemaphoreClosed, "leave, and nothing of ours is left"},
	{SemaphoreCommitting, SemaphoreIdle, "made, and nothing is left to do"},
	{SemaphoreCommitting, SemaphoreWaiting, "made, and somebody waits for room"},
	{SemaphoreCommitting, SemaphoreObserving, "exists, or made long after the look: list"},
	{SemaphoreCommitting, SemaphoreDoubtful, "unknown: it may land"},
	{SemaphoreCommitting, SemaphoreClosed, "leave, and nothing of ours is left"},
	{SemaphoreDoubtful, SemaphoreObserving, "back-off: list"},
	{SemaphoreDoubtful, SemaphoreIdle, "its session is dead, or nothing is left to do"},
	{SemaphoreDoubtful, SemaphoreClosed, "leave, and its session is dead"},
	{SemaphoreWaiting, SemaphoreObserving, "poll, changed, or a session can be dead: exists, or list"},
	{SemaphoreWaiting, SemaphoreCommitting, "given back, or asked for, and the newest value is known: create"},
	{SemaphoreWaiting, SemaphoreIdle, "nobody waits any more"},
	{SemaphoreWaiting, SemaphoreClosed, "leave, and nothing of ours is left"},
}
