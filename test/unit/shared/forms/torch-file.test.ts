/** PyTorch state dicts that torch itself wrote, and archives that somebody changed. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { after, describe, test } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { ModelFolder, readModel, torchModel, vectorFolder } from "../../../helpers/foreign-models.js";
import { entriesOf, zipOf, type Entries, type ZipChoices } from "../../../helpers/stored-zip.js";

const folder = new ModelFolder();
after(() => folder[Symbol.dispose]());
const pathOf = (name: string): string => fileURLToPath(new URL(name, vectorFolder));
const entries = (): Entries => entriesOf(readFileSync(pathOf("state.pt")));
const expected = await readModel(pathOf("state.safetensors"));

const refused =
  (pattern: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(isStemmaError(error, "MODEL_FILE_MALFORMED"), String(error));
    assert.match(error.message, pattern);
    return true;
  };

/** Reads the state dict with an entry replaced, or (undefined) without it. */
async function readWith(
  change: Readonly<Record<string, Buffer | undefined>>,
  choices: ZipChoices = {},
): Promise<Awaited<ReturnType<typeof readModel>>> {
  const changed = entries();
  for (const [name, bytes] of Object.entries(change))
    if (bytes === undefined) changed.delete(name);
    else changed.set(name, bytes);
  return await folder.read(torchModel(zipOf(changed, choices)));
}

/** A pickle that is a dict of one tensor "w" of `shape` and `strides` in storage 0 (54 elements). */
function pickleOf(
  {
    offset = 0,
    shape = [1],
    strides = [1],
    elements = 54,
    key = "0",
  }: {
    readonly offset?: number;
    readonly shape?: readonly number[];
    readonly strides?: readonly number[];
    readonly elements?: number;
    readonly key?: string;
  },
  before = "",
): Buffer {
  const text = (value: string): string => `X${String.fromCharCode(value.length, 0, 0, 0)}${value}`;
  const number = (value: number): string => {
    const bytes = Buffer.alloc(10, "\x8a\x08", "latin1");
    bytes.writeBigInt64LE(BigInt(value), 2);
    return bytes.toString("latin1");
  };
  const tuple = (values: readonly number[]): string => `(${values.map(number).join("")}t`;
  const storage = `(${text("storage")}ctorch\nFloatStorage\n${text(key)}${text("cpu")}${number(elements)}tQ`;
  const call = `ctorch._utils\n_rebuild_tensor_v2\n(${storage}${number(offset)}${tuple(shape)}${tuple(strides)}\x89NtR`;
  return Buffer.from(`\x80\x02}${before}${text("w")}${call}s.`, "latin1");
}

describe("a PyTorch state dict", () => {
  test("gives the tensors that torch has, in its order, whatever their strides", async () => {
    const { tensors, notes } = await readModel(pathOf("state.pt"));
    assert.deepEqual(tensors, expected.tensors);
    assert.equal(Object.keys(tensors)[1], "conv.channels_last");
    assert.deepEqual(notes, []);
  });

  test("is read from an archive with ZIP64 fields, as one of more than 4 GiB has", async () => {
    assert.deepEqual((await readWith({}, { zip64: true })).tensors, expected.tensors);
  });

  test("that has other entries says what is not kept", async () => {
    const number = "X\x05\x00\x00\x00epochK\x03s";
    assert.deepEqual((await readWith({ "state/data.pkl": pickleOf({ shape: [0] }, number) })).notes, [
      `entries that are not tensors are not read: "epoch"`,
    ]);
  });

  test("is refused where a tensor's name is a number, also beside others", async () => {
    const [own, other] = [pickleOf({ shape: [0] }), pickleOf({ shape: [0] })];
    const name = Buffer.from("X\x01\x00\x00\x00w", "latin1");
    const numbered = other.subarray(3, -1).subarray(name.length);
    const both = Buffer.concat([
      own.subarray(0, -1),
      Buffer.from("K\x01", "latin1"),
      numbered,
      Buffer.from("."),
    ]);
    await assert.rejects(readWith({ "state/data.pkl": both }), refused(/the tensor 1 is named by a number/));
  });

  for (const [file, pattern] of [
    ["module.pt", /it names "torch\.nn\.modules\.linear\.Linear/],
    ["checkpoint.pt", /no tensors, only "state_dict"/],
    ["conjugated.pt", /conjugated/],
    ["expanded.pt", /the tensor "a" has more elements than its storage/],
    ["overlapping.pt", /the tensor "a" has more elements than its storage/],
  ] as const)
    test(`is told from ${file}`, () => assert.rejects(readModel(pathOf(file)), refused(pattern)));

  test("runs nothing: a name of another module is refused before it is called", async () => {
    const attack = Buffer.from("\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R.", "latin1");
    await assert.rejects(readWith({ "state/data.pkl": attack }), refused(/it names "posix\.system/));
    const newer = Buffer.from("\x80\x04\x95.", "latin1");
    await assert.rejects(readWith({ "state/data.pkl": newer }), refused(/pickle protocol 4/));
    for (const operation of ["i", "o", "\x81", "\x92", "\x82", "\x98", "P"])
      await assert.rejects(
        readWith({ "state/data.pkl": Buffer.from(`\x80\x02${operation}.`, "latin1") }),
        refused(/the pickle operation 0x/),
      );
  });

  const views: readonly (readonly [title: string, view: Parameters<typeof pickleOf>[0], pattern: RegExp])[] =
    [
      ["beyond its storage", { offset: 53, shape: [2] }, /reaches beyond the end/],
      ["of a negative stride", { shape: [2], strides: [-1] }, /storage, offset, shape or strides/],
      ["of a negative offset", { offset: -1 }, /storage, offset, shape or strides/],
      ["with fewer strides", { strides: [] }, /fewer strides/],
      ["of a storage of other length", { elements: 55 }, /has 216 bytes, the storage needs 220/],
      ["of a storage that is not there", { key: "99" }, /"state\/data\/99" is missing/],
      ["of a storage outside the archive", { key: "../../x" }, /is missing/],
    ];
  for (const [title, view, pattern] of views)
    test(`with a tensor ${title} is refused`, () =>
      assert.rejects(readWith({ "state/data.pkl": pickleOf(view) }), refused(pattern)));

  test("of shapes that overflow is refused", async () => {
    const pickle = pickleOf({ shape: [2 ** 40, 2 ** 40], strides: [0, 0] });
    await assert.rejects(readWith({ "state/data.pkl": pickle }), (error) =>
      isStemmaError(error, "SHAPE_INVALID"),
    );
  });

  test("of a big-endian machine, compressed, or damaged is refused by that", async () => {
    await assert.rejects(readWith({ "state/byteorder": Buffer.from("big") }), refused(/byte order is "big"/));
    await assert.rejects(readWith({}, { method: 8 }), refused(/compressed/));
    const file = readFileSync(pathOf("state.pt"));
    const at = file.indexOf(entries().get("state/data/0") as Uint8Array);
    file[at] = (file[at] as number) ^ 1;
    await assert.rejects(folder.read(torchModel(file)), refused(/checksum of its entry "state\/data\/0"/));
    await assert.rejects(folder.read(torchModel(file.subarray(0, -30))), refused(/cut short/));
  });

  test("is told from archives of Keras, NumPy and TorchScript", async () => {
    const none = Object.fromEntries([...entries().keys()].map((name) => [name, undefined]));
    await assert.rejects(
      readWith({ ...none, "model.weights.h5": Buffer.alloc(1) }),
      refused(/Keras model: its entry "config.json" is missing/),
    );
    await assert.rejects(readWith({ ...none, "a.npy": Buffer.alloc(1) }), refused(/NumPy/));
    await assert.rejects(readWith({ "state/constants.pkl": Buffer.alloc(1) }), refused(/TorchScript/));
  });
});
