/** Ends a deposit: everything is checked, and proved to be the sender's, and then visible in one step. */
import { defined } from "../../../shared/defined.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { CallOutput, OperationInput } from "../../interface/api/server-operations.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { PreparedBundle, ReceivedBundle } from "../../storage/repository/versions/record-bundle.js";
import type { Deposit } from "./deposits.js";
import { objectsNotNamed, objectsNotSent, otherLicence, proofWrong } from "./hub-errors.js";
import { isSameProof, proofOf } from "./possession.js";

type End = Pick<OperationInput<"finishDeposit">, "proof" | "list" | "license" | "task">;

export interface Sender {
  /** True where the sender may read this store as it is: a command of this machine. */
  readonly isTrusted: boolean;
  /** The sender as facts name it; absent: it may speak for all. */
  readonly statedBy?: string | undefined;
}

/**
 * @throws BUNDLE_INVALID, REFERENCE_MISSING, NOT_ALLOWED for a wrong proof or the licence of another sender's model,
 * and as FleetRepository.prepareBundle
 */
export async function finishDeposit(
  repository: FleetRepository,
  deposit: Deposit,
  { proof, ...end }: End,
  { isTrusted, statedBy }: Sender,
): Promise<CallOutput<"finishDeposit">> {
  const { objects } = repository;
  const bundle = { ...deposit.bundle, listings: listingsOf(repository, deposit, end), ...speaks(statedBy) };
  requireThere(objects, deposit);
  const prepared = (deposit.prepared ??= await repository.prepareBundle(bundle));
  requireNamed(deposit, prepared);
  const toProve = isTrusted ? [] : [...prepared.required].filter((id) => !deposit.received.has(id));
  if (toProve.length > 0) {
    const { challenge } = deposit;
    if (proof === undefined) return { prove: { challenge, objects: toProve } };
    if (!isSameProof(proof, await proofOf(objects, toProve, challenge))) throw proofWrong();
  }
  const { recorded, tagsKept } = await repository.recordBundle({ ...prepared, bundle });
  return {
    report: {
      recorded: recorded.flatMap((versionId) => {
        const { name, version } = repository.get(versionId) ?? {};
        return name === undefined || version === undefined ? [] : [{ versionId, name, version }];
      }),
      alreadyHere: bundle.records.length - recorded.length,
      tagsKept,
    },
  };
}

/** The bounds of a sender: of a version of another it says no tag, no predecessor and no other licence. */
function speaks(statedBy: string | undefined): Pick<ReceivedBundle, "isSender" | "checkListing"> {
  if (statedBy === undefined) return {};
  const isSender = (by = ""): boolean => by === statedBy || by.startsWith(`${statedBy}, as `);
  return {
    isSender,
    checkListing: ({ versionId, license, by }, stated) => {
      if (license !== undefined && stated !== license && !isSender(by))
        throw otherLicence(versionId, license);
    },
  };
}

/** @throws REFERENCE_MISSING naming how many were not sent */
function requireThere(objects: FleetRepository["objects"], { kinds }: Deposit): void {
  let lacking = 0;
  for (const id of kinds.keys()) if (!objects.has(id)) lacking++;
  if (lacking > 0) throw objectsNotSent(lacking);
}

/** Nothing belongs to a version that its sender did not name. @throws BUNDLE_INVALID */
function requireNamed({ kinds }: Deposit, { required }: PreparedBundle): void {
  for (const id of required) if (!kinds.has(id)) throw objectsNotNamed(id);
}

/** The statements of the sender about the models; what was stated elsewhere counts where nothing was stated here. */
function listingsOf(
  repository: FleetRepository,
  { manifest, bundle }: Deposit,
  { list = false, license, task }: Omit<End, "proof">,
): ReceivedBundle["listings"] {
  const known = new Map([...repository.listings()].map((each) => [each.versionId, each] as const));
  const models = new Set<Hash>(list ? manifest.models : []);
  const elsewhere = new Map(bundle.listings.map((each) => [each.versionId, each] as const));
  const others = bundle.listings.filter(({ versionId }) => !models.has(versionId) && !known.has(versionId));
  const own = [...models].map((versionId) => {
    const before = known.get(versionId) ?? elsewhere.get(versionId);
    return { versionId, ...defined({ license: license ?? before?.license, task: task ?? before?.task }) };
  });
  return [...others, ...own];
}
