/** What a server's events say of the models that arrive. */
import type { ServerEvent } from "../../server/interface/api/event-schemas.js";
import type { ServerProcess } from "../../server/cli/simulation/server-process.js";

type EventOf<Name extends ServerEvent["event"]> = Extract<ServerEvent, { readonly event: Name }>;

export interface Arrivals {
  readonly recorded: ReadonlyMap<string, EventOf<"recorded">>;
  /** Models of which the server knows only how they were made. */
  readonly claimed: ReadonlyMap<string, EventOf<"claimed">>;
  /** Resolves when the server has read back and confirmed all of these. @throws Error where it refused something */
  until(versionIds: readonly string[]): Promise<void>;
  stop(): void;
}

/** Follows them from now on. */
export function followArrivals({ operations }: Pick<ServerProcess, "operations">): Arrivals {
  const stopped = new AbortController();
  const recorded = new Map<string, EventOf<"recorded">>();
  const claimed = new Map<string, EventOf<"claimed">>();
  const released = new Set<string>();
  let wake: () => void = () => undefined;
  let failure: unknown;
  const note = (event: ServerEvent): void => {
    if (event.event === "recorded") recorded.set(event.versionId, event);
    else if (event.event === "claimed") claimed.set(event.versionId, event);
    else if (event.event === "released") released.add(event.versionId);
    else if (event.event === "missed") throw new Error(`${event.count} events of the server were missed.`);
    else if (event.event === "refused" || event.event === "damaged" || event.event === "device-quarantined")
      throw new Error(`The server reports: ${JSON.stringify(event)}`);
  };
  const follow = async (): Promise<void> => {
    for await (const event of operations.events(stopped.signal)) {
      note(event);
      wake();
    }
  };
  follow().catch((error: unknown) => {
    failure = error;
    wake();
  });
  return {
    recorded,
    claimed,
    async until(versionIds) {
      while (!versionIds.every((id) => released.has(id))) {
        if (failure !== undefined) throw failure as Error;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
    stop: () => {
      stopped.abort();
    },
  };
}
