/**
 * The server's log, which remembers its newest lines for `stemma trace`. What only repeats, such as the progress of a
 * transfer, is written to the log alone; so is what is debugging, unless it is about a version.
 */
import { recentLog, RecentEvents, type RecentBounds } from "../../../shared/adapters/recent-log.js";
import type { Clock, Log } from "../../../shared/ports.js";

const bounds: RecentBounds = { events: 20_000, bytes: 4 * 1024 * 1024 };

export interface RememberedLog {
  readonly log: Log;
  readonly recent: RecentEvents;
}

/** @param base drops what is below its level */
export function rememberedLog(base: Log, clock: Pick<Clock, "now">): RememberedLog {
  const recent = new RecentEvents(clock, bounds);
  const kept: Pick<RecentEvents, "remember"> = {
    remember: (level, event, fields) => {
      if (level === "debug" && (event === "transfer" || fields["versionId"] === undefined)) return;
      recent.remember(level, event, fields);
    },
  };
  return { log: recentLog(base, kept, () => "debug"), recent };
}
