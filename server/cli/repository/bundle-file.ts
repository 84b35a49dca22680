/** A bundle as a file: "STEMBNDL", its manifest, and the entries of all its objects (docs/formats.md, "Bundle"). */
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { StemmaError } from "../../../shared/errors.js";
import { requireRegular } from "../../../shared/files/not-regular.js";
import { bundleManifest, maxManifestBytes } from "../../interface/api/models/bundle-schemas.js";
import type { BundleManifest } from "../../interface/api/models/bundle-schemas.js";
import { ByteReader } from "../../operations/hub/bundle-entry.js";
import { bundleInvalid } from "../../operations/hub/hub-errors.js";
import { refuseExisting, writeStreamDurably } from "../stream-file.js";
import { counted, finish, type Asked, type Copied, type End } from "./copy-bundle.js";

const magic = "STEMBNDL";
const format = 1;

interface Transfer {
  readonly signal: AbortSignal;
  readonly onBytes: (bytes: number) => void;
}

/** @throws FILE_EXISTS, and as the source's operations */
export async function writeBundle(
  { operations, fleet }: End,
  path: string,
  { asked, force, signal, onBytes }: Transfer & { readonly asked: Asked; readonly force: boolean },
): Promise<Pick<Copied, "manifest" | "bytes">> {
  await refuseExisting(path, force);
  const manifest = await operations.describeBundle({ fleet, ...asked });
  const json = Buffer.from(JSON.stringify(manifest));
  const head = Buffer.alloc(16);
  head.write(magic, "latin1");
  head.writeUInt32LE(format, 8);
  head.writeUInt32LE(json.length, 12);
  const entries = await operations.bundleObjects({ fleet, ...asked, models: manifest.models });
  const chunks = (async function* () {
    yield head;
    yield json;
    yield* entries;
  })();
  let bytes = 0;
  const tell = (more: number): void => {
    onBytes((bytes += more));
  };
  const report = Promise.resolve();
  await writeStreamDurably(
    { chunks: counted(chunks, signal, tell), report },
    path,
    { overwrite: force },
    () => undefined,
  );
  return { manifest, bytes };
}

/** @throws BUNDLE_INVALID, FILE_MISSING, and as the target's operations */
export async function readBundle(
  target: End,
  path: string,
  { force, signal, onBytes }: Transfer & { readonly force: boolean },
): Promise<Copied> {
  requireRegular(
    await stat(path).catch((cause: unknown) => {
      throw new StemmaError("FILE_MISSING", `${path} cannot be read. Name another file.`, { cause, path });
    }),
    path,
  );
  const reader = new ByteReader(createReadStream(path) as AsyncIterable<Buffer>);
  const manifest = await readManifest(reader, path);
  const { operations, fleet } = target;
  const { deposit, lacking } = await operations.beginDeposit({ fleet, manifest, force });
  let bytes = 0;
  const entries = counted(reader.rest(), signal, (more) => {
    onBytes((bytes += more));
  });
  await operations.depositObjects({ fleet, deposit }, entries);
  const report = await finish(target, deposit, {}, () => {
    throw new StemmaError(
      "NOT_ALLOWED",
      `The server has some of what ${path} has, and a file cannot prove that it is yours. Pull the file into a ` +
        "repository, and publish from that.",
    );
  });
  return { manifest, report, objects: lacking.length, bytes };
}

async function readManifest(reader: ByteReader, path: string): Promise<BundleManifest> {
  const head = await reader.take(16);
  if (head.toString("latin1", 0, 8) !== magic) throw bundleInvalid(`${path} does not begin like one`);
  if (head.readUInt32LE(8) !== format) throw bundleInvalid(`${path} is of another format than ${format}`);
  const length = head.readUInt32LE(12);
  if (length > maxManifestBytes) throw bundleInvalid(`its manifest has ${length} bytes`);
  let value: unknown;
  try {
    value = JSON.parse((await reader.take(length)).toString("utf8"));
  } catch (cause) {
    if (cause instanceof StemmaError) throw cause;
    throw bundleInvalid("its manifest is not JSON", cause);
  }
  const parsed = bundleManifest.safeParse(value);
  if (!parsed.success) throw bundleInvalid("its manifest is not of the form that it must have", parsed.error);
  return parsed.data;
}
