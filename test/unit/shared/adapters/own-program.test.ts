/** How a part of this program is started, from Node with scripts and from a single executable. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ownPart } from "../../../../shared/adapters/own-program.js";

const part = {
  script: "/a folder/engine.mjs",
  args: ["--recipe", "x"],
  nodeOptions: ["--permission", "--allow-fs-read=/a folder/", '--title=a "b" \\c'],
};

test("from scripts, Node's options stand before the script", () => {
  assert.deepEqual(ownPart({ ...part, isExecutable: false }), {
    program: process.execPath,
    args: [...part.nodeOptions, part.script, ...part.args],
    environment: {},
  });
});

test("an executable gets a first argument of its own, and Node's options in NODE_OPTIONS as Node reads them", () => {
  assert.deepEqual(ownPart({ ...part, isExecutable: true }), {
    program: process.execPath,
    args: ["--stemma-part", part.script, ...part.args],
    environment: {
      NODE_OPTIONS: '--permission "--allow-fs-read=/a folder/" "--title=a \\"b\\" \\\\c"',
    },
  });
  assert.deepEqual(ownPart({ script: "-e", args: ["1"], isExecutable: true }).environment, {});
});

test("an executable's files on the disk are restored before a part of it starts", () => {
  const restore = Symbol.for("stemma.restore-unpacked");
  let restored = 0;
  Object.assign(globalThis, { [restore]: () => restored++ });
  ownPart({ script: "/x.mjs", isExecutable: true });
  ownPart({ script: "/x.mjs", isExecutable: false });
  Reflect.deleteProperty(globalThis, restore);
  assert.equal(restored, 1);
});
