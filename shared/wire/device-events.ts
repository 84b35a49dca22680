/** Names of events that a device sends and its server acts on; others are for people (docs/protocol.md). */

/** The server has not proven that its journal continues what the device has seen: the device does not believe it. */
export const serverDoubted = "server-history-rewritten";
/** It has proven that since. */
export const serverBelieved = "server-believed";
