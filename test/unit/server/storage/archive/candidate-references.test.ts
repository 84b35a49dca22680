/** Which tensors the archive considers as references for a tensor, found through the lineage. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  candidateReferences,
  maxCandidates,
  type ArchiveVersion,
} from "../../../../../server/storage/archive/candidate-references.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { TreeTable } from "../../../../../server/storage/archive/tree-leaves.js";

const table = new TreeTable();
const leavesOf = table.leavesOf.bind(table);

const hash = (text: string): Hash => text as Hash;
let position = 0;
function version(
  id: string,
  bases: readonly string[],
  tensors: Readonly<Record<string, string>>,
  more: Partial<ArchiveVersion> = {},
): ArchiveVersion {
  return {
    versionId: hash(id),
    label: id,
    bases: bases.map(hash),
    series: id,
    position: position++,
    architecture: hash("none"),
    leaves: leavesOf(
      Object.entries(tensors).map(([path, tensor]) => ({ path, name: path, tensor: hash(tensor) })),
    ),
    ...more,
  };
}
/** The candidates of one tensor as text: "relation from" or "relation from/previous". */
function of(
  versions: readonly ArchiveVersion[],
  tensor: string,
  lineage?: Parameters<typeof candidateReferences>[1],
): readonly string[] {
  return (candidateReferences(versions, lineage).get(hash(tensor)) ?? []).map(
    ({ from, previous, relation }) => `${relation} ${from}${previous === undefined ? "" : `/${previous}`}`,
  );
}

describe("candidates of a tensor", () => {
  it("are its ancestors, the nearest with its own predecessor as `previous`, and likewise its descendants", () => {
    const chain = [
      version("v1", [], { w: "a" }),
      version("v2", ["v1"], { w: "b" }),
      version("v3", ["v2"], { w: "c" }),
      version("v4", ["v3"], { w: "d" }),
    ];
    assert.deepEqual(of(chain, "d"), ["ancestor c/b", "ancestor b/a"]);
    assert.deepEqual(of(chain, "a").slice(0, 1), ["descendant b/c"]);
    assert.ok(of(chain, "b").includes("ancestor a"));
  });
  it("skip versions that did not change it", () => {
    const chain = [
      version("v1", [], { w: "a" }),
      version("v2", ["v1"], { w: "b" }),
      version("v3", ["v2"], { w: "b" }),
      version("v4", ["v3"], { w: "c" }),
    ];
    assert.deepEqual(of(chain, "c"), ["ancestor b/a", "ancestor a"]);
  });
  it("are found through a retired version, whose tensors are gone", () => {
    const left = [version("v1", [], { w: "a" }), version("v3", ["v2"], { w: "c" })];
    assert.deepEqual(
      of(left, "c", (id) => (id === "v2" ? [hash("v1")] : [])),
      ["ancestor a"],
    );
    assert.deepEqual(of(left, "c"), []);
  });
  it("include siblings, with the common base as `previous`", () => {
    const family = [
      version("base", [], { w: "a" }),
      version("x", ["base"], { w: "x" }),
      version("y", ["base"], { w: "y" }),
    ];
    assert.deepEqual(of(family, "y"), ["ancestor a", "sibling x/a"]);
  });
  it("are neighbours in a series if no base was named", () => {
    const series = ["p", "q", "r"].map((tensor, i) =>
      version(`s${i}`, [], { w: tensor }, { series: "same" }),
    );
    assert.deepEqual(of(series, "q"), ["neighbour p", "neighbour r"]);
    assert.deepEqual(
      of([version("s", [], { w: "p" }), version("t", [], { w: "q" })], "q"),
      [],
      "models that were trained apart have none (MH9)",
    );
  });
  it("have the same path if the architectures are equal, else the same name", () => {
    const base = version(
      "base",
      [],
      {},
      {
        architecture: hash("one"),
        leaves: leavesOf([
          { path: "0/0", name: "dense", tensor: hash("a") },
          { path: "1/0", name: "out", tensor: hash("b") },
        ]),
      },
    );
    const same = version(
      "same",
      ["base"],
      {},
      { architecture: hash("one"), leaves: leavesOf([{ path: "0/0", name: "renamed", tensor: hash("c") }]) },
    );
    const other = version(
      "other",
      ["base"],
      {},
      { architecture: hash("two"), leaves: leavesOf([{ path: "0/0", name: "out", tensor: hash("d") }]) },
    );
    assert.ok(of([base, same], "c").includes("ancestor a"));
    assert.deepEqual(of([base, other], "d"), ["ancestor b"]);
  });
  it("are few, for a family of any size", () => {
    const family = [
      version("base", [], { w: "a" }),
      ...Array.from({ length: 200 }, (_, i) =>
        version(`c${i}`, ["base"], { w: `t${i}` }, { series: "line" }),
      ),
    ];
    for (const [, own] of candidateReferences(family))
      assert.ok(own.length > 0 && own.length <= maxCandidates);
    assert.deepEqual(
      new Set(of(family, "t100").map((text) => text.split("/")[0])),
      new Set(["ancestor a", "sibling t99", "sibling t101", "sibling t98"]),
    );
  });
  it("never name the tensor itself", () => {
    const back = [
      version("v1", [], { w: "a" }),
      version("v2", ["v1"], { w: "b" }),
      version("v3", ["v2"], { w: "a" }),
    ];
    for (const [to, own] of candidateReferences(back))
      for (const { from, previous } of own) assert.ok(from !== to && previous !== to && previous !== from);
  });
});
