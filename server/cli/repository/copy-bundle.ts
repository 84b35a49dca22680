/** Copies models with their lineage from one repository to another: what the other has is not sent again. */
import type { BundleManifest, DepositReport } from "../../interface/api/models/bundle-schemas.js";
import type { OperationInput, ServerOperations } from "../../interface/api/server-operations.js";
import type { Hash } from "../../../shared/tensor/tensor.js";

/** One end of the copy. */
export interface End {
  readonly operations: ServerOperations;
  readonly fleet: string;
}

export interface Copied {
  readonly manifest: BundleManifest;
  readonly report: DepositReport;
  readonly objects: number;
  readonly bytes: number;
}

/** Objects that one request asks for. */
const objectsAtOnce = 2000;

export type Asked = Pick<OperationInput<"describeBundle">, "models" | "depth" | "withData">;
export type Statement = Pick<OperationInput<"finishDeposit">, "list" | "license" | "task">;

export interface CopyOptions {
  readonly asked: Asked;
  readonly statement: Statement;
  readonly force?: boolean | undefined;
  readonly signal: AbortSignal;
  readonly onBytes: (bytes: number) => void;
}

/** @throws what the operations of both ends throw; a copy that is repeated goes on where it ended */
export async function copyBundle(
  source: End,
  target: End,
  { asked: { models, ...range }, statement, force, signal, onBytes }: CopyOptions,
): Promise<Copied> {
  const { fleet } = source;
  const manifest = await source.operations.describeBundle({ fleet, models, ...range });
  const asked = { fleet, models: manifest.models, ...range };
  const begun = await target.operations.beginDeposit({ fleet: target.fleet, manifest, force });
  const deposit = { fleet: target.fleet, deposit: begun.deposit };
  const sent = { bytes: 0 };
  for (let from = 0; from < begun.lacking.length; from += objectsAtOnce) {
    signal.throwIfAborted();
    const objects = begun.lacking.slice(from, from + objectsAtOnce);
    const rest = begun.begun !== undefined && objects.includes(begun.begun.id) ? { begun: begun.begun } : {};
    const entries = await source.operations.bundleObjects({ ...asked, objects, ...rest });
    await target.operations.depositObjects(
      deposit,
      counted(entries, signal, (bytes) => {
        onBytes((sent.bytes += bytes));
      }),
    );
  }
  const prove = async (challenge: Hash, objects: readonly Hash[]): Promise<Hash> =>
    (await source.operations.proveBundle({ ...asked, objects, challenge })).proof;
  const report = await finish(target, deposit.deposit, statement, prove);
  return { manifest, report, objects: begun.lacking.length, bytes: sent.bytes };
}

export async function finish(
  { operations, fleet }: End,
  deposit: string,
  statement: Statement,
  prove: (challenge: Hash, objects: readonly Hash[]) => Promise<Hash>,
): Promise<DepositReport> {
  const asked = await operations.finishDeposit({ fleet, deposit, ...statement });
  const ended =
    asked.prove === undefined
      ? asked
      : await operations.finishDeposit({
          ...{ fleet, deposit, ...statement },
          proof: await prove(asked.prove.challenge, asked.prove.objects),
        });
  if (ended.report === undefined) throw new TypeError("a deposit that was proved has no report");
  return ended.report;
}

export async function* counted(
  chunks: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
  onBytes: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    signal.throwIfAborted();
    onBytes(chunk.length);
    yield chunk;
  }
}
