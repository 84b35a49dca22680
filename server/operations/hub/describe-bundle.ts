/** Makes the manifest of a bundle: versions with their lineage, and the ids of all that belongs to them. */
import { inSteps } from "../../../shared/concurrency/in-steps.js";
import { defined } from "../../../shared/defined.js";
import { StemmaError } from "../../../shared/errors.js";
import { readManifest } from "../../../shared/data/stored-data.js";
import { listReferences } from "../../../shared/delta/links.js";
import { objectsOf } from "../../../shared/model/record-objects.js";
import { hasProfile } from "../../../shared/programs/stored-profile.js";
import { distinctTrees } from "../../../shared/objects/version-trees.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import {
  bundleKinds,
  maxBundleObjects,
  maxBundleVersions,
  type BundleKind,
  type BundleManifest,
} from "../../interface/api/models/bundle-schemas.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { bundleTooLarge } from "./hub-errors.js";

export interface AskedBundle {
  readonly models: readonly string[];
  /** Generations of parents; absent: all. */
  readonly depth?: number | undefined;
  readonly withData?: boolean | undefined;
}

type Absent = BundleManifest["absent"][number];

/**
 * Tensors that were dropped are made again first, since they travel.
 * @throws MODEL_NOT_FOUND, MODEL_RETIRED, SIZE_OVER_LIMIT, REBUILD_FAILED
 */
export async function describeBundle(
  repository: FleetRepository,
  { models, depth = Infinity, withData = false }: AskedBundle,
): Promise<BundleManifest> {
  const roots = models.map((model) => repository.resolve(model));
  for (const { state, name, version } of roots)
    if (state === "retired")
      throw new StemmaError(
        "MODEL_RETIRED",
        `${name}:${version} is retired, so its tensors are gone. Name a version that is kept.`,
      );
  const { versions, absent } = await lineageOf(repository, roots, depth);
  const collected = new Collected();
  const records: string[] = [];
  for (const summary of versions) {
    const { versionId } = summary;
    if (summary.dropped !== undefined) await repository.ensureTensors(versionId);
    await addVersion(repository, summary, { withData, collected });
    records.push(Buffer.from(await repository.objects.read("record", versionId)).toString("base64"));
    if (collected.count > maxBundleObjects) throw bundleTooLarge("objects", maxBundleObjects);
  }
  const evaluations = addEvaluations(repository, versions, collected);
  const ids = new Set(versions.map(({ versionId }) => versionId));
  const succeeded = declaredIn(repository, ids);
  return {
    format: 1,
    models: roots.map(({ versionId }) => versionId),
    records,
    objects: await collected.listed(repository),
    absent,
    redacted: [...collected.redacted],
    withheld: {
      data: collected.data.size,
      engines: collected.engines.size,
      predictions: collected.predictions,
    },
    tags: versions.flatMap(({ versionId, tags }) => tags.map((tag) => ({ versionId, tag }))),
    evaluations,
    listings: [...repository.listings()]
      .filter(({ versionId }) => ids.has(versionId))
      .map(({ versionId, license, task }) => ({ versionId, ...defined({ license, task }) })),
    ...(succeeded.length === 0 ? {} : { succeeded }),
  };
}

/** The parents of a version: those that it was trained from, and those that it was declared to come after. */
function parentsOf(repository: FleetRepository, { versionId, record }: VersionSummary): ReadonlySet<Hash> {
  return new Set([
    ...record.bases,
    ...(record.successorOf === undefined ? [] : [record.successorOf]),
    ...repository.predecessors(versionId).map((each) => each.versionId),
  ]);
}

/** Declarations by facts, which their records do not have. */
function declaredIn(
  repository: FleetRepository,
  ids: ReadonlySet<Hash>,
): NonNullable<BundleManifest["succeeded"]> {
  return [...ids].flatMap((versionId) =>
    repository
      .successors(versionId)
      .flatMap(({ versionId: successor, declared }) =>
        declared !== undefined && ids.has(successor)
          ? [{ versionId, successor, because: declared.because }]
          : [],
      ),
  );
}

/** The versions and their parents, in the order in which they were recorded here, and the parents left out. */
async function lineageOf(
  repository: FleetRepository,
  roots: readonly VersionSummary[],
  depth: number,
): Promise<{ readonly versions: readonly VersionSummary[]; readonly absent: readonly Absent[] }> {
  const found = new Map<Hash, VersionSummary>(roots.map((root) => [root.versionId, root]));
  const absent = new Map<Hash, Absent>();
  let generation: readonly VersionSummary[] = [...found.values()];
  for (let deep = 0; generation.length > 0; deep++) {
    const parents: VersionSummary[] = [];
    for await (const summary of inSteps(generation))
      for (const id of parentsOf(repository, summary)) {
        if (found.has(id) || absent.has(id)) continue;
        const parent = deep < depth ? repository.get(id) : undefined;
        const why = deep >= depth ? "not asked for" : parent === undefined ? "not known" : "retired";
        if (parent === undefined || parent.state === "retired") absent.set(id, { versionId: id, why });
        else {
          found.set(id, parent);
          parents.push(parent);
        }
      }
    if (found.size > maxBundleVersions) throw bundleTooLarge("versions", maxBundleVersions);
    generation = parents;
  }
  const versions = [...found.values()].sort((a, b) => a.position - b.position);
  return { versions, absent: [...absent.values()] };
}

/** The objects that were found so far, each once. */
class Collected {
  readonly kinds = new Map<Hash, BundleKind>();
  readonly redacted = new Set<Hash>();
  readonly engines = new Set<Hash>();
  /** Chunks of samples that are left out. */
  readonly data = new Set<Hash>();
  predictions = 0;

  get count(): number {
    return this.kinds.size;
  }

  /** Tensors come after those that they are coded against, so that they can be sent as they are stored. */
  async listed({ objects }: Pick<FleetRepository, "objects">): Promise<BundleManifest["objects"]> {
    const byKind = new Map<BundleKind, Hash[]>(bundleKinds.map((kind) => [kind, []]));
    const listed = new Set<Hash>();
    const list = (id: Hash, kind: BundleKind): void => {
      if (listed.has(id)) return;
      listed.add(id);
      // No chain is longer than 32.
      if (kind === "tensor")
        for (const other of listReferences(objects.encodingOf(id) ?? {}))
          if (this.kinds.get(other) === "tensor") list(other, "tensor");
      byKind.get(kind)?.push(id);
    };
    for await (const [id, kind] of inSteps(this.kinds)) list(id, kind);
    return Object.fromEntries([...byKind].filter(([, ids]) => ids.length > 0));
  }
}

async function addVersion(
  repository: FleetRepository,
  { record }: VersionSummary,
  asked: { readonly withData: boolean; readonly collected: Collected },
): Promise<void> {
  const { collected } = asked;
  const { objects } = repository;
  const { kinds } = collected;
  // A profile never leaves this server, and a receiver takes the data of a version only as a whole.
  const withData = asked.withData && !(await hasProfile(objects, record.uses?.data ?? []));
  for (const { kind, id } of objectsOf(record)) {
    if (kind === "engine") collected.engines.add(id);
    else if (kind === "openings" && repository.isRedacted(id)) collected.redacted.add(id);
    else if (kind === "data") {
      const manifest = await readManifest(objects, id);
      for (const chunk of manifest?.chunks ?? []) {
        if (withData && objects.has(chunk.id)) kinds.set(chunk.id, "data");
        else if (!withData) collected.data.add(chunk.id);
      }
      if (!collected.data.has(id)) kinds.set(id, "data");
    } else kinds.set(id, kind as BundleKind);
  }
  // A device names the chunks of its samples in its record, before their manifest or after it.
  for (const chunk of collected.data) kinds.delete(chunk);
  for await (const { leaves } of distinctTrees(objects, record))
    for await (const { tensor } of inSteps(leaves)) kinds.set(tensor, "tensor");
}

/** Evaluations without predictions: these have what a model gave for samples, with their true labels. */
function addEvaluations(
  repository: FleetRepository,
  versions: readonly VersionSummary[],
  collected: Collected,
): BundleManifest["evaluations"] {
  const found: { readonly versionId: Hash; readonly object: Hash }[] = [];
  for (const [versionId, evaluations] of repository.evaluations(versions.map((each) => each.versionId)))
    for (const { object, predictions } of evaluations) {
      if (predictions !== undefined) {
        collected.predictions++;
        continue;
      }
      collected.kinds.set(object, "evaluation");
      found.push({ versionId, object });
    }
  return found;
}
