/** Names of events that a device sends and its server acts on; others are for people (docs/protocol.md). */

/** The server has not proven that its journal continues what the device has seen: the device does not believe it. */
export const serverDoubted = "server-history-rewritten";
/** A hook of the device refused the version that is assigned to a line, which runs what it ran. */
export const switchRefused = "switch-refused";
/** The software of a line has told of as many live inputs as its trial asks for. */
export const trialComplete = "trial-complete";
/** The event that the server has proven its history since. */
export const serverBelieved = "server-believed";
/** The device's certificate ends soon, and it does not reach the server over HTTPS: the server renews it over MQTT. */
export const certificateDue = "certificate-due";
