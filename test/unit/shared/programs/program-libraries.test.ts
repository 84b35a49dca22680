/** Lists of libraries, which a program or a device may write as it likes: read within limits, and compared in order. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { CanonicalValue } from "../../../../shared/model/canonical-json.js";
import {
  decodeLists,
  describeLibraryDifference,
  firstLibraryDifference,
  librariesOf,
  orderText,
  readLibraries,
} from "../../../../shared/programs/program-libraries.js";
import type { LoadedLibraries } from "../../../../shared/provenance/provenance.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { isWellFormedText } from "../../../../shared/tensor/strict-json.js";

const list = (pid: number, program: string, ...libraries: readonly string[]): string =>
  `\nP${pid} ${program}\n${libraries.map((path) => `L${path}\n`).join("")}E\n`;

test("lists that are cut, or are none, are left out, and the others are read", () => {
  const whole = list(7, "/bin/a", "/lib/x.so", "/lib/y.so");
  assert.deepEqual(decodeLists(whole), [
    { pid: 7, program: "/bin/a", libraries: ["/lib/x.so", "/lib/y.so"] },
  ]);
  for (let at = 0; at < whole.length - 1; at++)
    assert.deepEqual(
      decodeLists(whole.slice(0, at) + list(8, "/bin/b", "/lib/z.so")),
      [{ pid: 8, program: "/bin/b", libraries: ["/lib/z.so"] }],
      `cut at ${at}`,
    );
  for (const text of ["", "E\n", "\nE\n", "\nPx /bin/a\nE\n", "L/lib/x.so\nE\n", "\nP99999999999 a\nE\n"])
    assert.deepEqual(decodeLists(text), [], JSON.stringify(text));
  assert.deepEqual(decodeLists(list(1, "a") + "x".repeat(2 ** 20)), []);
});

test("the program comes first, the others by name and each once; what cannot be read has no hash", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-libraries-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const library = join(folder, "x.so");
  await writeFile(library, "code");
  const listed = decodeLists(
    list(9, "/bin/z", "/dev/zero") +
      list(8, "/bin/b", library, "/nowhere/y.so", folder) +
      list(7, "/bin/main", "/tools/own.so", library) +
      list(6, "/bin/z", "/dev/zero") +
      list(5, "/bin/main", "/tools/own.so", library),
  );
  const isOwn = (path: string): boolean => path.startsWith("/tools/");
  const x = { name: "x.so", sha256: sha256("code") };
  const found = await librariesOf(listed, { pid: 7, isOwn });
  assert.deepEqual(found, [
    { program: "main", libraries: [x] },
    { program: "b", libraries: [x, { name: "y.so" }, { name: folder.slice(folder.lastIndexOf("/") + 1) }] },
    { program: "z", libraries: [{ name: "zero" }] },
  ]);
  await writeFile(library, "edoc");
  const [again] = (await librariesOf(listed, { pid: 7, isOwn })) ?? [];
  assert.equal(again?.libraries[0]?.sha256, sha256("edoc"));
  assert.equal(await librariesOf(listed, { pid: 1, isOwn }), undefined);
  const many = decodeLists(list(1, "p", ...Array.from({ length: 2000 }, (_, i) => `/l/${i}`)));
  assert.equal((await librariesOf(many, { pid: 1, isOwn }))?.[0]?.libraries.length, 1024);
  assert.equal(
    orderText(found ?? [])
      .split("; ")[1]
      ?.slice(0, 13),
    "b: x.so, y.so",
  );
  const long = [
    { program: "p", libraries: Array.from({ length: 1000 }, (_, i) => ({ name: `library-${i}` })) },
  ];
  assert.match(orderText(long), / … [0-9a-f]{64}$/);
  assert.ok(orderText(long).length < 8400);
});

test("the first library that differs is named, in order or in content", () => {
  const loaded = (...names: readonly string[]): LoadedLibraries[] => [
    { program: "python3", libraries: names.map((name) => ({ name, sha256: sha256(name) })) },
  ];
  const difference = (a: readonly LoadedLibraries[], b: readonly LoadedLibraries[]): string | undefined => {
    const found = firstLibraryDifference(a, b);
    return found && describeLibraryDifference(found);
  };
  const recorded = loaded("a.so", "b.so");
  assert.equal(difference(recorded, loaded("a.so", "b.so")), undefined);
  assert.equal(difference(recorded, loaded("b.so", "a.so")), "library 1 of python3 is b.so, and was a.so");
  assert.equal(difference(recorded, loaded("a.so")), "library 2 of python3 is none, and was b.so");
  const other = [
    { program: "python3", libraries: [{ name: "a.so", sha256: sha256("x") }, { name: "b.so" }] },
  ];
  assert.equal(difference(recorded, other), "library 1 of python3, a.so, has other content");
  const unknown = [{ program: "python3", libraries: [{ name: "a.so" }, { name: "b.so" }] }];
  assert.equal(difference(recorded, unknown), undefined);
  const more = [...recorded, { program: "sh", libraries: [] }];
  assert.equal(difference(recorded, more), "program 2 of the run is sh, and was none");
});

test("a statement of ten million libraries, or of none, is not read", () => {
  const row = { name: "a.so", sha256: sha256("a") };
  const stated = (libraries: unknown) => [{ program: "p", libraries }] as unknown as CanonicalValue;
  assert.deepEqual(readLibraries(stated([row, { name: "b.so" }])), stated([row, { name: "b.so" }]));
  for (const value of [
    [],
    {},
    "libraries",
    stated(null),
    stated(Array<object>(10_000_000).fill(row)),
    Array<object>(17).fill({ program: "p", libraries: [] }),
    stated([{ name: "x".repeat(129) }]),
    stated([{ name: "a.so", sha256: "no" }]),
    stated([{ sha256: row.sha256 }]),
    [{ program: 7, libraries: [] }],
    [null],
  ])
    assert.equal(readLibraries(value as unknown as CanonicalValue), undefined);
});

test("a name that is cut inside a character can be stored, and other folders are no other order", async () => {
  const long = `${"x".repeat(127)}\u{1f600}.so`;
  const isOwn = (): boolean => false;
  const [own] = (await librariesOf(decodeLists(list(7, "/bin/a", `/lib/${long}`)), { pid: 7, isOwn })) ?? [];
  const [name] = own?.libraries.map((each) => each.name) ?? [];
  assert.ok(name !== undefined && isWellFormedText(name) && name.startsWith("x".repeat(127)));
  const order = orderText([{ program: "a", libraries: [{ name: `${"x".repeat(8191)}\u{1f600}` }] }]);
  assert.ok(isWellFormedText(order));
  const found = await Promise.all(
    [
      ["/opt/1/z", "/usr/2/a"],
      ["/usr/1/z", "/opt/2/a"],
    ].map(async ([z = "", a = ""]) => {
      const listed = decodeLists(list(1, "/bin/main") + list(2, z, "/lib/x.so") + list(3, a, "/lib/x.so"));
      return (await librariesOf(listed, { pid: 1, isOwn }))?.map(({ program }) => program);
    }),
  );
  assert.deepEqual(found, [
    ["main", "a", "z"],
    ["main", "a", "z"],
  ]);
});
