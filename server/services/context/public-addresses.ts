/** Checks whether devices on other machines can reach the addresses in enrolment files. Pure. */

/** Hosts that name no machine: what a server that listens on every address has as its own. */
const everyAddress = /^(0\.0\.0\.0|\[::\]|\[0+(:0+)*\])$/;
/** Hosts that always name the machine itself. */
const ownMachine = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** A sentence for each address that devices elsewhere cannot use. */
export function unreachableAddresses(urls: readonly string[]): readonly string[] {
  return urls.flatMap((url) => {
    const host = hostOf(url);
    if (everyAddress.test(host)) return [`${url} is not an address that a device can connect to`];
    return ownMachine.test(host) ? [`${url} can be reached from the server's machine only`] : [];
  });
}

export const publicUrlHint =
  "start the server with --public-url mqtts://HOST:PORT (mqtt:// on a plain port) as devices reach it, or set enrolment.mqttUrls in server.json";

function hostOf(url: string): string {
  // Other schemes than http are not normalised.
  return new URL(url.replace(/^mqtts?:/, "http:")).hostname;
}
