/** Decides which backend a device trains on, from its profile and from what is linked; remembers that for people. */
import { messageOf } from "../../shared/error-text.js";
import type { Files } from "../../shared/ports.js";
import type { BackendName } from "../../shared/train/training.js";
import { describeLink, nativeFolder, readLink, whyUnusable, type Link } from "./link-file.js";

/** The backend, and a text for people that says why. `none`: the profile names native alone, and nothing is linked. */
export type TrainingBackend =
  | { readonly backend: "native"; readonly link: Link; readonly text: string }
  | { readonly backend: "wasm"; readonly text: string }
  | { readonly backend: "none"; readonly text: string };

/**
 * The first of the profile's backends that can run. Native is never chosen where the profile does not name it. Pure.
 * @param linked what is linked, or why nothing can be used
 */
export function decideBackend(backends: readonly BackendName[], linked: Link | string): TrainingBackend {
  if (backends[0] !== "native") return { backend: "wasm", text: "wasm: the profile asks for wasm" };
  if (typeof linked !== "string")
    return { backend: "native", link: linked, text: `native: ${describeLink(linked)}` };
  return backends.includes("wasm")
    ? { backend: "wasm", text: `wasm: the profile asks for native, but ${linked}` }
    : { backend: "none", text: `nothing can train: the profile asks for native alone, but ${linked}` };
}

/** A process with far less waits for ever, or aborts; 200 were enough for the probe on a CPU. */
const minProcessMb = 256;

export class TrainingBackends {
  #last: TrainingBackend;

  constructor(
    private readonly options: {
      readonly files: Files;
      readonly home: string;
      readonly backends: readonly BackendName[];
      /** MiB that a training's process may take. */
      readonly memoryLimitMb: number;
    },
  ) {
    this.#last = decideBackend(options.backends, "was not looked for yet");
  }

  /** The text of the last look. */
  get text(): string {
    return this.#last.text;
  }

  /** True if a training that fails on the native backend may be trained on wasm. */
  get mayUseWasm(): boolean {
    return this.options.backends.includes("wasm");
  }

  async look(): Promise<TrainingBackend> {
    const { files, home, backends, memoryLimitMb } = this.options;
    const usable = async (): Promise<Link | string> =>
      memoryLimitMb < minProcessMb
        ? `a process of its own needs ${minProcessMb} MiB, and training.memoryLimitMb is ${memoryLimitMb}`
        : await usableLink(files, home);
    this.#last = decideBackend(backends, backends[0] === "native" ? await usable() : "");
    return this.#last;
  }
}

async function usableLink(files: Files, home: string): Promise<Link | string> {
  try {
    const link = await readLink(files, nativeFolder(home));
    if (link === undefined)
      return "no libtensorflow is linked (stemma agent backend link --libtensorflow DIR)";
    const why = await whyUnusable(files, link);
    return why === undefined ? link : `${why}; link it again (stemma agent backend link)`;
  } catch (error) {
    return messageOf(error);
  }
}
