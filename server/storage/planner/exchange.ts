/**
 * Local search with exchanges, beyond the paper's algorithms. An exchange makes a swap that saves storage
 * even though it breaks budgets. It then moves other members of the snapshots that are over budget to edges
 * that are cheaper to recreate by, until the budgets hold again. The exchange is kept where it saves storage
 * on balance, and is undone otherwise.
 *
 * This finds plans that single swaps cannot reach: a budget is a knapsack, and a large tensor often fits only
 * after several small ones have moved together. PAS-MT and PAS-PT never undo a decision.
 */
import type { LimitMeter } from "./budgets.js";
import { descend } from "./descend.js";
import { sumRoundingShare } from "./rounding.js";
import { TreeEditor, type Effort } from "./tree-editor.js";

/**
 * Tries every edge into v that is cheaper to store, with repairs of the limits that it breaks. Returns
 * whether an exchange was made.
 */
export function exchangeAt(editor: TreeEditor, v: number): boolean {
  const {
    tree,
    tree: {
      graph: {
        storage,
        from,
        incoming: { start, items },
      },
    },
  } = editor;
  for (let index = start[v]!; index < start[v + 1]!; index++) {
    const edge = items[index]!;
    const saved = -tree.storageChange(v, edge);
    if (saved <= storage[tree.parentEdge[v]!]! * sumRoundingShare) return false;
    editor.effort.steps--;
    if (tree.isBelow(from[edge]!, v)) continue;
    const { logLength } = editor;
    const addedBefore = editor.added;
    editor.move(v, edge);
    if (
      (editor.isWithinLimits() || editor.repairLimits(new Set([v]), saved)) &&
      addedBefore - editor.added > saved * sumRoundingShare
    )
      return true;
    editor.undoTo(logLength);
  }
  return false;
}

/**
 * Tries exchanges at all vertices, those that could save most first. Repeats until nothing changes or the
 * effort is spent. Never adds storage, and never breaks a limit.
 */
export function exchange(meter: LimitMeter, effort: Effort, isTimeUp: () => boolean): void {
  const {
    tree,
    tree: {
      graph: {
        storage,
        vertexCount,
        incoming: { start, items },
      },
    },
  } = meter;
  for (let hasChanged = true; hasChanged;) {
    hasChanged = false;
    const editor = new TreeEditor(meter, effort);
    const saving = Float64Array.from({ length: vertexCount }, (_, v) =>
      v === 0 ? 0 : storage[tree.parentEdge[v]!]! - storage[items[start[v]!]!]!,
    );
    const order = Int32Array.from({ length: vertexCount - 1 }, (_, index) => index + 1).sort(
      (a, b) => saving[b]! - saving[a]! || a - b,
    );
    for (const v of order) {
      if (effort.steps <= 0 || isTimeUp()) return;
      if (!(saving[v]! > 0)) break;
      if (exchangeAt(editor, v)) {
        editor.keep();
        hasChanged = true;
      }
    }
    if (hasChanged) {
      meter.recompute();
      descend(meter, isTimeUp);
    }
  }
}

/** Random moves of one disturbance, at most. */
const maxDisturbed = 4;
/** Roughly how many vertices near a disturbance are tried for exchanges. */
const maxNearby = 200;

/**
 * Leaves local optima that exchanges cannot leave (iterated local search). Each round moves a few
 * neighbouring vertices at random, repairs the limits, and tries exchanges near them. The result is kept
 * where it does not take more storage than before. The same numbers from `random` give the same tree.
 */
export function disturb(
  meter: LimitMeter,
  effort: Effort,
  random: () => number,
  isTimeUp: () => boolean,
): void {
  const {
    tree,
    tree: {
      graph: {
        vertexCount,
        incoming: { start, items },
        from,
      },
    },
  } = meter;
  const editor = new TreeEditor(meter, effort);
  const pick = (count: number): number => Math.floor(random() * count);
  for (let round = 0; effort.steps > 0 && !isTimeUp(); round++) {
    if (round % 4096 === 4095) meter.recompute();
    const addedBefore = editor.added;
    const fixed = new Set<number>();
    let v = 1 + pick(vertexCount - 1);
    for (let count = 1 + pick(maxDisturbed); count > 0; count--) {
      const edge = items[start[v]! + pick(start[v + 1]! - start[v]!)]!;
      if (!fixed.has(v) && edge !== tree.parentEdge[v] && !tree.isBelow(from[edge]!, v)) {
        editor.move(v, edge);
        fixed.add(v);
      }
      v = neighbour(meter, v, pick);
    }
    effort.steps -= 8;
    if (editor.repairLimits(fixed, Number.POSITIVE_INFINITY))
      exchangeAll(editor, nearbyVertices(meter, editor.movedSince(0)));
    if (!editor.isWithinLimits() || editor.added > addedBefore) editor.undoTo(0);
    editor.keep();
  }
}

/**
 * A random vertex of one of v's snapshots, or the source of a random edge into v (v itself where it is 0).
 */
function neighbour({ tree: { graph } }: LimitMeter, v: number, pick: (count: number) => number): number {
  const groups = graph.memberships;
  const count = groups.start[v + 1]! - groups.start[v]!;
  if (count > 0 && pick(2) === 0) {
    const group = groups.items[groups.start[v]! + pick(count)]!;
    return graph.members.items[
      graph.members.start[group]! + pick(graph.members.start[group + 1]! - graph.members.start[group]!)
    ]!;
  }
  const from =
    graph.from[
      graph.incoming.items[
        graph.incoming.start[v]! + pick(graph.incoming.start[v + 1]! - graph.incoming.start[v]!)
      ]!
    ]!;
  return from === 0 ? v : from;
}

/** The moved vertices, the targets of edges from them, and the other members of their snapshots. */
function nearbyVertices({ tree: { graph } }: LimitMeter, moved: readonly number[]): readonly number[] {
  const found = new Set<number>(moved);
  for (const v of moved) {
    for (
      let index = graph.outgoing.start[v]!;
      index < graph.outgoing.start[v + 1]! && found.size < maxNearby;
      index++
    )
      found.add(graph.to[graph.outgoing.items[index]!]!);
    for (
      let index = graph.memberships.start[v]!;
      index < graph.memberships.start[v + 1]! && found.size < maxNearby;
      index++
    ) {
      const group = graph.memberships.items[index]!;
      for (let i = graph.members.start[group]!; i < graph.members.start[group + 1]!; i++)
        found.add(graph.members.items[i]!);
    }
  }
  return [...found];
}

function exchangeAll(editor: TreeEditor, vertices: readonly number[]): void {
  for (let hasChanged = true, pass = 0; hasChanged && pass < 3; pass++) {
    hasChanged = false;
    for (const v of vertices) if (exchangeAt(editor, v)) hasChanged = true;
  }
}
