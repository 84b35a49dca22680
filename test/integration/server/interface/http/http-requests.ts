/** Files to import, and plain HTTP requests, for tests of a server's interfaces. */
import { request } from "node:http";
import { Readable } from "node:stream";
import { safetensorsChunks } from "../../../../../shared/tensor/safetensors.js";
import { sourceOfTensor } from "../../../../../shared/tensor/tensor.js";

/** A safetensors file of U8 tensors. */
export async function fileOf(tensors: Readonly<Record<string, Uint8Array>>): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  const sources = Object.entries(tensors).map(([name, bytes]) => ({
    name,
    source: sourceOfTensor({ dtype: "U8" as const, shape: [bytes.length], bytes }),
  }));
  for await (const chunk of safetensorsChunks(sources)) pieces.push(Buffer.from(chunk));
  return Buffer.concat(pieces);
}
function inPieces(bytes: Uint8Array, size = 10_000): AsyncIterable<Uint8Array> {
  const count = Math.ceil(bytes.length / size);
  return Readable.from(Array.from({ length: count }, (_, at) => bytes.subarray(at * size, (at + 1) * size)));
}
/** The file as the body of an import, in pieces. */
export const imports = (file: Buffer): { byteLength: number; chunks: AsyncIterable<Uint8Array> } => ({
  byteLength: file.length,
  chunks: inPieces(file),
});

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}
/** Sends one plain HTTP request, as a client that is not Stemma. */
export function ask(
  url: string,
  options: {
    readonly method?: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly body?: Uint8Array | string;
  } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asking = request(
      url,
      { method: options.method ?? "GET", headers: { ...options.headers } },
      (answer) => {
        const pieces: Buffer[] = [];
        answer.on("data", (piece: Buffer) => pieces.push(piece));
        answer.on("end", () => {
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(pieces) });
        });
      },
    );
    asking.on("error", reject);
    asking.end(options.body);
  });
}
