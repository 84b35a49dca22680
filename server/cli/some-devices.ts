/** Devices that one line names. */
const maxNamed = 8;

/** The first of many devices, and how many more there are. Pure. */
export function someDevices(devices: readonly string[]): string {
  const more = devices.length - maxNamed;
  return `${devices.slice(0, maxNamed).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
