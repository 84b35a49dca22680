/**
 * Collects what the journal and the server's newest log lines say about one version, rollout or request. Ids
 * are labels here, never permissions: a version id is what it names, and whoever chooses the id of a request
 * marks only what they did.
 */
import type { LoggedEvent } from "../../shared/adapters/recent-log.js";
import { defined } from "../../shared/defined.js";
import { isStemmaError } from "../../shared/errors.js";
import type { Fact } from "../../shared/journal/fact.js";
import { shortenHash } from "../../shared/journal/short-hash.js";
import { isRequestId } from "../../shared/request-id.js";
import { isHash } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { ListedFact } from "../interface/api/stores/journal-schemas.js";
import type { CallOutput, OperationInput } from "../interface/api/server-operations.js";
import type { OperationsContext } from "../services/context/operations-context.js";
import { withoutTokenHash } from "../services/context/without-secrets.js";
import type { FleetRepository } from "../storage/repository/fleet-repository.js";
import { factCodec } from "../storage/repository/state/fact-codec.js";
import { makerOf } from "../storage/repository/state/version-state.js";

export type TraceSubject =
  | { readonly kind: "version"; readonly id: Hash; readonly name?: string; readonly device?: string }
  | { readonly kind: "rollout" | "request"; readonly id: string };

/** Entries that one call reads: what is asked about may be rare in a long journal. */
const maxLookedAt = 20_000;

export async function trace(
  { fleets, live, grant }: Pick<OperationsContext, "fleets" | "live" | "grant">,
  { fleet, id, device, before, limit = 200 }: OperationInput<"trace">,
): Promise<CallOutput<"trace">> {
  const repository = await fleets.get(fleet);
  const subject = subjectOf(repository, id);
  const recent = live?.recentLog;
  const lines =
    before === undefined
      ? (recent?.matching(
          // What names no fleet may be about any.
          (line) =>
            (grant?.fleets === undefined || line.fields["fleet"] === fleet) &&
            isLineAbout(subject, line, { fleet, device }),
        ) ?? [])
      : [];
  return {
    ...subject,
    ...(await factsAbout(repository, subject, { device, before, limit })),
    log: lines.slice(-limit),
    logSinceMs: recent?.sinceMs ?? null,
  };
}

/**
 * Finds the subject that an id names: the first of a version, a rollout, a request.
 * @throws MODEL_NOT_FOUND where it can be none of them, MODEL_AMBIGUOUS
 */
export function subjectOf(
  repository: Pick<FleetRepository, "resolve" | "get" | "claim" | "rollouts">,
  id: string,
): TraceSubject {
  const [, kind, name = ""] = /^(request|rollout):(.+)$/.exec(id) ?? [];
  if (kind === "request" || kind === "rollout") return { kind, id: name };
  // A version may also be one that this server refused, and so knows from its log alone.
  if (isHash(id)) return versionSubject(repository, id);
  try {
    return versionSubject(repository, repository.resolve(id).versionId);
  } catch (error) {
    if (!isStemmaError(error, "MODEL_NOT_FOUND")) throw error;
    if (repository.rollouts().some((rollout) => rollout.name === id)) return { kind: "rollout", id };
    if (isRequestId(id)) return { kind: "request", id };
    throw error;
  }
}

function versionSubject(
  repository: Pick<FleetRepository, "get" | "claim">,
  id: Hash,
): Extract<TraceSubject, { kind: "version" }> {
  const version = repository.get(id);
  const made = version ?? repository.claim(id);
  const device = made === undefined ? "" : makerOf(made, made.record);
  return {
    kind: "version",
    id,
    ...defined({ name: version && `${version.name}:${version.version}` }),
    ...(device === "" ? {} : { device }),
  };
}

export function isFactAbout(subject: TraceSubject, fact: Fact, device?: string): boolean {
  const members: { readonly [member: string]: unknown } = { ...fact };
  const named = subject.kind === "version" ? members["versionId"] : members[subject.kind];
  if (named !== subject.id && !(subject.kind === "version" && members["successor"] === subject.id))
    return false;
  if (device === undefined) return true;
  if (fact.type === "wave") return fact.devices.includes(device);
  return members["device"] === undefined || members["device"] === device;
}

const fieldOf = { version: "versionId", rollout: "rollout", request: "request" } as const;

export function isLineAbout(
  { kind, id }: TraceSubject,
  { fields }: Pick<LoggedEvent, "fields">,
  { fleet, device }: { readonly fleet: string; readonly device?: string | undefined },
): boolean {
  if (fields[fieldOf[kind]] !== id || (fields["fleet"] ?? fleet) !== fleet) return false;
  return device === undefined || (fields["device"] ?? device) === device;
}

/** Facts from the end of the journal backwards, to the one with which the subject began. */
async function factsAbout(
  { journal }: Pick<FleetRepository, "journal">,
  subject: TraceSubject,
  { device, before, limit }: Pick<OperationInput<"trace">, "device" | "before"> & { readonly limit: number },
): Promise<Pick<CallOutput<"trace">, "facts" | "next">> {
  const { length } = journal.head();
  const from = Math.min(before ?? length, length);
  // Most entries are about something else: they are not decoded.
  const needles = [subject.id, ...(subject.kind === "version" ? [shortenHash(subject.id)] : [])];
  const facts: ListedFact[] = [];
  let position = from;
  let hasBegun = false;
  while (position > 0 && facts.length < limit && from - position < maxLookedAt) {
    const entry = Buffer.from(await journal.readEntry(--position));
    const fact = needles.some((needle) => entry.includes(needle)) ? factCodec.decode(entry) : undefined;
    // A claim has facts before the one that records it as a version.
    if (hasBegun && fact?.type !== "proved") {
      position = 0;
      break;
    }
    if (fact === undefined || !isFactAbout(subject, fact, device)) continue;
    facts.unshift({ position, ...withoutTokenHash(fact) });
    hasBegun = isBeginning(subject, fact);
  }
  return { facts, next: position > 0 ? position : null };
}

function isBeginning({ kind }: TraceSubject, { type }: Fact): boolean {
  return (kind === "version" && type === "recorded") || (kind === "rollout" && type === "rollout");
}
