/** The form of the samples that each line's model and settings need, for the intake. */
import { join } from "node:path";
import { isStemmaError } from "../../shared/errors.js";
import { decodeArchitecture } from "../../shared/model/architecture.js";
import type { Files } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import {
  defaultClasses,
  formOfArchitecture,
  type SampleForm,
} from "../../shared/train/datasets/sample-form.js";
import { parseTargets } from "../../shared/train/datasets/target-form.js";
import type { CurrentStore } from "../current/current-store.js";
import type { Outbox } from "../outbox/outbox.js";
import { activeVersion } from "../outbox/outbox-state.js";
import type { AgentConfig } from "../settings/config.js";

export interface LineFormsOptions {
  readonly files: Pick<Files, "read">;
  readonly config: AgentConfig;
  readonly outbox: Pick<Outbox, "state">;
  readonly current: Pick<CurrentStore, "folderOf">;
}

export class LineForms {
  /** The form of each line for the version that it ran when it was read. */
  readonly #known = new Map<string, { readonly versionId: Hash; readonly form: SampleForm }>();

  constructor(private readonly options: LineFormsOptions) {}

  /**
   * Returns the form that samples of a line need now; {} where neither a model with an architecture nor a
   * setting decides it.
   */
  async of(line: string): Promise<SampleForm> {
    const { config, outbox, current, files } = this.options;
    const set = config.lines[line]?.dataset;
    // The parameters of these names have other values in other readers.
    const dataset = set?.reader === "samples" ? set.parameters : undefined;
    const declared = dataset?.["targets"];
    const targets =
      declared === undefined
        ? undefined
        : parseTargets(typeof declared === "object" ? declared : String(declared).split(","));
    const classes =
      dataset?.["task"] === "classification" ? Number(dataset["classes"] ?? defaultClasses) : undefined;
    const versionId = activeVersion(outbox.state, line);
    if (versionId === undefined)
      return targets !== undefined ? { targets } : classes === undefined ? {} : { targetSize: 1, classes };
    const known = this.#known.get(line);
    if (known?.versionId === versionId) return known.form;
    let form: SampleForm = targets === undefined ? {} : { targets };
    try {
      const path = join(current.folderOf(versionId), "architecture.json");
      form = formOfArchitecture(decodeArchitecture(await files.read(path)), classes);
      if (targets !== undefined) form = { shape: form.shape, targets };
    } catch (error) {
      // An opaque model has no architecture. A damaged one is reported where it is installed or trained.
      if (!isStemmaError(error)) throw error;
      if (error.code !== "FILE_MISSING") return form;
    }
    this.#known.set(line, { versionId, form });
    return form;
  }
}
