/** Operations on storage: stats, check, collection, reindex, backup. */
import { isAbsolute } from "node:path";
import { defined } from "../../../shared/defined.js";
import { StemmaError } from "../../../shared/errors.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import { ownEngine } from "../../../shared/train/own-engine.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { CheckReport } from "../../storage/repository/answers/store-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { readPassphrase } from "./passphrase-file.js";

type StorageOperations = Pick<
  ServerOperations,
  | "stats"
  | "check"
  | "planCollection"
  | "collect"
  | "reindex"
  | "backup"
  | "knownDamage"
  | "leases"
  | "leaseLine"
  | "endLease"
>;

export function storageOperations(context: OperationsContext): StorageOperations {
  const { home, fleets, live } = context;
  return {
    stats: async ({ fleet }) => (await fleets.get(fleet)).stats(),
    check: async ({ fleet, replay = 0, ...options }) => {
      const repository = await fleets.get(fleet);
      const report = await markOwnEngine(repository, await repository.check(defined(options)));
      if (replay === 0) return report;
      const { proveDropped } = await import("../../learning/replay/prove-dropped.js");
      const { replayed, problems } = await proveDropped(context, fleet, replay);
      return { ...report, problems: [...report.problems, ...problems], replayed };
    },
    planCollection: async ({ fleet }) => {
      const repository = await fleets.get(fleet);
      return await repository.tiers.withTiers(await repository.planCollection());
    },
    collect: async ({ fleet, ...plan }) => {
      const repository = await fleets.get(fleet);
      const freed = await repository.collect(plan);
      // A server merges in the background.
      if (live === undefined) while ((await repository.mergePacks()) !== undefined);
      return freed;
    },
    leases: async (input) => (await leaseModule()).leasesOf(context, input),
    leaseLine: async (input) => (await leaseModule()).leaseLine(context, input),
    endLease: async (input) => (await leaseModule()).endLease(context, input),
    reindex: async ({ fleet }) => (await fleets.get(fleet)).reindex(),
    // Asked after every command, so it must not open a fleet that the command did not need.
    knownDamage: ({ fleet }) =>
      Promise.resolve(
        fleets
          .opened()
          .find((repository) => repository.fleet === fleet)
          ?.knownDamage() ?? { packs: [], versions: [] },
      ),
    backup: async ({ fleet, folder, passphraseFile, plainKey = false }) => {
      // A relative path would mean a folder below the server's working directory, not the caller's.
      if (!isAbsolute(folder))
        throw new StemmaError(
          "USAGE",
          `The backup's folder ${folder} is relative. Name it from the root of the file system.`,
          { folder },
        );
      if ((passphraseFile !== undefined) === plainKey)
        throw new StemmaError(
          "USAGE",
          "A backup has the server's private key, which devices obey. Name a file with a passphrase that encrypts it (--passphrase-file FILE, made for example by `head -c 24 /dev/urandom | base64 > FILE`), or say that the folder is kept as safe as the home (--plain-key).",
        );
      const passphrase =
        passphraseFile === undefined ? undefined : await readPassphrase(home.ports.files, passphraseFile);
      const report = await (await fleets.get(fleet)).backup(folder, passphrase);
      const liveFleet = await live?.fleet(fleet);
      if (liveFleet !== undefined && report.problems.length === 0) liveFleet.backedUp();
      return report;
    },
  };
}

const leaseModule = () => import("./lease-operations.js");

/** Marks damaged and absent archives of this build's own engine, which needs none to train. */
async function markOwnEngine(repository: FleetRepository, report: CheckReport): Promise<CheckReport> {
  const own = await ownEngine().catch(() => undefined);
  if (own === undefined) return report;
  const ofOwn = repository.engines().filter(({ engineId }) => engineId === own.engineId);
  const archives = new Set<string>([own.object, ...ofOwn.map(({ engine }) => engine)]);
  const { unrecoverable, absentEngines } = report;
  return {
    ...report,
    ...defined({
      unrecoverable: unrecoverable?.map((each) =>
        archives.has(each.id) ? { ...each, isThisBuild: true as const } : each,
      ),
    }),
    absentEngines: absentEngines.map((each) =>
      archives.has(each.engine) ? { ...each, isThisBuild: true as const } : each,
    ),
  };
}
