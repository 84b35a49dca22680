/** `stemma data show|push|fetch|rm`: what is registered and stored of named data. */
import { formatBytes, formatTime } from "../../../../shared/cli/output.js";
import type { DatasetDetails } from "../../../interface/api/models/dataset-schemas.js";
import type { DataStream } from "../../../interface/api/server-operations.js";
import { pathOf, plain } from "../../plain-command.js";
import { refuseExisting, writeStreamDurably } from "../../stream-file.js";

const show = plain("showDataset", {
  name: "show",
  about: "registered data in detail: what its location has now, what is stored, which versions used it",
  takes: { name: "" },
  print: (details, { name }) => ({ names: [name], text: describe(details) }),
});

const push = plain("pushDataset", {
  name: "push",
  about: "store the samples of registered data as chunks, each once",
  takes: { name: "" },
  print: ({ bytes, chunks, newBytes, newChunks, hash }, { name }) => ({
    names: [name],
    text:
      `stored ${name}: ${formatBytes(bytes)} in ${chunks} chunks, of which ${newChunks} ` +
      `(${formatBytes(newBytes)}) are new; hash ${hash.slice(0, 16)}`,
  }),
});

const fetching = plain(null, {
  name: "fetch",
  about: "write stored samples to a file, which the reader canonical reads; verified by their hash",
  takes: { name: "" },
  options: {
    file: { text: "<path> where the samples are written", read: pathOf, required: true },
    force: "overwrite an existing file",
  },
  run: async ({ name, file, force }, { operations, fleet, output, signal }) => {
    await refuseExisting(file, force);
    const stream = await (await operations()).fetchDataset({ fleet, name });
    const whole = formatBytes(stream.byteLength);
    const report = await writeStreamDurably(
      { ...stream, chunks: untilAborted(stream, signal) },
      file,
      { overwrite: force },
      (bytes) => {
        output.progress(`fetching ${name}: ${formatBytes(bytes)} of ${whole}`);
      },
    );
    output.endProgress();
    return { ...report, file };
  },
  print: ({ file, byteLength, hash }) => ({
    names: [file],
    text:
      `wrote ${file}: ${formatBytes(byteLength)}, hash ${hash.slice(0, 16)} verified. Register it ` +
      "with: stemma data add NAME FILE --kind canonical",
  }),
});

const remove = plain("removeDataset", {
  name: "rm",
  about: "forget registered data; its files stay, and stored samples while a version needs them",
  takes: { name: "" },
  options: { evenIfUsed: "although kept versions were trained with it" },
  print: ({ versions }, { name }) => ({
    names: [name],
    text: `forgot ${name}; ${versions} kept versions were trained with it`,
  }),
});

/** The chunks until Ctrl-C; then the file is removed. */
async function* untilAborted({ chunks }: DataStream, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    signal.throwIfAborted();
    yield chunk;
  }
}

function filesText({ count, bytes, sha256, modifiedAtMs }: NonNullable<DatasetDetails["files"]>): string {
  const changed = modifiedAtMs === undefined ? "" : `, changed ${formatTime(modifiedAtMs)}`;
  return `${count === 1 ? "" : `${count}, `}${formatBytes(bytes)}, SHA-256 ${sha256}${changed}`;
}

function describe(details: DatasetDetails): string {
  const { name, kind, location, hash, files, stored, source, usedBy } = details;
  const parameters = Object.entries(details.parameters).map(([key, value]) => `${key}=${String(value)}`);
  const json = (value: unknown): string | undefined =>
    value === undefined ? undefined : typeof value === "string" ? value : JSON.stringify(value);
  const rows: readonly (readonly [string, string | undefined])[] = [
    ["name", name],
    ["reader", [kind, ...parameters].join(" ")],
    ["location", location === "" ? "(made by the reader)" : location],
    ["hash", hash ?? "-"],
    ["files", files && filesText(files)],
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

export const commands = [show, push, fetching, remove];
