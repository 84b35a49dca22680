/** The thread in which large tensors are coded. */
import { parentPort } from "node:worker_threads";
import type { EncodedTensor, References } from "../../shared/delta/encoded.js";
import { loadDeltaCodec } from "../../shared/delta/load.js";
import type { Tensor } from "../../shared/tensor/tensor.js";
import type { ArchiveLayout } from "./archive-plan.js";

export interface ToCodeWorker { readonly tensor: Tensor; readonly references: References; readonly layout: ArchiveLayout }
export type FromCodeWorker = { readonly encoded: EncodedTensor } | { readonly error: string };

const port = parentPort;
const codec = loadDeltaCodec();
port?.on("message", ({ tensor, references, layout }: ToCodeWorker) => {
  void codec.then((ready) => {
    const encoded = ready.encodeTensor(tensor, tensor.bytes, references, { layout });
    port.postMessage({ encoded } satisfies FromCodeWorker);
  }).catch((error: unknown) => { port.postMessage({ error: error instanceof Error ? error.stack ?? error.message : String(error) } satisfies FromCodeWorker); });
});
