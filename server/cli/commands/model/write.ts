/** `stemma model tag|rm|redact|hold|unhold|keep`: what people change of a version. */
import { formatBytes } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import { StemmaError } from "../../../../shared/errors.js";
import { checkHoldable, describeHold } from "../../../storage/repository/state/hold.js";
import { plain } from "../../plain-command.js";
import { nameOf } from "../../version-text.js";

const tag = plain("tag", {
  name: "tag",
  about: "let a tag point to a version: name:tag works wherever name:version does",
  takes: { model: "", tag: "" },
  options: { remove: "remove the tag", dryRun: "only check that the model exists" },
  run: ({ dryRun, ...input }, { call }) =>
    dryRun ? call("model", { model: input.model }) : call("tag", input),
  print: (summary, { tag: named, remove, dryRun }) => ({
    names: [nameOf(summary)],
    text: `${dryRun ? "would be: " : ""}${summary.name}:${named} ${remove ? "points to nothing" : `is ${nameOf(summary)}`}`,
  }),
});

const retire = plain("retire", {
  name: "rm",
  about:
    "retire a model: its name, parents and times are kept; the next storage gc frees its tensors that nothing else refers to",
  takes: { model: "" },
  options: {
    because: { text: "<reason> kept with the fact", default: "removed by hand" },
    dryRun: "show what would happen",
  },
  run: async ({ model, ...choices }, { call }) => {
    const before = await call("model", { model });
    await call("retire", { model: before.versionId, ...choices });
    return before;
  },
  print: ({ versionId, derived, ...before }, { dryRun }) => {
    const note =
      derived.length > 0
        ? `; ${counted(derived.length, "model derived from it keeps", "models derived from it keep")} the tensors they share`
        : "";
    return {
      data: { versionId, retired: !dryRun },
      names: [nameOf(before)],
      text: `${dryRun ? "would retire" : "retired"} ${nameOf(before)}${note}; free its space with: stemma storage gc`,
    };
  },
});

const redact = plain("redact", {
  name: "redact",
  about:
    "make parameters, seed, data description, times and caller of a training unreadable for ever; " +
    "the model, its id and the commitments stay",
  takes: { model: "" },
  options: {
    because: { text: "<text> kept with the fact", required: true },
    dryRun: "only check that there is something to redact",
  },
  print: (summary, { dryRun }) => ({
    data: { versionId: summary.versionId, redacted: !dryRun },
    names: [nameOf(summary)],
    text:
      `${dryRun ? "would redact" : "redacted"} how ${nameOf(summary)} was trained; backups and devices ` +
      "that have it keep their copies; remove it from this disk with: stemma storage gc",
  }),
});

/** @throws USAGE */
function reasonOf({ because }: { readonly because: string }): string {
  if (because.trim() === "")
    throw new StemmaError(
      "USAGE",
      "--because is empty. Give the reason in a few words: it is shown to everyone who finds the hold later.",
    );
  return because.trim();
}

const hold = plain("hold", {
  name: "hold",
  about: "keep a version: until unhold, neither stemma model rm nor any retention rule retires it",
  takes: { model: "" },
  options: {
    because: {
      text: "<text> why it must be kept: an incident, a release, an open question",
      required: true,
    },
    dryRun: "only show what would happen",
  },
  run: async ({ model, dryRun, ...given }, { call }) => {
    const because = reasonOf(given);
    const before = await call("model", { model });
    checkHoldable(before);
    const { versionId } = before;
    const kept = dryRun ? undefined : await call("hold", { model: versionId, held: true, because });
    return {
      title: nameOf(before),
      data:
        kept === undefined
          ? { versionId, held: false, wouldHold: { because } }
          : { versionId, held: kept.held, hold: kept.hold },
      text: `${dryRun ? "would hold" : "holding"} ${nameOf(before)} (${versionId.slice(0, 12)}): ${because}`,
    };
  },
  print: ({ title, data, text }) => ({ data, names: [title], text }),
});

const unhold = plain("hold", {
  name: "unhold",
  about: "let a held version go: retention rules and stemma model rm may retire it again",
  takes: { model: "" },
  options: {
    because: { text: "<text> why it need not be kept any more", required: true },
    dryRun: "only show what would happen",
  },
  run: async ({ model, dryRun, ...given }, { call }) => {
    const because = reasonOf(given);
    const before = await call("model", { model });
    const { versionId, hold: was } = before;
    const title = nameOf(before);
    if (was === undefined) return { title, data: { versionId, held: false }, text: `${title} is not held` };
    const { held } = dryRun ? before : await call("hold", { model: versionId, held: false, because });
    const text = `${dryRun ? "would let go" : "let go"} ${title}, held ${describeHold(was)}`;
    return { title, data: { versionId, held, was }, text };
  },
  print: ({ title, data, text }) => ({ data, names: [title], text }),
});

const keep = plain("keepTensors", {
  name: "keep",
  about: "store the tensors of a version again that storage drop dropped",
  takes: { model: "" },
  options: { because: "<text> why; it is kept with the fact" },
  run: async (input, { call, output }) => {
    output.progress(`storing the tensors of ${input.model} again`);
    const summary = await call("keepTensors", input);
    output.endProgress();
    return summary;
  },
  print: (summary) => ({
    names: [summary.versionId],
    text: `${nameOf(summary)}: its tensors are stored, ${formatBytes(summary.tensorBytes)}`,
  }),
});

export const commands = [tag, retire, redact, hold, unhold, keep];
