/** The end of the demo: what was sent, which recoveries were exact, and where to look further. */
import { formatBytes, formatDuration, type Output } from "../../../shared/cli/output.js";
import type { ResultMetadata } from "../../../shared/train/result-metadata.js";
import type { SavedModel } from "./compare-recovered.js";
import type { DemoFolders } from "./demo-home.js";
import { demoFleet } from "./demo-plan.js";
import { fromHere, type DemoScript } from "./demo-script.js";
import type { FleetRounds, SentModel } from "./fleet-rounds.js";

export interface Exactness {
  /** Models whose bytes are those of the vehicle's file. */
  readonly own: number;
  /** Models whose Merkle root is the recorded one; no vehicle has a file of them any more. */
  readonly root: number;
  readonly wrong: number;
  /** The outcome of each recovery, by version. */
  readonly proofs: ReadonlyMap<string, Proof>;
}
export interface Proof {
  readonly exact: boolean;
  readonly comparedWith: "the device's own file" | "the recorded root";
}

interface SummarisedDemo {
  readonly script: DemoScript;
  readonly folders: Pick<DemoFolders, "server">;
  readonly options: { readonly output: Output };
}
interface DemoResults {
  readonly rounds: Pick<FleetRounds, "sent" | "cut">;
  readonly exact: Exactness;
  readonly tookMs: number;
}

/** Shows what there is, and how it was proved. */
export async function summarise(
  { script, folders, options }: SummarisedDemo,
  models: readonly SavedModel[],
  { rounds: { sent, cut }, exact, tookMs }: DemoResults,
): Promise<void> {
  script.heading("What there is now");
  await script.run(["model", "list"], { isTable: true });
  const all = [...sent.values()];
  const claims = all.filter(({ isClaim }) => isClaim);
  const recoveries = exact.own + exact.root + exact.wrong;
  const right = exact.own + exact.root;
  const lines = [
    ...(all.length === 0 ? [] : [`${shareText(all)}.`]),
    ...(claims.length === 0
      ? []
      : [
          `${shareText(claims)} of ${claims[0]?.device ?? ""}, which sends how it made a model: the server makes it again.`,
        ]),
    `${right} of ${recoveries} recoveries are exact, bit for bit: ${exact.own} compared with the vehicle's own file, ${exact.root} with the recorded root.`,
    ...(cut === undefined
      ? []
      : [
          `kill -9 during a transfer: ${formatBytes(cut.resumedBytes)} of ${formatBytes(cut.totalBytes)} had arrived and were not sent again.`,
        ]),
  ];
  options.output.print({
    data: {
      rows: metricsOf(models, await metadataOf(script, options.output, models)).map(
        ({ metric, model: { versionId, name, version, record, claim, tensorBytes } }) => ({
          versionId,
          name,
          version,
          device: record.device,
          line: record.line,
          approach: record.approach,
          claim,
          tensorBytes,
          figures: sent.get(versionId),
          metric,
          proof: exact.proofs.get(versionId),
        }),
      ),
    },
    names: models.map(({ name, version }) => `${name}:${version}`),
    text: `\n${options.output.wrap(lines)}`,
  });
  const home = `STEMMA_HOME=${fromHere(folders.server)} STEMMA_FLEET=${demoFleet}`;
  const newest = models.at(-1);
  options.output.info("");
  script.say(`Done in ${formatDuration(tookMs)}. To look further, here or with npm start -- --stay:`);
  script.say(`  export ${home}`);
  for (const line of [
    `./stemma model log ${newest?.name ?? ""}`,
    "./stemma rollout status",
    `./stemma model recover --at ${new Date().toISOString().replace(/\.\d+Z/, "Z")} --folder then`,
    "./stemma model import FILE.safetensors --name my-model",
  ])
    script.say(`  ${line}`);
}

/** "1.2 MB sent instead of 4.5 MB of plain copies: 27 %". */
export function shareText(sent: readonly Pick<SentModel, "wireBytes" | "tensorBytes">[]): string {
  const wire = sent.reduce((sum, { wireBytes }) => sum + wireBytes, 0);
  const plain = sent.reduce((sum, { tensorBytes }) => sum + tensorBytes, 0);
  return `${formatBytes(wire)} sent instead of ${formatBytes(plain)} of plain copies: ${Math.round((100 * wire) / Math.max(1, plain))} %`;
}

/** The figures that a training recorded with its version. An imported model has none. */
type Metadata = Partial<ResultMetadata>;

/** The metadata of each model, which only an answer for programs has. */
async function metadataOf(
  script: DemoScript,
  { form }: Output,
  models: readonly SavedModel[],
): Promise<ReadonlyMap<string, Metadata>> {
  const found = new Map<string, Metadata>();
  if (form === "table") return found;
  for (const { versionId } of models) {
    const shown = await script.ask<{ readonly metadata?: Metadata }>("model", "show", versionId);
    found.set(versionId, shown?.metadata ?? {});
  }
  return found;
}

/**
 * Each model with its metric, "SoH error 3.1 % → 1.9 %": that of the line's first model on the device's held-out data
 * before it was trained, and that of the version, both as the trainer stated them. "-": none was stated.
 * @param models from the oldest to the newest
 */
export function metricsOf(
  models: readonly SavedModel[],
  metadata: ReadonlyMap<string, Metadata>,
): readonly { readonly model: SavedModel; readonly metric: string }[] {
  const initial = new Map<string, number | undefined>();
  return models.map((model) => {
    const stated = metadata.get(model.versionId) ?? {};
    const line = `${model.record.device}\0${model.record.line}\0${model.name}`;
    if (!initial.has(line)) initial.set(line, stated["metric.before"]);
    const { "metric.name": name, "metric.unit": unit = "", "metric.after": after } = stated;
    const before = initial.get(line) ?? stated["metric.before"];
    const isStated = name !== undefined && before !== undefined && after !== undefined;
    return {
      model,
      metric: isStated ? `${name} ${before.toFixed(1)} ${unit} → ${after.toFixed(1)} ${unit}` : "-",
    };
  });
}
