/** Operations on signed releases. */
import type { ServerOperations } from "../api/server-operations.js";
import type { FleetReleasesAnswer } from "../api/release-definitions.js";
import type { OperationsContext } from "../context/operations-context.js";
import type { FleetRepository } from "../repository/fleet-repository.js";
import { StemmaError } from "../../shared/errors.js";
import { isHash } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { describeChange, parseChange } from "../../shared/trust/releases/change-file.js";
import { encodeManifest, manifestOf } from "../../shared/trust/releases/manifest.js";
import { releaseRoles } from "../../shared/trust/releases/metadata.js";
import { describeSignatures, signaturesOf } from "../../shared/trust/releases/release-change.js";

export function releaseOperations({
  fleets,
  live,
  home,
}: OperationsContext): Pick<ServerOperations, "releases" | "releaseManifest" | "publishReleases"> {
  const now = (): number => home.ports.clock.now();
  return {
    releases: async ({ fleet }) => describeReleases(await fleets.get(fleet), now()),
    releaseManifest: async ({ fleet, model }) => {
      const repository = await fleets.get(fleet);
      const { versionId, record, tensorBytes, name, version } = repository.resolve(model);
      const manifest = encodeManifest(manifestOf(versionId, record, tensorBytes));
      return { fleet, model: `${name}:${version}`, manifest: Buffer.from(manifest).toString("utf8") };
    },
    publishReleases: async ({ fleet, change: text, dryRun = false }) => {
      const repository = await fleets.get(fleet);
      const change = parseChange(text);
      const missing = signaturesOf(change).filter(({ signatures, threshold }) => signatures < threshold);
      if (missing.length > 0)
        throw new StemmaError(
          "RELEASE_METADATA_INVALID",
          `The change is not signed completely: ${missing
            .map(describeSignatures)
            .join(", ")}. Sign it with \`stemma release sign\`.`,
        );
      if (!dryRun) {
        await repository.publishReleases(change);
        await (await live?.fleet(fleet))?.releasesChanged();
      }
      return { changes: [...describeChange(change)], releases: await describeReleases(repository, now()) };
    },
  };
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
    };
  const { set, manifests, published } = stored;
  const { root, timestamp, snapshot, targets } = published;
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
      return {
        name,
        versionId: custom.versionId as Hash,
        model: version === undefined ? null : `${version.name}:${version.version}`,
        manifest: manifests[name] ?? "",
      };
    }),
    revoked: (targets.signed["x-stemma-revoked"] ?? []).map(({ name, versionId, because }) => ({
      name,
      versionId,
      because,
    })),
  };
}
