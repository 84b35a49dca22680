/** `stemma server-key show|rotate|revoke-old`: the key that devices know the server by, and the authority with it. */
import { currentUser } from "../../../../shared/adapters/current-user.js";
import { formatTime } from "../../../../shared/cli/output.js";
import { StemmaError } from "../../../../shared/errors.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { keysBefore, overlapOf } from "../../../access/identity/key-changes.js";
import type { Home } from "../../../storage/repository/home.js";
import type { ChangedKey } from "../../../storage/repository/rotate-key.js";
import type { CommandContext } from "../../context.js";
import { plain, type Printed } from "../../plain-command.js";

/** @throws HOME_LOCKED where the server runs, FILE_MISSING where there is no home */
async function withHome<T>({ options }: CommandContext, work: (home: Home) => Promise<T>): Promise<T> {
  if (options.server !== undefined)
    throw new StemmaError(
      "NOT_ALLOWED",
      "The server's key is changed on its own machine alone, while the server is stopped. Log in there, and name its home with --home.",
    );
  await requireServerKey(options.home);
  const { openNodeHome } = await import("../../../storage/repository/node-home.js");
  const home = await openNodeHome(options.home);
  try {
    return await work(home);
  } finally {
    await home.close();
  }
}

/** Opening a home that is not there would make one. @throws FILE_MISSING */
async function requireServerKey(home: string): Promise<void> {
  const { keyPath } = await import("../../../storage/repository/server-key.js");
  if ((await nodeFiles().stat(keyPath(home))) !== undefined) return;
  throw new StemmaError(
    "FILE_MISSING",
    `${home} is not the home of a server: it has no server-key.json. Name another with --home.`,
    { home },
  );
}

const show = plain(null, {
  name: "show",
  about: "the server's key, those before it, and how long the last one is still good",
  run: async (_, { options }): Promise<Printed> => {
    await requireServerKey(options.home);
    const { keyPath, loadServerKey } = await import("../../../storage/repository/server-key.js");
    // Without the lock: also while the server runs.
    const { key, changes } = await loadServerKey(nodeFiles(), keyPath(options.home));
    const overlap = overlapOf(changes, Date.now());
    const before = keysBefore(changes);
    return {
      data: { publicKey: key.publicKey, before, goodUntilMs: overlap?.goodUntilMs ?? null },
      names: [key.publicKey],
      text: [
        `key ${key.publicKey}`,
        ...changes.map(({ change, goodUntilMs, revokedAtMs }) => {
          const state =
            revokedAtMs === undefined
              ? change.to === key.publicKey && overlap !== undefined
                ? `good until ${formatTime(goodUntilMs)}`
                : "its overlap is over"
              : `withdrawn ${formatTime(revokedAtMs)}`;
          return `before ${change.from}, replaced ${formatTime(change.atMs)}: ${state}`;
        }),
      ].join("\n"),
    };
  },
});

const rotate = plain(null, {
  name: "rotate",
  about: "replace the server's key, and with it its certificate authority",
  options: {
    overlap: {
      text: "<time> how long the key before is good for connections and invitations: 90d",
      default: "90d",
    },
    revokeOld: "the key before may be in other hands: it is good for nothing at once",
    dryRun: "check, change nothing",
  },
  help: `
Stop the server first; its home is changed. Devices follow the new key by themselves when
they connect: the key before has signed it. One that connects only after the overlap renews
by files (stemma agent renew --request), or is enrolled again. Make a backup afterwards: one
from before has the key before.

  stemma server-key rotate --overlap 180d
  stemma server-key show
`,
  run: async ({ overlap, revokeOld, dryRun }, context): Promise<Printed> => {
    const [, count, unit] = /^(\d{1,4})([hd])$/.exec(overlap) ?? [];
    if (count === undefined)
      throw new StemmaError("USAGE", `--overlap ${overlap} is not a time. Write hours or days: 12h, 90d.`);
    const overlapMs = Number(count) * (unit === "h" ? 3_600_000 : 86_400_000);
    if (dryRun) {
      const { publicKey } = await withHome(context, ({ signer }) => Promise.resolve(signer));
      return {
        data: { before: publicKey, changed: false },
        names: [publicKey],
        text: `would replace the key ${publicKey}, ${revokeOld ? "which is good for nothing from then on" : `which stays good for ${overlap}`}`,
      };
    }
    const { rotateServerKey } = await import("../../../storage/repository/rotate-key.js");
    const changed = await withHome(context, (home) =>
      rotateServerKey(home, { overlapMs, revokeOld, caller: { who: currentUser(), through: "command" } }),
    );
    return report(changed, context);
  },
});

const revoke = plain(null, {
  name: "revoke-old",
  about: "withdraw the key before the present one now, and not at the end of the overlap",
  help: `
When somebody else may have the key before. Devices that know only that one must not follow
it any more, since the thief could lead them elsewhere too: enrol each again
(stemma device enroll). Devices that have followed already are not affected.
`,
  run: async (_, context) => {
    const { revokeKeyBefore } = await import("../../../storage/repository/rotate-key.js");
    const changed = await withHome(context, (home) =>
      revokeKeyBefore(home, { who: currentUser(), through: "command" }),
    );
    return report(changed, context);
  },
});

/** Opening each fleet makes the change a fact, and shows that all of them open with the new key. */
async function report(changed: ChangedKey, context: CommandContext): Promise<Printed> {
  const { openRepository } = await import("../../../storage/repository/open-repository.js");
  const fleets = await withHome(context, async (home) => {
    const names = await home.fleets();
    for (const name of names) await (await openRepository(home, name)).close();
    return names;
  });
  const { publicKey, before, goodUntilMs } = changed;
  const next =
    goodUntilMs === undefined
      ? `the key before (${before.slice(0, 16)}…) is good for nothing any more: devices that know only that one have to be enrolled again (stemma device enroll)`
      : `the key before (${before.slice(0, 16)}…) is good until ${formatTime(goodUntilMs)}: devices that connect until then follow by themselves; those with tokens need their file again (stemma device enroll DEVICE --readdress FILE)`;
  return {
    data: { publicKey, before, goodUntilMs: goodUntilMs ?? null, fleets },
    names: [publicKey],
    text: `the server's key is ${publicKey}\n${next}\nstart the server, make a backup, and give authority.pem and the key to who has them: commands elsewhere, receivers of webhooks, who verifies the journal`,
  };
}

export const commands = [show, rotate, revoke];
