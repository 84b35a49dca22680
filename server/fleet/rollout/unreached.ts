/** The devices that a rollout does not reach, and why: one text for plan, creation, status and report. Pure. */

/** A device that the selection means and that cannot take part now. */
export interface Unreached {
  readonly device: string;
  readonly because: string;
}

/** Devices of one reason that are named. */
const namedDevices = 3;
/** Reasons of one text. */
const maxReasons = 12;

/** Each reason with its devices: "van-1, van-2, van-3 and 4 more: has no line soh". */
export function unreachedLines(unreached: readonly Unreached[]): readonly string[] {
  const devices = new Map<string, string[]>();
  for (const { device, because } of unreached)
    devices.set(because, [...(devices.get(because) ?? []), device]);
  const lines = [...devices].map(([because, all]) => {
    const more = all.length > namedDevices ? ` and ${all.length - namedDevices} more` : "";
    return `${all.slice(0, namedDevices).join(", ")}${more}: ${because}`;
  });
  return lines.length <= maxReasons
    ? lines
    : [...lines.slice(0, maxReasons), `and ${lines.length - maxReasons} more reasons`];
}

/** The reason that nobody is reached, in one sentence without a full stop. */
export function whyNobody(unreached: readonly Unreached[]): string {
  return unreached.length === 0
    ? "its selection means no device"
    : `no selected device can take part: ${unreachedLines(unreached).join("; ")}`;
}
