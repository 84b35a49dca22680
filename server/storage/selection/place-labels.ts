/**
 * The labels by which a device has a time of its own: `time-zone`, a name of the IANA time zone database with its
 * summer time (Europe/Paris), or `utc-offset`, a fixed offset (+02:00). Pure but for the database, which Node brings.
 */
const zoneLabel = "time-zone";
const offsetLabel = "utc-offset";
type Labels = Readonly<Record<string, string>>;

const offsetPattern = /^([+-])(\d{2}):?(\d{2})$/;
const maxOffsetMinutes = 14 * 60;

/** Minutes east of UTC; undefined where the text is not an offset. */
function minutesOf(text: string): number | undefined {
  const [, sign, hours, minutes] = offsetPattern.exec(text) ?? [];
  if (sign === undefined || Number(minutes) >= 60) return undefined;
  const offset = Number(hours) * 60 + Number(minutes);
  return offset > maxOffsetMinutes ? undefined : sign === "-" ? -offset : offset;
}

/** A format that tells the parts of a time in a zone; undefined where there is no such zone. */
function formatOf(zone: string): Intl.DateTimeFormat | undefined {
  // An offset is no zone, though newer releases of Node take one.
  if (!/^[A-Za-z]/.test(zone)) return undefined;
  try {
    return new Intl.DateTimeFormat("en-GB", {
      timeZone: zone,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
  } catch {
    return undefined;
  }
}

/** Minutes east of UTC of a zone at a time; undefined where there is no such zone. */
function minutesAt(zone: string, atMs: number): number | undefined {
  const parts = formatOf(zone)?.formatToParts(atMs);
  if (parts === undefined) return undefined;
  const part = (type: string): number => Number(parts.find((one) => one.type === type)?.value);
  const local = Date.UTC(
    part("year"),
    part("month") - 1,
    part("day"),
    part("hour"),
    part("minute"),
    part("second"),
  );
  return Math.round((local - Math.floor(atMs / 1000) * 1000) / 60_000);
}

/** The time of a device's place: minutes east of UTC, and what it is called. */
interface Place {
  readonly offsetMinutes: number;
  /** "Europe/Paris", "+02:00", or why it is UTC. */
  readonly name: string;
}

/** Returns the place of a device at a time by its labels; UTC where it has none, or one that cannot be read. */
export function placeOf(labels: Labels | undefined, atMs: number): Place {
  const { [zoneLabel]: zone, [offsetLabel]: offset } = labels ?? {};
  if (zone !== undefined) {
    const offsetMinutes = minutesAt(zone, atMs);
    if (offsetMinutes !== undefined) return { offsetMinutes, name: zone };
    return { offsetMinutes: 0, name: `UTC, since its label ${zoneLabel} names no zone` };
  }
  if (offset === undefined) return { offsetMinutes: 0, name: `UTC, since it has no label ${zoneLabel}` };
  const offsetMinutes = minutesOf(offset);
  if (offsetMinutes !== undefined) return { offsetMinutes, name: offset };
  return { offsetMinutes: 0, name: `UTC, since its label ${offsetLabel} is not an offset` };
}

/** "mon 14:05 (Europe/Paris)": a time as it is in a place. */
export function localTimeText(atMs: number, { offsetMinutes, name }: Place): string {
  const local = new Date(atMs + offsetMinutes * 60_000);
  const day = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"][local.getUTCDay()] ?? "";
  return `${day} ${local.toISOString().slice(11, 16)} (${name})`;
}

/**
 * Returns why a label of a place means none; undefined for any other label. Asked when it is set: a window would
 * be read in UTC otherwise.
 */
export function whyNoPlace(key: string, value: string): string | undefined {
  if (key === zoneLabel && formatOf(value) === undefined)
    return `${JSON.stringify(value.slice(0, 64))} is not a time zone: give a name of the IANA database, such as ${zoneLabel}=Europe/Paris, or an offset, ${offsetLabel}=+02:00`;
  if (key === offsetLabel && minutesOf(value) === undefined)
    return `${JSON.stringify(value.slice(0, 64))} is not an offset from UTC: write it as ${offsetLabel}=+02:00, or name the zone, whose summer time counts then, ${zoneLabel}=Europe/Paris`;
  return undefined;
}
