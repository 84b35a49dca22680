/**
 * Homes of many versions, written by the store's own writers, for `stemma bench sizes`: lines that vehicles train, each
 * version a fine-tune of all tensors of the one before it, all of one architecture.
 */
import { openHome } from "../../server/storage/repository/home.js";
import type { FleetRepository } from "../../server/storage/repository/fleet-repository.js";
import { nodeHomePorts } from "../../server/storage/repository/node-home.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import type { ModelSource } from "../../shared/model/model.js";
import { architectureHash, encodeArchitecture } from "../../shared/model/architecture.js";
import { architectureWithId } from "../../shared/model/kept-architectures.js";
import { nodeClock } from "../../shared/adapters/node-ports.js";
import type { ObjectWriter, PackWriter } from "../../shared/objects/object-store.js";
import { encodeSaveRecord } from "../../shared/model/save-record.js";
import type { Fact } from "../../shared/journal/fact.js";
import type { SaveBase } from "../../shared/save/plan-save.js";
import { saveModel } from "../../shared/save/save-model.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { denseChain, modelOf } from "../helpers/dense-chain.js";

export const grownFleet = "bench";

/** Versions of a line. */
const versionsPerLine = 200;
/** The same of a line that saves once a day for a year. */
const versionsPerYear = 365;
/** Lines whose versions are saved at the same time, so that they share fsyncs, as devices do that report at once. */
const linesAtOnce = 100;
/** The same where each has a pack of its own open, whose new objects are in memory. */
const packsAtOnce = 8;

export interface GrownHome {
  readonly count: number;
  readonly tensors: number;
  /**
   * One pack a line, as merging leaves them, and facts that say of each version that it was read back, which it was
   * not: many times as fast. Default: one pack a version, each read back, as a server has them at first.
   */
  readonly isMerged?: boolean | undefined;
  /**
   * The versions of a line have all objects in common, except their records: the journal of so many versions, without
   * the bytes of their tensors. The index is made by whoever opens the home next.
   */
  readonly hasOnlyRecords?: boolean | undefined;
  /** Called with the versions that are saved, now and then. */
  readonly onSaved?: ((versions: number) => void) | undefined;
}

type LineOf = (version: number) => ModelSource;

/** Saves versions in a new home. */
export async function growHome(
  path: string,
  { count, tensors, isMerged = false, hasOnlyRecords = false, onSaved }: GrownHome,
): Promise<void> {
  const home = await openHome(path, nodeHomePorts());
  const repository = await openRepository(home, grownFleet);
  const described = denseChain(tensors);
  const architecture = architectureWithId(architectureHash(described), encodeArchitecture(described));
  const each = hasOnlyRecords ? versionsPerYear : versionsPerLine;
  const lines = Math.ceil(count / each);
  const grow = hasOnlyRecords ? growLineOfRecords : isMerged ? growLineInOnePack : growLine;
  let next = 0;
  let saved = 0;
  const work = async (): Promise<void> => {
    while (next < lines) {
      const line = next++;
      const most = Math.min(each, count - line * each);
      const model: LineOf = (version) => modelOf(architecture, tensors, line, version);
      await grow(repository, `line-${line}`, most, model);
      saved += most;
      onSaved?.(saved);
    }
  };
  const atOnce = isMerged || hasOnlyRecords ? packsAtOnce : linesAtOnce;
  await Promise.all(Array.from({ length: atOnce }, work));
  await repository.close();
  await home.close();
}

const metadataOf = (version: number): { readonly loss: number } => ({ loss: 1 / (version + 1) });
const because = "the server read it back";

/** Each version is read back and released, as a server does it. */
async function growLine(
  repository: FleetRepository,
  name: string,
  count: number,
  model: LineOf,
): Promise<void> {
  let base: Hash | undefined;
  for (let version = 0; version < count; version++) {
    const { summary } = await repository.save(model(version), {
      name,
      metadata: metadataOf(version),
      ...(base === undefined ? {} : { bases: [base] }),
    });
    base = summary.versionId;
    await repository.confirmStored(base);
    await repository.release(base, because);
  }
}

/** Passes on all but the end: whoever began the pack commits it. */
function partOf(pack: PackWriter): PackWriter {
  return {
    put: (kind, bytes) => pack.put(kind, bytes),
    putStream: (kind, source, expected) => pack.putStream(kind, source, expected),
    putTensor: (source, expected) => pack.putTensor(source, expected),
    putCoded: (tensor) => pack.putCoded(tensor),
    commit: () => Promise.resolve({ pack: null, bytes: 0 }),
    abort: () => pack.abort(),
  };
}

async function growLineInOnePack(
  repository: FleetRepository,
  name: string,
  count: number,
  model: LineOf,
): Promise<void> {
  const { objects, fleet } = repository;
  const pack = await objects.begin();
  const writer = { has: (id: Hash) => objects.has(id), begin: () => Promise.resolve(partOf(pack)) };
  const records: Uint8Array[] = [];
  let base: SaveBase | undefined;
  for (let version = 0; version < count; version++) {
    const options = {
      ...{ name, fleet, device: name, line: "driving", sequence: version + 1 },
      ...{ environment: { backend: "none" }, metadata: metadataOf(version) },
      ...(base === undefined ? {} : { bases: [base] }),
    };
    const saved = await saveModel(writer as ObjectWriter, model(version), options, nodeClock());
    records.push(saved.recordBytes);
    const { versionId, leaves, plan } = saved;
    base = { versionId, leaves, architecture: saved.record.architecture, ownerMap: plan.ownerMap };
  }
  await pack.commit();
  await recordAll(repository, records);
}

async function growLineOfRecords(
  repository: FleetRepository,
  name: string,
  count: number,
  model: LineOf,
): Promise<void> {
  const { objects, fleet } = repository;
  const pack = await objects.begin();
  const writer = { has: (id: Hash) => objects.has(id), begin: () => Promise.resolve(partOf(pack)) };
  const options = {
    ...{ name, fleet, device: name, line: "driving", sequence: 1 },
    ...{ environment: { backend: "none" }, metadata: metadataOf(0) },
  };
  const first = await saveModel(writer as ObjectWriter, model(0), options, nodeClock());
  const facts: Fact[] = [];
  let versionId = first.versionId;
  for (let sequence = 1; sequence <= count; sequence++) {
    const atMs = first.record.savedAtMs + sequence;
    const next = { ...first.record, sequence, bases: [versionId], savedAtMs: atMs };
    if (sequence > 1) versionId = await pack.put("record", encodeSaveRecord(next));
    facts.push(
      { type: "recorded", atMs, versionId, name, version: sequence, tensorBytes: first.tensorBytes },
      { type: "stored", atMs, versionId },
      { type: "released", atMs, versionId, because },
    );
  }
  await pack.commit();
  for (let at = 0; at < facts.length; at += 99) await repository.journal.append(facts.slice(at, at + 99));
}

async function recordAll(repository: FleetRepository, records: readonly Uint8Array[]): Promise<void> {
  for (const recordBytes of records) {
    const { versionId } = await repository.record(recordBytes);
    const atMs = Date.now();
    await repository.append(
      { type: "stored", atMs, versionId },
      { type: "released", atMs, versionId, because },
    );
  }
}
