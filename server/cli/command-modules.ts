/**
 * Maps each command to its module. Only the modules of the command that is run are loaded: all of them take
 * several times as long as Node itself takes to start. The help of the program needs none of them.
 */
import type { Command } from "commander";
import type { BuildProgram } from "./context.js";
import type { Listed } from "./plain-command.js";

/** A module of commands below a word of `stemma`, and their names, so that it is loaded for these alone. */
interface CommandModule {
  readonly names: string;
  readonly load: () => Promise<{ readonly commands: readonly Listed[] }>;
}

/** A command below `stemma`. Its module defines what it takes and does, or the commands below it. */
interface ProgramCommand {
  readonly about: string;
  /** The arguments, as the help shows them. */
  readonly takes?: string;
  /** Loads the module of a command that defines itself; some complete the words of other commands. */
  readonly define?: () => Promise<{
    readonly define: (command: Command, buildProgram: BuildProgram) => void | Promise<void>;
  }>;
  /** The heading in the help of the program below which it is listed; absent: with all others. */
  readonly group?: string;
  /** True if a command that defines itself has others below it. */
  readonly hasCommands?: true;
  /** The commands below it, where these are in one module, with the end of the help of each. */
  readonly load?: () => Promise<{ readonly commands: readonly Listed[]; readonly help?: string }>;
  /** The same where they are in several, in the order of the help. */
  readonly modules?: readonly CommandModule[];
}

const modelModules: readonly CommandModule[] = [
  { names: "list", load: () => import("./commands/model/list.js") },
  { names: "show diff", load: () => import("./commands/model/show.js") },
  { names: "log", load: () => import("./commands/model/log.js") },
  { names: "nearest", load: () => import("./commands/model/nearest.js") },
  { names: "descendants common owners successor", load: () => import("./commands/model/lineage.js") },
  { names: "transfer", load: () => import("./commands/model/transfer.js") },
  { names: "recover export", load: () => import("./commands/model/recover.js") },
  { names: "pipeline", load: () => import("./commands/model/pipeline.js") },
  { names: "story", load: () => import("./commands/model/story.js") },
  { names: "card sbom openlineage", load: () => import("./commands/model/documents.js") },
  { names: "attest attestation", load: () => import("./commands/model/attest.js") },
  { names: "verify", load: () => import("./commands/model/verify.js") },
  { names: "import", load: () => import("./commands/model/import.js") },
  { names: "train", load: () => import("./commands/model/train.js") },
  { names: "tag rm redact hold unhold keep", load: () => import("./commands/model/write.js") },
  { names: "eval", load: () => import("./commands/model/evaluate.js") },
  { names: "evals", load: () => import("./commands/model/evals.js") },
  { names: "merge", load: () => import("./commands/model/merge.js") },
  { names: "reduce", load: () => import("./commands/model/reduce.js") },
];

const deviceModules: readonly CommandModule[] = [
  { names: "list show revoke assign train", load: () => import("./commands/device/devices.js") },
  { names: "enroll", load: () => import("./commands/device/enroll.js") },
  { names: "sign renew", load: () => import("./commands/device/certificates.js") },
  { names: "batch accept", load: () => import("./commands/device/batch.js") },
  { names: "events logs", load: () => import("./commands/device/look.js") },
  { names: "set label", load: () => import("./commands/device/values.js") },
  { names: "quarantine rm", load: () => import("./commands/device/standing.js") },
  { names: "erase", load: () => import("./commands/device/erase.js") },
  { names: "rollback evaluate", load: () => import("./commands/device/evaluate.js") },
];

const storageModules: readonly CommandModule[] = [
  { names: "stats check gc reindex backup restore", load: () => import("./commands/storage/stores.js") },
  { names: "plan apply", load: () => import("./commands/storage/plan.js") },
  { names: "leases", load: () => import("./commands/storage/leases.js") },
  { names: "tier", load: () => import("./commands/storage/tier.js") },
  { names: "drop", load: () => import("./commands/storage/drop.js") },
  { names: "policy", load: () => import("./commands/storage/policy.js") },
  { names: "retention", load: () => import("./commands/storage/retention.js") },
];

const inRepository = "In a model repository (a folder where stemma init was run):";

/** Verbs of a modeller's repository, worked in as with git. */
const repositoryVerbs: Readonly<Record<string, ProgramCommand>> = {
  init: {
    about: "make a model repository in a folder",
    takes: "[folder]",
    define: () => import("./repository/init.js"),
  },
  add: {
    about: "stage a model, its checkpoints, scripts, configurations, logs, data or notes for the next commit",
    takes: "[files...]",
    define: () => import("./repository/add.js"),
  },
  status: {
    about: "what is staged, what changed since, and what the next commit begins from",
    define: () => import("./repository/status.js"),
  },
  commit: {
    about: "make a version of what is staged, with a message",
    define: () => import("./repository/commit.js"),
  },
  copy: {
    about: "scaffold a new model from a version: network, configuration, files, with its weights or not",
    takes: "<version> <name>",
    define: () => import("./repository/copy.js"),
  },
  archive: {
    about: "store all versions in fewer bytes, and report what that brings",
    define: () => import("./repository/archive.js"),
  },
  list: {
    about: "versions with what they came from; the history of a file; the family as a drawing",
    define: () => import("./repository/list.js"),
  },
  desc: {
    about: "describe a version: network and its footprint, hyper-parameters, files, measurements",
    takes: "[model]",
    define: () => import("./repository/describe.js"),
  },
  diff: {
    about: "compare versions side by side, by what was stated and measured and by their layers",
    takes: "[models...]",
    define: () => import("./repository/compare.js"),
  },
  eval: {
    about: "measure models on the same data",
    takes: "[models...]",
    define: () => import("./repository/evaluate.js"),
  },
  query: {
    about: "select models by a query, derive new ones of them, or train candidates",
    hasCommands: true,
    define: () => import("./repository/query.js"),
  },
  publish: {
    about: "send models with their lineage to a hub, or into a file",
    takes: "<models...>",
    define: () => import("./repository/publish.js"),
  },
  search: {
    about: "the models that were published to a hub",
    takes: "[text]",
    define: () => import("./repository/search.js"),
  },
  pull: {
    about: "take models with their lineage from a hub, or from a file",
    takes: "[models...]",
    define: () => import("./repository/pull.js"),
  },
};

/** Commands below `stemma`, in the order of the help. */
const programCommands: Readonly<Record<string, ProgramCommand>> = {
  demo: {
    about:
      "see it work: a server and three vehicles that train, report, are killed, and are recovered exactly",
    define: async () => ({ define: (await import("./commands/demo.js")).defineDemoCommand }),
  },
  server: {
    about: "run the server with its MQTT broker and HTTP interface, until Ctrl-C",
    define: () => import("./commands/server/server.js"),
  },
  "server-key": {
    about: "replace the key that devices know this server by, and its certificate authority",
    load: () => import("./commands/server/server-key.js"),
  },
  agent: {
    about: "run the agent on a device, send it samples, query it (see: stemma agent --help)",
    takes: "[arguments...]",
    define: () => import("./commands/machine/agent.js"),
  },
  device: { about: "enrol devices and see what they run", modules: deviceModules },
  fleet: {
    about: "all devices of a fleet and its rollouts: now, as a live screen, or simulated",
    load: () => import("./commands/fleet/fleets.js"),
  },
  rollout: {
    about: "give a version to many devices in waves, and take it back",
    load: () => import("./commands/rollout/rollouts.js"),
  },
  release: {
    about: "sign versions offline, so that devices run nothing that the fleet's owner did not sign",
    load: () => import("./commands/release/releases.js"),
  },
  model: { about: "save, look at, compare and recover models", modules: modelModules },
  nas: {
    about: "search for architectures whose candidates inherit layers from each other",
    load: () => import("./commands/training/nas.js"),
  },
  data: { about: "name the data that recipes train on", load: () => import("./commands/training/data.js") },
  recipe: {
    about: "training procedures that devices and this machine can run",
    load: () => import("./commands/training/recipe.js"),
  },
  replay: {
    about: "train versions once more from their provenance, and the engines that do it",
    load: () => import("./commands/training/replay.js"),
  },
  probe: {
    about: "what each layer of a model gives on fixed inputs, to compare two machines",
    load: () => import("./commands/training/probe.js"),
  },
  reproduce: {
    about: "run a training twice, compare, and find what makes the runs differ",
    load: () => import("./commands/training/reproduce.js"),
  },
  journal: {
    about: "the record of everything that happened in a fleet: read it, mend it where it is damaged",
    load: () => import("./commands/journal/facts.js"),
  },
  trace: {
    about: "follow one report, order, rollout or request through journal and logs",
    takes: "<id>",
    define: () => import("./commands/journal/trace.js"),
  },
  storage: {
    about: "what is stored, whether it is intact, and how to free or save space",
    modules: storageModules,
  },
  token: {
    about: "tokens of the HTTP port, each with a name and a role",
    load: () => import("./commands/server/token.js"),
  },
  authority: {
    about: "certificate authorities of your own, whose certificates name devices of the fleet",
    load: () => import("./commands/server/authority.js"),
  },
  webhook: {
    about: "send the facts of a fleet to an address, signed, in order and at least once",
    load: () => import("./commands/server/webhook.js"),
  },
  bench: {
    about: "measure this machine: ratios against a floor taken in the same run (times alone mean little)",
    takes: "[name] [arguments...]",
    define: () => import("./commands/machine/bench.js"),
  },
  doctor: {
    about:
      "check this machine and this home: Node, disk, fsync, SIMD, engine, ports, journal; show what to do",
    define: () => import("./commands/machine/doctor.js"),
  },
  context: {
    about: "servers by name, for work from another machine",
    load: () => import("./commands/machine/context.js"),
  },
  console: {
    about: "a prompt for these commands, with completion and history; or commands from standard input",
    define: () => import("./commands/machine/console.js"),
  },
  completion: {
    about: "scripts by which bash, zsh and fish complete commands and options",
    define: () => import("./commands/machine/completion.js"),
    hasCommands: true,
  },
  ...Object.fromEntries(
    Object.entries(repositoryVerbs).map(([name, known]) => [name, { ...known, group: inRepository }]),
  ),
};

/** True if a command below `stemma` only has others below it. Pure. */
export function isGroup(command: Command): boolean {
  // A command below another word may have the name of one of these, as `reproduce replay`.
  const known = command.parent?.parent == null ? programCommands[command.name()] : undefined;
  return known !== undefined && (known.define === undefined || known.hasCommands === true);
}

/** The modules that have the command of this name; all, where none has it (the help, or a misspelt name). */
function modulesOf(modules: readonly CommandModule[], name: string | undefined): readonly CommandModule[] {
  const named = modules.filter(({ names }) => name !== undefined && names.split(" ").includes(name));
  return named.length > 0 ? named : modules;
}

/**
 * Adds all commands below `program` with their names and descriptions, and loads the one that the arguments name,
 * with those of its module.
 */
export async function addNamedCommands(
  program: Command,
  argv: readonly string[],
  buildProgram: BuildProgram,
): Promise<void> {
  if (argv[0] === "--version" || argv[0] === "-V") return;
  const [named, subname] = argv[0] === "help" ? argv.slice(1) : argv;
  for (const [name, known] of Object.entries(programCommands)) {
    const command = program.command(name).description(known.about);
    if (known.group !== undefined) command.helpGroup(known.group);
    if (name === named && known.define !== undefined)
      await (await known.define()).define(command, buildProgram);
    else if (name === named) await load(command, known, subname);
    else if (known.takes !== undefined) command.arguments(known.takes);
  }
}

async function load(command: Command, known: ProgramCommand, subname: string | undefined): Promise<void> {
  const { addPlainCommands } = await import("./plain-command.js");
  const whole = await known.load?.();
  if (whole?.help !== undefined) command.addHelpText("afterAll", whole.help);
  await addPlainCommands(command, whole?.commands ?? []);
  for (const module of modulesOf(known.modules ?? [], subname))
    await addPlainCommands(command, (await module.load()).commands);
}
