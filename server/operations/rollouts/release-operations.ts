/** Operations on signed releases. */
import { noReleases } from "../../../shared/missing-errors.js";
import { ownerTimeInvalid } from "../../../shared/trust/releases/release-errors.js";
import { holdsRight } from "../../interface/api/rights.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import type { FleetReleasesAnswer } from "../../interface/api/rollouts/release-definitions.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { pipelineOfVersion } from "../../services/data/version-pipeline.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { isHash } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { describeChange, parseChange } from "../../../shared/trust/releases/change-file.js";
import { encodeManifest, manifestOf, recipePrefix } from "../../../shared/trust/releases/manifest.js";
import {
  describeOwnerTime,
  ownerTimeText,
  parseOwnerTime,
  parseOwnerTimeFile,
  statedTime,
  type OwnerTimeStatement,
} from "../../../shared/trust/releases/owner-time.js";
import { releaseRoles } from "../../../shared/trust/releases/metadata.js";
import { describeSignatures, signaturesOf } from "../../../shared/trust/releases/release-change.js";
import { changeNotSigned, firstReleases, recipeOfEngine, timeStatedAlready } from "./deployment-errors.js";

export function releaseOperations({
  fleets,
  live,
  home,
  grant,
}: OperationsContext): Pick<
  ServerOperations,
  "releases" | "releaseManifest" | "publishReleases" | "publishOwnerTime"
> {
  const now = (): number => home.ports.clock.now();
  return {
    releases: async ({ fleet }) => describeReleases(await fleets.get(fleet), now()),
    releaseManifest: async ({ fleet, model }) => {
      const repository = await fleets.get(fleet);
      if (model.startsWith(recipePrefix))
        return { fleet, ...(await releasedRecipe(repository, model.slice(recipePrefix.length))) };
      const { versionId, record, tensorBytes, name, version } = repository.resolve(model);
      const pipeline = (await pipelineOfVersion(repository, versionId))?.id;
      const manifest = encodeManifest(manifestOf(versionId, record, { tensorBytes, pipeline }));
      return { fleet, model: `${name}:${version}`, manifest: Buffer.from(manifest).toString("utf8") };
    },
    publishReleases: async ({ fleet, change: text, dryRun = false }) => {
      const repository = await fleets.get(fleet);
      const change = parseChange(text);
      const missing = signaturesOf(change).filter(({ signatures, threshold }) => signatures < threshold);
      if (missing.length > 0) throw changeNotSigned(missing.map(describeSignatures).join(", "));
      // The first one says which keys are the owner's: nothing vouches for it.
      if (!holdsRight(grant, "deploy") && (await repository.releases()) === undefined)
        throw firstReleases(fleet, grant?.role ?? "");
      if (!dryRun) {
        await repository.publishReleases(change);
        await (await live?.fleet(fleet))?.releasesChanged();
      }
      return { changes: [...describeChange(change)], releases: await describeReleases(repository, now()) };
    },
    publishOwnerTime: async ({ fleet, file, dryRun = false }) => {
      const repository = await fleets.get(fleet);
      const { statement, number } = await checkedOwnerTime(repository, file);
      if (!dryRun && repository.ownerTime()?.number !== number) {
        await repository.append({
          type: "time-stated",
          atMs: now(),
          number,
          statement: ownerTimeText(statement),
        });
        await (await live?.fleet(fleet))?.timeStated();
      }
      return { number, says: [...describeOwnerTime(statement)] };
    },
  };
}

/**
 * Checks the owner's statement as a device does.
 * @throws RELEASE_METADATA_INVALID, RELEASE_UNKNOWN, RELEASE_ROLLED_BACK
 */
async function checkedOwnerTime(
  repository: FleetRepository,
  text: string,
): Promise<{ readonly statement: OwnerTimeStatement; readonly number: number }> {
  const file = parseOwnerTimeFile(text);
  if (file === undefined) throw ownerTimeInvalid("that is not its file");
  const { fleet } = repository;
  const releases = await repository.releases();
  if (releases === undefined) throw noReleases(fleet);
  const { statement } = file;
  const { number } = statedTime({ root: releases.published.root.signed, fleet }, statement);
  const before = repository.ownerTime();
  const isSame = before?.number === number && before.statement === ownerTimeText(statement);
  if (before !== undefined && number <= before.number && !isSame)
    throw timeStatedAlready(number, before.number, fleet);
  return { statement, number };
}

/** The manifest of a recipe of the fleet's own. @throws RECIPE_UNKNOWN, RECIPE_NOT_APPROVED */
async function releasedRecipe(
  repository: FleetRepository,
  reference: string,
): Promise<{ readonly model: string; readonly manifest: string }> {
  const { findOwnRecipe } = await import("../../learning/training/own-recipes.js");
  const found = findOwnRecipe(repository, reference);
  if (found === undefined) throw recipeOfEngine(reference);
  const { recipe, name, version } = found;
  const manifest = encodeManifest({
    kind: "stemma-recipe-manifest",
    format: 1,
    fleet: repository.fleet,
    name,
    version,
    recipe,
    bytes: (await repository.readRecipe(recipe)).length,
  });
  return {
    model: `${recipePrefix}${name}:${version}`,
    manifest: Buffer.from(manifest).toString("utf8"),
  };
}

function ownerTimeOf(repository: FleetRepository): FleetReleasesAnswer["ownerTime"] {
  const stated = repository.ownerTime();
  return stated === undefined
    ? null
    : { number: stated.number, time: parseOwnerTime(stated.statement).signed.time };
}

async function describeReleases(repository: FleetRepository, nowMs: number): Promise<FleetReleasesAnswer> {
  const { fleet } = repository;
  const stored = await repository.releases();
  if (stored === undefined)
    return {
      fleet,
      versions: null,
      metadata: null,
      expires: null,
      isExpired: false,
      releases: [],
      revoked: [],
      ownerTime: null,
    };
  const { set, manifests, published } = stored;
  const { root, timestamp, snapshot, targets } = published;
  const recipes = repository.recipes();
  const [expires = ""] = releaseRoles.map((role) => published[role].signed.expires).sort();
  return {
    fleet,
    versions: {
      root: root.signed.version,
      timestamp: timestamp.signed.version,
      snapshot: snapshot.signed.version,
      targets: targets.signed.version,
    },
    metadata: { ...set, roots: [...set.roots] },
    expires,
    isExpired: Date.parse(expires) <= nowMs,
    releases: Object.entries(targets.signed.targets).map(([name, { custom }]) => {
      const version = isHash(custom.versionId) ? repository.get(custom.versionId) : undefined;
      const recipe = recipes.find((each) => each.recipe === custom.versionId);
      return {
        name,
        versionId: custom.versionId as Hash,
        model: version === undefined ? null : `${version.name}:${version.version}`,
        recipe: recipe === undefined ? null : `${recipe.name} ${recipe.version}`,
        manifest: manifests[name] ?? "",
      };
    }),
    revoked: (targets.signed["x-stemma-revoked"] ?? []).map(({ name, versionId, because }) => ({
      name,
      versionId,
      because,
    })),
    ownerTime: ownerTimeOf(repository),
  };
}
