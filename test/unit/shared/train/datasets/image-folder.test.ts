/** Pictures in folders: every form of PNG, JPEG to fixed pixels, scaling, and files that are hostile or damaged. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import { decodePicture } from "../../../../../shared/train/datasets/image-folder.js";
import { valuesOf } from "../../../../../shared/train/datasets/pixels.js";
import { loadDataset } from "../../../../../shared/train/datasets/registry.js";
import { jpegOf, pngOf, type PngParts } from "../../../../helpers/pictures.js";
import { refusal } from "./dataset-fixtures.js";

const pixelsOf = (parts: PngParts): number[] => [...decodePicture(pngOf(parts), "p.png").data];
const opaque = (...colours: (readonly number[])[]): number[] => colours.flatMap((colour) => [...colour, 255]);
const grey = (...values: number[]): number[] => opaque(...values.map((value) => [value, value, value]));

describe("PNG pictures", () => {
  it("with each filter", () => {
    const first = [0, 10, 20, 30, 40, 50, 60];
    const expected = opaque([10, 20, 30], [40, 50, 60]);
    const second = (row: readonly number[]): number[] =>
      pixelsOf({ width: 2, height: 2, rows: [first, row] }).slice(8);
    assert.deepEqual(pixelsOf({ width: 2, height: 1, rows: [first] }), expected);
    assert.deepEqual(second([1, 1, 2, 3, 4, 5, 6]), opaque([1, 2, 3], [5, 7, 9]));
    assert.deepEqual(second([2, 1, 2, 3, 250, 5, 6]), opaque([11, 22, 33], [34, 55, 66]));
    assert.deepEqual(second([3, 1, 2, 3, 4, 5, 6]), opaque([6, 12, 18], [27, 36, 45]));
    assert.deepEqual(second([4, 1, 2, 3, 4, 5, 6]), opaque([11, 22, 33], [44, 55, 66]));
  });
  it("of each colour type and depth", () => {
    assert.deepEqual(
      pixelsOf({ width: 4, height: 1, depth: 1, colour: 0, rows: [[0, 0b01010000]] }),
      grey(0, 255, 0, 255),
    );
    assert.deepEqual(
      pixelsOf({ width: 4, height: 1, depth: 2, colour: 0, rows: [[0, 0b00011011]] }),
      grey(0, 85, 170, 255),
    );
    assert.deepEqual(
      pixelsOf({ width: 2, height: 1, depth: 4, colour: 0, rows: [[0, 0x1f]] }),
      grey(17, 255),
    );
    assert.deepEqual(
      pixelsOf({ width: 2, height: 1, depth: 16, colour: 0, rows: [[0, 1, 255, 200, 0]] }),
      grey(1, 200),
    );
    assert.deepEqual(
      pixelsOf({
        width: 2,
        height: 1,
        colour: 3,
        palette: [1, 2, 3, 4, 5, 6],
        transparency: [9],
        rows: [[0, 1, 0]],
      }),
      [4, 5, 6, 255, 1, 2, 3, 9],
    );
    assert.deepEqual(pixelsOf({ width: 1, height: 1, colour: 4, rows: [[0, 7, 8]] }), [7, 7, 7, 8]);
    assert.deepEqual(pixelsOf({ width: 1, height: 1, colour: 6, rows: [[0, 1, 2, 3, 4]] }), [1, 2, 3, 4]);
    assert.deepEqual(
      pixelsOf({ width: 2, height: 1, transparency: [0, 1, 0, 2, 0, 3], rows: [[0, 1, 2, 3, 1, 2, 4]] }),
      [1, 2, 3, 0, 1, 2, 4, 255],
    );
  });
  it("that are interlaced", () => {
    // 3 × 3 pixels: passes 1, 4 (x = 2), 5 (y = 2), 6 (x = 1), 7 (y = 1).
    const rows = [
      [0, 1],
      [0, 3],
      [0, 7, 9],
      [0, 2],
      [0, 8],
      [0, 4, 5, 6],
    ];
    assert.deepEqual(
      pixelsOf({ width: 3, height: 3, colour: 0, interlace: 1, rows }),
      grey(1, 2, 3, 4, 5, 6, 7, 8, 9),
    );
  });
  it("that are damaged, hostile or unknown are refused", () => {
    const good = pngOf({ width: 1, height: 1, rows: [[0, 1, 2, 3]] });
    const flipped = Uint8Array.from(good);
    flipped[45] = (flipped[45] as number) ^ 1;
    const wrong: Uint8Array[] = [
      new Uint8Array(),
      flipped,
      ...Array.from({ length: good.length }, (_, length) => good.subarray(0, length)),
      pngOf({ width: 2 ** 31, height: 2 ** 31, rows: [] }),
      pngOf({ width: 0, height: 1, rows: [] }),
      pngOf({ width: 1, height: 1, depth: 3, rows: [[0, 1, 2, 3]] }),
      pngOf({ width: 1, height: 1, rows: [[5, 1, 2, 3]] }),
      pngOf({ width: 1, height: 1, rows: [[0, 1, 2]] }),
      // A bomb: more bytes than the pixels need are not unpacked.
      pngOf({ width: 1, height: 1, rows: [new Array<number>(1_000_000).fill(0)] }),
      pngOf({ width: 1, height: 1, colour: 3, rows: [[0, 0]] }),
      pngOf({ width: 1, height: 1, colour: 3, palette: [1, 2, 3], rows: [[0, 1]] }),
      pngOf({ width: 1, height: 1, rows: [[0, 1, 2, 3]], extra: [["ABCD", []]] }),
    ];
    for (const [index, bytes] of wrong.entries())
      assert.throws(() => decodePicture(bytes, "p.png"), refusal("DATASET_MALFORMED"), `${index}`);
  });
});

describe("JPEG pictures", () => {
  const hashOf = (name: "baseline" | "progressive"): string => {
    const { width, height, data } = decodePicture(jpegOf(name), `${name}.jpg`);
    assert.deepEqual([width, height, data.length], [16, 8, 16 * 8 * 4]);
    // Near to what was encoded: chroma has a quarter of the pixels.
    let error = 0;
    for (let y = 0; y < 8; y++)
      for (let x = 0; x < 16; x++) error += Math.abs((data[(y * 16 + x) * 4] as number) - x * 16);
    assert.ok(error / 128 < 20, `${error / 128}`);
    return createHash("sha256").update(data).digest("hex").slice(0, 16);
  };
  it("have the same pixels everywhere", () => {
    assert.equal(hashOf("baseline"), "1d7cc0a97356a9d3");
    assert.equal(hashOf("progressive"), "1d7cc0a97356a9d3");
  });
  it("end with their end marker: a film or a second picture behind it changes no pixel", () => {
    for (const name of ["baseline", "progressive"] as const) {
      const picture = jpegOf(name);
      const alone = decodePicture(picture, "p.jpg");
      assert.equal(alone.behindEnd, 0);
      for (const more of [
        jpegOf("progressive"),
        Buffer.alloc(200, "\xff\xda\0\x02", "latin1"),
        Uint8Array.of(0),
      ]) {
        const longer = decodePicture(Buffer.concat([picture, more]), "p.jpg");
        assert.deepEqual(longer, { ...alone, behindEnd: more.length });
      }
    }
  });
  it("that are damaged, hostile or unknown are refused", () => {
    const good = jpegOf("baseline");
    const frame = good.findIndex((byte, at) => byte === 0xff && good[at + 1] === 0xc0);
    const changed = (change: (bytes: Uint8Array) => void): Uint8Array => {
      const bytes = Uint8Array.from(good);
      change(bytes);
      return bytes;
    };
    const wrong: Uint8Array[] = [
      jpegOf("cmyk"),
      Uint8Array.of(0xff, 0xd8),
      changed((bytes) => bytes.fill(0xff, frame + 5, frame + 9)),
      changed((bytes) => bytes.fill(0, frame + 5, frame + 9)),
      changed((bytes) => bytes.set([0xff, 0xc9], frame)),
      changed((bytes) => bytes.set([0xff, 0xff], frame + 2)),
      Buffer.concat([
        good.subarray(0, -2),
        ...Array.from({ length: 80 }, () => Uint8Array.of(0xff, 0xda, 0, 2)),
      ]),
      good.subarray(0, -2),
      Uint8Array.from(Buffer.from("RIFF....WEBPVP8 ")),
      ...Array.from({ length: Math.floor(frame / 20) }, (_, at) => good.subarray(0, 20 * at + 2)),
    ];
    for (const [index, bytes] of wrong.entries())
      assert.throws(() => decodePicture(bytes, "p.jpg"), refusal("DATASET_MALFORMED"), `${index}`);
    // Any change of a byte gives a picture or a refusal, and always ends.
    for (let at = 2; at < good.length; at += 3)
      try {
        decodePicture(
          changed((bytes) => (bytes[at] = (bytes[at] as number) ^ 0x55)),
          "p.jpg",
        );
      } catch (error) {
        refusal("DATASET_MALFORMED")(error);
      }
  });
});

describe("scaling", () => {
  it("takes the mean over the area of each new pixel", () => {
    const data = Uint8Array.from(grey(0, 60, 120));
    const line = { width: 3, height: 1, data };
    const scaled = (width: number): number[] =>
      [...valuesOf(line, { height: 1, width, channels: 1 })].map((value) => Math.round(value * 2550) / 10);
    assert.deepEqual(scaled(3), [0, 60, 120]);
    assert.deepEqual(scaled(1), [60]);
    assert.deepEqual(scaled(2), [20, 100]);
    assert.deepEqual(scaled(6), [0, 0, 60, 60, 120, 120]);
  });
  it("counts transparent pixels as black", () => {
    const pixel = { width: 1, height: 1, data: Uint8Array.of(255, 100, 0, 51) };
    assert.deepEqual(
      [...valuesOf(pixel, { height: 1, width: 1, channels: 3 })],
      [0.2, 20 / 255, 0].map(Math.fround),
    );
  });
});

describe("the reader image-folder", () => {
  const withFolder = async (work: (folder: string) => Promise<void>): Promise<void> => {
    const folder = await mkdtemp(join(tmpdir(), "stemma-pictures-"));
    try {
      for (const name of ["bright", "dark"]) await mkdir(join(folder, name));
      for (let index = 0; index < 10; index++)
        for (const [name, value] of [
          ["bright", 200 + index],
          ["dark", index],
        ] as const)
          await writeFile(
            join(folder, name, `${index}.png`),
            pngOf({ width: 2, height: 1, colour: 0, rows: [[0, value, value]] }),
          );
      await work(folder);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  };
  const load = (location: string, parameters = {}): ReturnType<typeof loadDataset> =>
    loadDataset({ reader: "image-folder", location, parameters }, nodeFiles());

  it("reads classes from folders and records what it does", () =>
    withFolder(async (folder) => {
      await writeFile(join(folder, "dark", "photo.JPG"), jpegOf("baseline"));
      const { set, hash } = await load(folder, { colours: "grey", height: 1, width: 1 });
      assert.deepEqual([set.inputShape, set.classes, set.train.count], [[1, 1, 1], 2, 13]);
      assert.ok(set.train.inputs.every((value, row) => value > 0.7 === (set.train.targets[row] === 0)));
      assert.equal((await load(folder, { colours: "grey", height: 1, width: 1 })).hash, hash);
      const { columns, transformations, sources } = set.description as Record<string, unknown[]>;
      assert.deepEqual(columns?.[1], {
        name: "class",
        role: "target",
        kind: "category",
        words: ["bright", "dark"],
      });
      assert.equal(transformations?.length, 3);
      assert.equal((sources?.[0] as { files: number }).files, 21);
    }));
  it("refuses other files, too few classes and sizes that do not fit", () =>
    withFolder(async (folder) => {
      const malformed = refusal("DATASET_MALFORMED");
      await assert.rejects(load(folder, { height: 4096, width: 4096 }), malformed);
      await assert.rejects(load(folder, { classNames: "bright" }), malformed);
      await assert.rejects(load(folder, { classNames: "bright,none" }), malformed);
      await assert.rejects(
        load(folder, { classNames: "bright,../dark" }),
        refusal("RECIPE_PARAMETERS_INVALID"),
      );
      await writeFile(join(folder, "dark", "notes.doc"), "x");
      await assert.rejects(load(folder), malformed);
      await rm(join(folder, "dark", "notes.doc"));
      await writeFile(join(folder, "dark", "a.png"), "not a picture");
      await assert.rejects(load(folder), malformed);
    }));
});
