/** Finds the newest models of a line on devices, and which of them are of one form. No device is believed. */
import { canAverage } from "../../../shared/average/average-numbers.js";
import { decodeMetadata } from "../../../shared/model/metadata.js";
import type { LeftOut } from "../../../shared/provenance/provenance.js";
import type { DeviceSummary } from "../../storage/repository/answers/device-answers.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { fixedTensorsDiffer, noMajority, titleOf } from "./average-errors.js";
import { isAdapterVersion } from "./average-bases.js";

export interface LineHead {
  readonly device: string;
  readonly base: VersionSummary;
  /** The training samples that the device states; undefined: it states no such count. */
  readonly samples: number | undefined;
}

export interface Choice {
  readonly heads: readonly LineHead[];
  readonly leftOut: readonly LeftOut[];
}

type Reads = Pick<FleetRepository, "claims" | "headOfLine" | "leaves" | "objects">;

/** The newest model of each device that has the line, as far as it is here and may be averaged. */
export async function headsOfLine(
  repository: Reads,
  line: string,
  devices: readonly Pick<DeviceSummary, "device" | "generation" | "lines" | "state">[],
): Promise<Choice> {
  const heads: LineHead[] = [];
  const leftOut: LeftOut[] = [];
  for (const { device, generation, lines, state } of devices) {
    if (!lines.includes(line)) continue;
    const base = repository.headOfLine({ device, line }, generation);
    const because = state === "enrolled" ? whyUnfit(repository, { device, line, base }) : `it is ${state}`;
    if (base === undefined || because !== undefined)
      leftOut.push({
        device,
        because: because ?? "it has sent no model",
        ...(base === undefined ? {} : { versionId: base.versionId }),
      });
    else heads.push({ device, base, samples: await statedSamples(repository, base) });
  }
  return { heads, leftOut };
}

function whyUnfit(
  repository: Pick<Reads, "claims">,
  {
    device,
    line,
    base,
  }: { readonly device: string; readonly line: string; readonly base: VersionSummary | undefined },
): string | undefined {
  const isNewer = ({ record }: ReturnType<Reads["claims"]>[number]): boolean =>
    record.device === device && record.line === line && record.sequence > (base?.record.sequence ?? 0);
  if (repository.claims().some(isNewer)) return "its newest model is a claim, whose tensors are not here";
  if (base === undefined) return undefined;
  const { state, record } = base;
  if (state === "retired") return `its newest model ${titleOf(base)} is retired`;
  if (state === "recorded") return `its newest model ${titleOf(base)} is not confirmed as stored yet`;
  if (record.scheme !== undefined) return `its newest model ${titleOf(base)} is reduced`;
  return isAdapterVersion(base) ? `its newest model ${titleOf(base)} is a LoRA adapter` : undefined;
}

/** Metadata that a training reports; any device can state any number there. */
const samplesKey = "training.samples";

async function statedSamples(
  { objects }: Pick<Reads, "objects">,
  { record }: VersionSummary,
): Promise<number | undefined> {
  const { metadata } = record.objects;
  if (metadata === undefined || !objects.has(metadata)) return undefined;
  const samples = decodeMetadata(await objects.read("metadata", metadata))[samplesKey];
  return typeof samples === "number" && Number.isSafeInteger(samples) && samples > 0 ? samples : undefined;
}

/**
 * Keeps the models of the form that more than half have, so that no single device decides which it is.
 * @throws ARCHITECTURE_MISMATCH, AVERAGE_REFUSED where no form is that of more than half
 */
export async function ofOneForm(
  repository: Pick<Reads, "leaves">,
  line: string,
  { heads, leftOut }: Choice,
): Promise<Choice> {
  const forms = new Map<LineHead, string>();
  const fixed = new Map<LineHead, string>();
  for (const head of heads) {
    const leaves = await repository.leaves(head.base.versionId);
    const { kind, architecture } = head.base.record;
    const headers = leaves.map(({ path, dtype, shape }) => [path, dtype, shape]);
    forms.set(head, JSON.stringify(kind === "architecture" ? architecture : headers));
    const others = leaves.filter(({ dtype }) => !canAverage(dtype));
    fixed.set(head, JSON.stringify(others.map(({ path, tensor }) => [path, tensor])));
  }
  const formed = majority(heads, (head) => forms.get(head) ?? "");
  if (formed === undefined) throw noMajority(line, namesByKey(heads, forms));
  const same = majority(formed.kept, (head) => fixed.get(head) ?? "");
  if (same === undefined) throw fixedTensorsDiffer(line, namesByKey(formed.kept, fixed));
  const out = (others: readonly LineHead[], because: string): readonly LeftOut[] =>
    others.map(({ device, base: { versionId } }) => ({ device, because, versionId }));
  return {
    heads: same.kept,
    leftOut: [
      ...leftOut,
      ...out(formed.others, "its model is of another architecture than most"),
      ...out(
        same.others,
        "tensors of its model that are not averaged, as of whole numbers, are others than most have",
      ),
    ],
  };
}

function majority(
  heads: readonly LineHead[],
  keyOf: (head: LineHead) => string,
): { readonly kept: readonly LineHead[]; readonly others: readonly LineHead[] } | undefined {
  if (heads.length === 0) return { kept: [], others: [] };
  const [largest = []] = [...grouped(heads, keyOf)].sort((a, b) => b.length - a.length);
  if (2 * largest.length <= heads.length) return undefined;
  const kept = new Set(largest);
  return { kept: largest, others: heads.filter((head) => !kept.has(head)) };
}

function grouped(
  heads: readonly LineHead[],
  keyOf: (head: LineHead) => string,
): readonly (readonly LineHead[])[] {
  const groups = new Map<string, LineHead[]>();
  for (const head of heads) {
    const group = groups.get(keyOf(head));
    if (group === undefined) groups.set(keyOf(head), [head]);
    else group.push(head);
  }
  return [...groups.values()];
}

/** "van-1, van-2; van-3": devices of one form together. */
function namesByKey(heads: readonly LineHead[], keys: ReadonlyMap<LineHead, string>): string {
  return grouped(heads, (head) => keys.get(head) ?? "")
    .slice(0, 8)
    .map(
      (group) =>
        group
          .slice(0, 4)
          .map(({ device }) => device)
          .join(", ") + (group.length > 4 ? ", …" : ""),
    )
    .join("; ");
}
