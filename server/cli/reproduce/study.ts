/** `stemma reproduce study`: the choices of the command, and its report. */
import { resolve } from "node:path";
import { StemmaError, exitStatus } from "../../../shared/errors.js";
import {
  setupNames,
  setups,
  summarizeStudy,
  type Setup,
} from "../../../shared/determinism/reproduce/study.js";
import { listed, type PlainContext, type Printed } from "../plain-command.js";
import { runStudy } from "./run-study.js";
import { describeStudy, studyColumns } from "./study-text.js";

interface StudyChoices {
  readonly command: readonly string[];
  readonly study: string | undefined;
  readonly setup: readonly Setup[] | undefined;
  readonly pairs: number;
  readonly seeds: readonly number[];
  readonly patch: readonly string[];
  readonly asset: readonly string[];
  readonly timeout: number;
}

export async function study(choices: StudyChoices, { signal, output }: PlainContext): Promise<Printed> {
  const {
    command,
    study: folder = resolve("study"),
    pairs: count,
    seeds,
    asset: assets,
    timeout: timeoutSeconds,
  } = choices;
  const patch = patchOf(choices.patch);
  const chosen = setupsOf(choices.setup, Object.keys(patch).length > 0);
  const onRun = (what: string): void => {
    output.progress(what);
  };
  const pairs = await runStudy(
    { folder, command, setups: chosen, pairs: count, seeds, patch, assets, timeoutSeconds },
    { signal, onRun },
  );
  output.endProgress();
  const summary = summarizeStudy(pairs);
  const complete = summary.setups.filter((each) => each.equal === each.pairs);
  return {
    ...listed(summary.setups, {
      nameOf: ({ setup }) => setup,
      columns: studyColumns(summary),
      text: output.wrap(describeStudy(summary)),
    }),
    data: { command, folder, patch, ...summary, pairs },
    names: complete.map(({ setup }) => setup),
    ...(summary.control?.different === 0 ? { status: exitStatus.partly } : {}),
  };
}

/** @throws USAGE */
function patchOf(texts: readonly string[]): Readonly<Record<string, string>> {
  const entries = texts.map((text) => {
    const at = text.indexOf("=");
    if (at < 1 || text.includes("\0"))
      throw new StemmaError("USAGE", `--patch ${JSON.stringify(text)} is not NAME=VALUE.`);
    return [text.slice(0, at), text.slice(at + 1)] as const;
  });
  return Object.fromEntries(entries);
}

/** @throws USAGE where a setup needs a patch and none is given */
function setupsOf(asked: readonly Setup[] | undefined, hasPatch: boolean): readonly Setup[] {
  const all = setupNames;
  if (asked === undefined) return all.filter((setup) => hasPatch || !setups[setup].isPatched);
  const lacking = asked.find((setup) => setups[setup].isPatched && !hasPatch);
  if (lacking !== undefined)
    throw new StemmaError(
      "USAGE",
      `The setup ${lacking} sets the variables of --patch NAME=VALUE; give one.`,
    );
  return all.filter((setup) => asked.includes(setup));
}
