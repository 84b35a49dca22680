/** `stemma data show|push|fetch|rm`: what is registered and stored of named data. */
import { resolve } from "node:path";
import type { Command } from "commander";
import { formatBytes } from "../../../shared/cli/output.js";
import type { DatasetDetails, FetchedData } from "../../interface/api/models/dataset-schemas.js";
import type { DataStream } from "../../interface/api/server-operations.js";
import { withContext, type CommandContext } from "../context.js";
import { refuseExisting, writeStreamDurably } from "../stream-file.js";

export function addStoredDataCommands(data: Command): void {
  data
    .command("show")
    .argument("<name>")
    .description(
      "registered data in detail: what its location has now, what is stored, which versions used it",
    )
    .action(async (name: string, _: unknown, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const details = await (await operations()).showDataset({ fleet: options.fleet, name });
        output.print({ data: details, names: [name], text: describe(details) });
      }),
    );

  data
    .command("push")
    .argument("<name>")
    .description("store the samples of registered data as chunks, each once")
    .action(async (name: string, _: unknown, command: Command) =>
      withContext(command, async ({ output, operations, options, signal }) => {
        const report = await (await operations()).pushDataset({ fleet: options.fleet, name }, { signal });
        const { bytes, chunks, newBytes, newChunks, hash } = report;
        output.print({
          data: report,
          names: [name],
          text:
            `stored ${name}: ${formatBytes(bytes)} in ${chunks} chunks, of which ${newChunks} ` +
            `(${formatBytes(newBytes)}) are new; hash ${hash.slice(0, 16)}`,
        });
      }),
    );

  data
    .command("fetch")
    .argument("<name>")
    .requiredOption("--file <path>", "where the samples are written")
    .option("--force", "overwrite an existing file", false)
    .description("write stored samples to a file, which the reader canonical reads; verified by their hash")
    .action(
      async (name: string, choices: { readonly file: string; readonly force: boolean }, command: Command) =>
        withContext(command, (context) => fetchCommand(name, choices, context)),
    );

  data
    .command("rm")
    .argument("<name>")
    .option("--even-if-used", "although kept versions were trained with it", false)
    .description("forget registered data; its files stay, and stored samples while a version needs them")
    .action(async (name: string, choices: { readonly evenIfUsed: boolean }, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const report = await (await operations()).removeDataset({ fleet: options.fleet, name, ...choices });
        output.print({
          data: report,
          names: [name],
          text: `forgot ${name}; ${report.versions} kept versions were trained with it`,
        });
      }),
    );
}

async function fetchCommand(
  name: string,
  { file, force }: { readonly file: string; readonly force: boolean },
  { output, operations, options, signal }: CommandContext,
): Promise<void> {
  const path = resolve(file);
  await refuseExisting(path, force);
  const stream = await (await operations()).fetchDataset({ fleet: options.fleet, name });
  const report: FetchedData = await writeStreamDurably(
    { ...stream, chunks: untilAborted(stream, signal) },
    path,
    { overwrite: force },
    (bytes) => {
      output.progress(`fetching ${name}: ${formatBytes(bytes)} of ${formatBytes(stream.byteLength)}`);
    },
  );
  output.endProgress();
  output.print({
    data: { ...report, file: path },
    names: [path],
    text:
      `wrote ${path}: ${formatBytes(report.byteLength)}, hash ${report.hash.slice(0, 16)} verified. Register it ` +
      "with: stemma data add NAME FILE --kind canonical",
  });
}

/** The chunks until Ctrl-C; then the file is removed. */
async function* untilAborted({ chunks }: DataStream, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    signal.throwIfAborted();
    yield chunk;
  }
}

function describe(details: DatasetDetails): string {
  const { name, kind, location, hash, stored, source, usedBy } = details;
  const parameters = Object.entries(details.parameters).map(([key, value]) => `${key}=${String(value)}`);
  const json = (value: unknown): string | undefined =>
    value === undefined ? undefined : typeof value === "string" ? value : JSON.stringify(value);
  const rows: readonly (readonly [string, string | undefined])[] = [
    ["name", name],
    ["reader", [kind, ...parameters].join(" ")],
    ["location", location === "" ? "(made by the reader)" : location],
    ["hash", hash ?? "-"],
    ["now", [source.state, source.message].filter((each) => each !== undefined).join(": ")],
    ["samples", source.samples?.toString()],
    ["format", json(source.format)],
    ["columns", json(source.columns)],
    ["transformations", json(source.transformations)],
    ["split", json(source.split)],
    [
      "stored",
      stored === null
        ? `no; store the samples with: stemma data push ${name}`
        : `${formatBytes(stored.bytes)} in ${stored.chunks} chunks, object ${stored.object.slice(0, 16)}`,
    ],
    ["used by", usedBy.map((each) => `${each.name}:${each.version}`).join(", ") || "no kept version"],
  ];
  return rows
    .flatMap(([title, value]) => (value === undefined ? [] : [`${title.padEnd(16)} ${value}`]))
    .join("\n");
}
