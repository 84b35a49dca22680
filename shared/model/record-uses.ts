/**
 * `uses` of a save record (format 2): engine, recipe, data, optimizer state and checkpoints. Every value has
 * one form: absent members and empty lists are left out, data are named once, checkpoints ascend.
 */
import { isHash } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import type { CanonicalValue } from "./canonical-json.js";
import type { RecordUses } from "./model.js";
import { hashFromBase64url, hashToBase64url, invalidRecord, listOf, membersOf } from "./record-fields.js";

export const maxCheckpoints = 256;
export const maxDataSets = 256;
const singleMembers = ["engine", "recipe", "optimizer"] as const;

/** The JSON value of checked `uses`. */
export function encodeUses({ data, checkpoints, ...single }: RecordUses): CanonicalValue {
  return {
    ...Object.fromEntries(
      singleMembers.flatMap((member) => {
        const hash = single[member];
        return hash === undefined ? [] : [[member, hashToBase64url(hash)]];
      }),
    ),
    data: data?.map(hashToBase64url),
    checkpoints: checkpoints?.map(({ iteration, tree }) => ({ iteration, tree: hashToBase64url(tree) })),
  };
}

/** Reads the JSON value; `checkUses` checks what this does not. @throws RECORD_INVALID */
export function decodeUses(value: unknown): RecordUses {
  const members = membersOf(value, "uses", [...singleMembers, "data", "checkpoints"]);
  const uses: { -readonly [Member in keyof RecordUses]: RecordUses[Member] } = {};
  for (const member of singleMembers)
    if (members[member] !== undefined) uses[member] = hashFromBase64url(members[member], `uses.${member}`);
  if (members["data"] !== undefined)
    uses.data = listOf(members["data"], "uses.data", maxDataSets, (item, i): Hash =>
      hashFromBase64url(item, `data set ${i}`),
    );
  if (members["checkpoints"] !== undefined)
    uses.checkpoints = listOf(members["checkpoints"], "uses.checkpoints", maxCheckpoints, (item, i) => {
      const entry = membersOf(item, `checkpoint ${i}`, ["iteration", "tree"]);
      return {
        iteration: entry["iteration"] as number,
        tree: hashFromBase64url(entry["tree"], `the tree of checkpoint ${i}`),
      };
    });
  return uses;
}

/** @throws RECORD_INVALID for anything that has no form in a record, or another one */
export function checkUses(uses: RecordUses): void {
  const { data, checkpoints } = uses;
  const single = singleMembers.flatMap((member) => uses[member] ?? []);
  if (single.length === 0 && data === undefined && checkpoints === undefined) invalidRecord("uses is empty");
  if (!single.every(isHash)) invalidRecord("engine, recipe or optimizer is not a hash");
  if (data !== undefined) checkData(data);
  if (checkpoints !== undefined) checkCheckpoints(checkpoints);
}

function checkData(data: NonNullable<RecordUses["data"]>): void {
  if (data.length === 0) invalidRecord("its list of data is empty");
  if (data.length > maxDataSets) invalidRecord(`it names more than ${maxDataSets} data sets`);
  if (new Set(data).size !== data.length) invalidRecord("a data set is named twice");
  if (!data.every(isHash)) invalidRecord("a data set is not a hash");
}

function checkCheckpoints(checkpoints: NonNullable<RecordUses["checkpoints"]>): void {
  if (checkpoints.length === 0) invalidRecord("its list of checkpoints is empty");
  if (checkpoints.length > maxCheckpoints) invalidRecord(`it has more than ${maxCheckpoints} checkpoints`);
  let before = -1;
  for (const { iteration, tree } of checkpoints) {
    if (!Number.isSafeInteger(iteration) || iteration <= before)
      invalidRecord("the iterations of its checkpoints are not ascending whole numbers from 0");
    if (!isHash(tree)) invalidRecord("the tree of a checkpoint is not a hash");
    before = iteration;
  }
}
