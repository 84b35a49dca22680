/** Compares the checkpoints and the optimizer's state that a version has with those of its replay. */
import { defined } from "../../../shared/defined.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import type { SaveRecord } from "../../../shared/model/model.js";
import {
  compareCheckpoints,
  type ComparedCheckpoints,
} from "../../../shared/provenance/compare-checkpoints.js";
import { usesOfResult } from "../../../shared/save/result-uses.js";
import { encodeTreeSource, type TreeSource } from "../../../shared/save/save-uses.js";
import { objectId } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { TrainingOutcome } from "../../../shared/train/train-in-child.js";

export interface ComparedStates {
  /** Members of the record that differ. */
  readonly members: readonly string[];
  /** The version's checkpoints, compared; undefined where it has none. */
  readonly checkpoints: ComparedCheckpoints | undefined;
}

/**
 * Reads the files of the replay that the version has too: a device keeps as many as its limits allow.
 * @throws FILE_FAILED, SAFETENSORS_MALFORMED, ARCHITECTURE_MISMATCH
 */
export async function compareKeptStates(
  recorded: SaveRecord["uses"] = {},
  { architecture, checkpoints, optimizerFile }: TrainingOutcome,
): Promise<ComparedStates> {
  const kept = recorded.checkpoints ?? [];
  const iterations = new Set(kept.map(({ iteration }) => iteration));
  const files = {
    checkpoints: checkpoints.filter(({ iteration }) => iterations.has(iteration)),
    ...defined({ optimizerFile: recorded.optimizer && optimizerFile }),
  };
  const limits = { checkpoints: kept.length, optimizer: true, bytes: Infinity };
  const { uses, close } = await usesOfResult(nodeFiles(), { architecture }, files, limits);
  try {
    const trees = new Map(uses.checkpoints?.map(({ iteration, model }) => [iteration, treeId(model)]));
    const compared = compareCheckpoints(kept, trees);
    const hasOptimizer = recorded.optimizer === (uses.optimizer && treeId(uses.optimizer));
    return {
      members: [
        ...(compared?.firstDifferent === undefined ? [] : ["record.uses.checkpoints"]),
        ...(hasOptimizer ? [] : ["record.uses.optimizer"]),
      ],
      checkpoints: compared,
    };
  } finally {
    await close();
  }
}

function treeId(tree: TreeSource): Hash {
  return objectId("tree", encodeTreeSource(tree));
}
