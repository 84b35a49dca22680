/** The first section of a model card: the version, its lineage, its training, and the latest replay of that. Pure. */
import { formatBytes, formatTime } from "../../../shared/cli/output.js";
import { describeCaller, type Caller } from "../../../shared/journal/caller.js";
import type { ModelDescription } from "../../interface/api/models/version-schemas.js";
import { fileText } from "../file-text.js";
import { describeClaim, describeReplay } from "../verdict-text.js";
import { describeBy, nameOf, stateOf } from "../version-text.js";
import type { DocumentSource } from "./document-source.js";
import { staleVerdict } from "./stale.js";
import { isRedacted, membersOf, statement, type KnownStory, type Statement } from "./statement.js";
import { otherFilesOf, otherMetadataOf, statedSection } from "./stated-notes.js";

export function modelDetails(source: DocumentSource, story: KnownStory): readonly Statement[] {
  const { described } = source;
  const { claim, replayed } = described;
  return [
    ...identity(described),
    ...lineage(described, story),
    ...procedure(described, story),
    statement("latest replay", replayed && describeReplay(replayed), "recorded", stale(staleVerdict(source))),
    ...(claim === undefined ? [] : [statement("claim", describeClaim(claim))]),
    ...environment(described, story),
    ...statedSection(described, "license"),
    ...listing(described),
    ...notes(described, story),
  ];
}

/** The statements made when the version was published; where it was pulled, they came with it. */
function listing({ listed }: ModelDescription): readonly Statement[] {
  if (listed === undefined) return [];
  const { license, task, atMs, by } = listed;
  const noted = `noted here ${formatTime(atMs)}${describeBy(by)}`;
  const stated = (name: string, value: string | undefined): readonly Statement[] =>
    value === undefined ? [] : [statement(name, `${value}, ${noted}`, "stated")];
  return [...stated("license, when published", license), ...stated("task, when published", task)];
}

export function stale(reason: string | undefined): Pick<Statement, "stale"> {
  return reason === undefined ? {} : { stale: reason };
}

/** A time of some machine's clock, which may be any number. */
export function timeText(ms: unknown): string | undefined {
  return typeof ms === "number" && Math.abs(ms) <= 8.64e15 ? formatTime(ms) : undefined;
}

function identity(described: ModelDescription): readonly Statement[] {
  const { record, layers = [], leaves, tensorBytes, recordedAtMs, by } = described;
  const isOpaque = record.kind === "opaque";
  const classes = [...new Set(layers.map(({ className }) => className))].join(", ");
  const network = isOpaque ? undefined : `${layers.length} (${classes}), ${record.architecture}`;
  return [
    statement("version", nameOf(described)),
    statement("version id", described.versionId),
    statement("content id", record.contentId),
    statement("root of the tensors", record.root),
    ...(described.file === undefined ? [statement("layers", network)] : []),
    described.file === undefined
      ? statement("tensors", `${leaves.length}, ${formatBytes(tensorBytes)}`)
      : statement("file", fileText(described.file), "stated"),
    statement("approach", record.approach),
    statement("fleet", record.fleet || undefined, "stated"),
    statement("device", record.device || undefined, "stated"),
    statement("line", record.line || undefined, "stated"),
    statement("saved", timeText(record.savedAtMs), "stated"),
    statement("recorded by the server", `${formatTime(recordedAtMs)}${describeBy(by)}`),
    statement("state", stateOf(described)),
  ];
}

/** The owner map is shown as how many tensors each ancestor was the last to change. */
function lineage(described: ModelDescription, story: KnownStory): readonly Statement[] {
  const owned = new Map<string, number>();
  for (const { owner } of described.leaves) owned.set(nameOf(owner), (owned.get(nameOf(owner)) ?? 0) + 1);
  const bases = described.bases.map((base) => `${nameOf(base)} (${base.versionId})`).join(", ");
  // The record may name other bases than those that a training began from, and a replay uses.
  const isSame =
    JSON.stringify(membersOf(described.provenance)["bases"]) === JSON.stringify(described.record.bases);
  const origin = membersOf(described.provenance)["average"] === undefined ? "trained from" : "average of";
  return [
    story.stated(origin, bases || undefined, isSame ? ["provenance", "bases"] : ["record", "bases"]),
    statement("derived from it", described.derived.map(nameOf).join(", ") || undefined),
    ...(owned.size === 0 ? [statement("owner of tensors", undefined)] : []),
    ...[...owned].map(([name, count]) => statement("owner of tensors", count, "stated", { of: name })),
  ];
}

function procedure({ provenance }: ModelDescription, story: KnownStory): readonly Statement[] {
  const { engine, exactness, recipe, random, state, course, program, average, times, by } =
    membersOf(provenance);
  const { generator, seed, invocation, streams } = membersOf(random);
  const part = (value: unknown): unknown => (isRedacted(random) ? random : value);
  const { endedAtMs, workMs } = membersOf(times);
  const ended = isRedacted(times) ? times : timeText(endedAtMs);
  const caller = by === undefined || isRedacted(by) ? by : by === null ? "a schedule" : callerText(by);
  return [
    story.stated("engine", engine, ["provenance", "engine"]),
    story.stated("exactness class", exactness, ["provenance", "exactness"]),
    story.stated("recipe", recipe, ["provenance", "recipe"]),
    ...parameters(provenance, story),
    story.stated("generator of random numbers", part(generator), ["random"]),
    story.stated("seed", part(seed), ["random"]),
    story.stated("invocation", part(invocation), ["random"]),
    story.stated("random streams", part(streams), ["random"]),
    story.stated("state before", state, ["state"]),
    story.stated("course", course, ["course"]),
    ...(program === undefined ? [] : [story.stated("program of its own", program, ["program", "bundle"])]),
    ...(average === undefined ? [] : [story.stated("average", average, ["average", "rule"])]),
    story.stated("training ended", ended, ["times"]),
    story.stated("milliseconds of work", isRedacted(times) ? times : workMs, ["times"]),
    story.stated("trained by", caller, ["by"]),
  ];
}

function callerText(by: unknown): string | undefined {
  return typeof membersOf(by)["who"] === "string" ? describeCaller(by as Caller) : undefined;
}

function parameters(provenance: unknown, story: KnownStory): readonly Statement[] {
  const { parameters: all } = membersOf(provenance);
  const entries = isRedacted(all) ? [] : Object.entries(membersOf(all));
  if (entries.length === 0)
    return [story.stated("parameter", isRedacted(all) ? all : undefined, ["parameters", "*", "value"])];
  return entries.map(([name, parameter]) => {
    const { value, from } = membersOf(parameter);
    const origin = from === "file" || from === "call" || from === "default" ? from : "unknown";
    return story.stated(`parameter (from: ${origin})`, value, ["parameters", name, "value"], name);
  });
}

function environment({ environment: fields }: ModelDescription, story: KnownStory): readonly Statement[] {
  const all = Object.entries(fields);
  return all.length === 0
    ? [statement("environment", undefined)]
    : all.map(([name, value]) => story.stated("environment", value, ["environment", name], name));
}

function notes(described: ModelDescription, story: KnownStory): readonly Statement[] {
  const { notes: own } = membersOf(described.provenance);
  const typed = isRedacted(own) ? [] : Object.entries(membersOf(own));
  const all = [
    ...otherMetadataOf(described).map(([name, value]) =>
      story.stated("metadata", value, ["metadata", name], name),
    ),
    ...typed.map(([name, value]) => story.stated("note", value, ["notes"], name)),
    ...(isRedacted(own) ? [story.stated("note", own, ["notes"])] : []),
    ...otherFilesOf(described).map(({ name, hash }) =>
      statement("attached file", hash, "stated", { of: name }),
    ),
  ];
  return all.length === 0 ? [statement("metadata and notes", undefined)] : all;
}
