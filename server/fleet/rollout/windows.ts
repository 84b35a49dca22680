/** The times of the week in which a rollout asks devices, by the clock of each device's place. Pure. */
import { localTimeText, placeOf } from "../../storage/selection/place-labels.js";
import { windowInvalid } from "./rollout-errors.js";

const days = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const dayMinutes = 24 * 60;
const weekMinutes = 7 * dayMinutes;
const windowPattern = /^(?:([a-z,-]+) +)?(\d{1,2}):(\d\d)-(\d{1,2}):(\d\d)$/;

interface Window {
  /** The days from 0, Sunday. */
  readonly days: ReadonlySet<number>;
  readonly from: number;
  /** The end, after `from`; past midnight it is of the next day. */
  readonly until: number;
}

/** @throws ROLLOUT_INVALID */
export function parseWindow(text: string): Window {
  const [, dayText, fromHour, fromMinute, untilHour, untilMinute] =
    windowPattern.exec(text.toLowerCase()) ?? [];
  const from = minutesOf(fromHour, fromMinute);
  const until = minutesOf(untilHour, untilMinute);
  const chosen = dayText === undefined ? new Set(days.keys()) : daysOf(dayText);
  if (
    from === undefined ||
    until === undefined ||
    from === until ||
    from === dayMinutes ||
    chosen === undefined
  )
    throw windowInvalid(text);
  return { days: chosen, from, until: until > from ? until : until + dayMinutes };
}

function minutesOf(hour: string | undefined, minute: string | undefined): number | undefined {
  const minutes = Number(hour) * 60 + Number(minute);
  return Number(minute) < 60 && minutes <= dayMinutes ? minutes : undefined;
}

/** Parses days such as "mon-fri" or "sat,sun"; a range may pass Sunday. */
function daysOf(text: string): ReadonlySet<number> | undefined {
  const found = new Set<number>();
  for (const part of text.split(",")) {
    const [first = "", last = first, ...more] = part.split("-");
    const [from, until] = [days.indexOf(first), days.indexOf(last)];
    if (from < 0 || until < 0 || more.length > 0) return undefined;
    for (let day = from; ; day = (day + 1) % 7) {
      found.add(day);
      if (day === until) break;
    }
  }
  return found;
}

/** True if one of the windows is open; without windows always. */
export function isOpenAt(
  windows: readonly string[] | undefined,
  atMs: number,
  offsetMinutes: number,
): boolean {
  if (windows === undefined || windows.length === 0) return true;
  // 1970 began on a Thursday.
  const minutes = Math.floor(atMs / 60_000) + offsetMinutes + 4 * dayMinutes;
  const ofWeek = ((minutes % weekMinutes) + weekMinutes) % weekMinutes;
  const day = Math.floor(ofWeek / dayMinutes);
  const ofDay = ofWeek % dayMinutes;
  return windows.map(parseWindow).some(
    ({ days: allowed, from, until }) =>
      (allowed.has(day) && ofDay >= from && ofDay < until) ||
      // It began yesterday.
      (allowed.has((day + 6) % 7) && ofDay + dayMinutes < until),
  );
}

/** Returns why a device is not asked now, in its own time; undefined where one of its windows is open. */
export function whyClosed(
  windows: readonly string[] | undefined,
  nowMs: number,
  labels: Readonly<Record<string, string>> | undefined,
): string | undefined {
  const place = placeOf(labels, nowMs);
  if (isOpenAt(windows, nowMs, place.offsetMinutes)) return undefined;
  const which = (windows ?? []).join(", ");
  return `it is ${localTimeText(nowMs, place)} there, outside of its window ${which}`;
}
