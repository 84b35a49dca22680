/**
 * Which module has which command. Only the modules of the command that is run are loaded: all of them take
 * several times as long as Node itself takes to start. The help of the program needs none of them.
 */
import type { Command } from "commander";

/** A command below `stemma`. Its module defines what it takes and does, or the commands below it. */
interface ProgramCommand {
  readonly name: string;
  readonly about: string;
  /** The arguments, as the help shows them. */
  readonly takes?: string;
  /** The modules of the commands below it, where these are in several. */
  readonly modules?: readonly CommandModule[];
  /** Where `modules` is absent: loads the module; returns the function that completes the command. */
  readonly load?: () => Promise<(command: Command) => void>;
  /** Whether the command only has others below it. */
  readonly isGroup: boolean;
}

interface CommandModule {
  /** The commands that the module adds. */
  readonly names: readonly string[];
  /** Loads the module; returns the function that adds its commands below `parent`. */
  readonly load: () => Promise<(parent: Command) => void>;
}

/** Commands below `stemma model`, in the order of the help. */
const modelModules: readonly CommandModule[] = [
  { names: ["list"], load: async () => (await import("./commands/model-list.js")).addModelListCommand },
  {
    names: ["show", "diff"],
    load: async () => (await import("./commands/model-show.js")).addModelShowCommands,
  },
  { names: ["log"], load: async () => (await import("./commands/model-log.js")).addModelLogCommand },
  {
    names: ["nearest"],
    load: async () => (await import("./commands/model-nearest.js")).addModelNearestCommand,
  },
  {
    names: ["descendants", "common", "owners", "successor"],
    load: async () => (await import("./commands/model-lineage.js")).addModelLineageCommands,
  },
  {
    names: ["transfer"],
    load: async () => (await import("./commands/model-transfer.js")).addModelTransferCommand,
  },
  {
    names: ["recover", "export"],
    load: async () => (await import("./commands/model-recover.js")).addModelRecoverCommands,
  },
  {
    names: ["pipeline"],
    load: async () => (await import("./commands/model-pipeline.js")).addModelPipelineCommand,
  },
  { names: ["story"], load: async () => (await import("./commands/model-story.js")).addModelStoryCommand },
  { names: ["verify"], load: async () => (await import("./commands/model-verify.js")).addModelVerifyCommand },
  { names: ["import"], load: async () => (await import("./commands/model-import.js")).addModelImportCommand },
  { names: ["train"], load: async () => (await import("./commands/model-train.js")).addModelTrainCommand },
  {
    names: ["tag", "rm", "redact"],
    load: async () => (await import("./commands/model-write.js")).addModelWriteCommands,
  },
  {
    names: ["hold", "unhold"],
    load: async () => (await import("./commands/model-hold.js")).addModelHoldCommands,
  },
  {
    names: ["eval"],
    load: async () => (await import("./commands/model-evaluate.js")).addModelEvaluateCommand,
  },
  { names: ["evals"], load: async () => (await import("./commands/model-evals.js")).addModelEvalsCommand },
  { names: ["keep"], load: async () => (await import("./commands/storage-drop.js")).addModelKeepCommand },
  { names: ["reduce"], load: async () => (await import("./commands/model-reduce.js")).addModelReduceCommand },
];

/** Commands below `stemma device`, in the order of the help. */
const deviceModules: readonly CommandModule[] = [
  {
    names: ["list", "show", "revoke", "assign", "train"],
    load: async () => (await import("./commands/device.js")).addDeviceCommands,
  },
  {
    names: ["enroll"],
    load: async () => (await import("./commands/device-enroll.js")).addEnrolCommand,
  },
  {
    names: ["sign", "renew"],
    load: async () => (await import("./commands/device-certificates.js")).addCertificateCommands,
  },
  {
    names: ["batch", "accept"],
    load: async () => (await import("./commands/device-batch.js")).addBatchCommands,
  },
  {
    names: ["events", "logs"],
    load: async () => (await import("./commands/device-look.js")).addLookCommands,
  },
  { names: ["set"], load: async () => (await import("./commands/device-settings.js")).addSetCommand },
  { names: ["label"], load: async () => (await import("./commands/device-label.js")).addLabelCommand },
  {
    names: ["quarantine", "rm"],
    load: async () => (await import("./commands/device-standing.js")).addStandingCommands,
  },
  { names: ["erase"], load: async () => (await import("./commands/device-erase.js")).addEraseCommand },
  {
    names: ["rollback"],
    load: async () => (await import("./commands/device-rollback.js")).addRollbackCommand,
  },
  {
    names: ["evaluate"],
    load: async () => (await import("./commands/device-evaluate.js")).addEvaluateCommand,
  },
];

/** Commands below `stemma storage`, in the order of the help. */
const storageModules: readonly CommandModule[] = [
  {
    names: ["stats", "check", "gc", "reindex", "backup", "restore"],
    load: async () => (await import("./commands/storage.js")).addStorageCommands,
  },
  {
    names: ["plan", "apply"],
    load: async () => (await import("./commands/storage-plan.js")).addStoragePlanCommands,
  },
  {
    names: ["tier"],
    load: async () => (await import("./commands/storage-tier.js")).addStorageTierCommands,
  },
  { names: ["drop"], load: async () => (await import("./commands/storage-drop.js")).addStorageDropCommand },
  {
    names: ["policy"],
    load: async () => (await import("./commands/storage-policy.js")).addStoragePolicyCommands,
  },
  {
    names: ["retention"],
    load: async () => (await import("./commands/storage-retention.js")).addStorageRetentionCommands,
  },
];

/** Commands below `stemma`, in the order of the help. */
const programCommands: readonly ProgramCommand[] = [
  {
    name: "demo",
    about:
      "see it work: a server and three vehicles that train, report, are killed, and are recovered exactly",

    load: async () => (await import("./commands/demo.js")).defineDemoCommand,
    isGroup: false,
  },
  {
    name: "server",
    about: "run the server with its MQTT broker and HTTP interface, until Ctrl-C",

    load: async () => (await import("./commands/server.js")).defineServerCommand,
    isGroup: false,
  },
  {
    name: "server-key",
    about: "replace the key that devices know this server by, and its certificate authority",

    load: async () => (await import("./commands/server-key.js")).addServerKeyCommands,
    isGroup: true,
  },
  {
    name: "agent",
    about: "run the agent on a device, send it samples, query it (see: stemma agent --help)",
    takes: "[arguments...]",
    load: async () => (await import("./commands/agent.js")).defineAgentCommand,
    isGroup: false,
  },
  {
    name: "device",
    about: "enrol devices and see what they run",

    modules: deviceModules,
    isGroup: true,
  },
  {
    name: "fleet",
    about: "all devices of a fleet and its rollouts: now, as a live screen, or simulated",

    load: async () => (await import("./commands/fleet.js")).addFleetCommands,
    isGroup: true,
  },
  {
    name: "rollout",
    about: "give a version to many devices in waves, and take it back",

    load: async () => (await import("./commands/rollout.js")).addRolloutCommands,
    isGroup: true,
  },
  {
    name: "release",
    about: "sign versions offline, so that devices run nothing that the fleet's owner did not sign",

    load: async () => (await import("./commands/release.js")).addReleaseCommands,
    isGroup: true,
  },
  {
    name: "model",
    about: "save, look at, compare and recover models",

    modules: modelModules,
    isGroup: true,
  },
  {
    name: "nas",
    about: "search for architectures whose candidates inherit layers from each other",

    load: async () => (await import("./commands/nas.js")).addNasCommands,
    isGroup: true,
  },
  {
    name: "data",
    about: "name the data that recipes train on",

    load: async () => (await import("./commands/data.js")).addDataCommands,
    isGroup: true,
  },
  {
    name: "recipe",
    about: "training procedures that devices and this machine can run",

    load: async () => (await import("./commands/recipe.js")).addRecipeCommands,
    isGroup: true,
  },
  {
    name: "replay",
    about: "train versions once more from their provenance, and the engines that do it",

    load: async () => (await import("./commands/replay.js")).addReplayCommands,
    isGroup: true,
  },
  {
    name: "journal",
    about: "the record of everything that happened in a fleet: read it, mend it where it is damaged",

    load: async () => (await import("./commands/journal.js")).addJournalCommands,
    isGroup: true,
  },
  {
    name: "trace",
    about: "follow one report, order, rollout or request through journal and logs",
    takes: "<id>",

    load: async () => (await import("./commands/trace.js")).defineTraceCommand,
    isGroup: false,
  },
  {
    name: "storage",
    about: "what is stored, whether it is intact, and how to free or save space",

    modules: storageModules,
    isGroup: true,
  },
  {
    name: "token",
    about: "tokens of the HTTP port, each with a name and a role",

    load: async () => (await import("./commands/token.js")).addTokenCommands,
    isGroup: true,
  },
  {
    name: "authority",
    about: "certificate authorities of your own, whose certificates name devices of the fleet",

    load: async () => (await import("./commands/authority.js")).addAuthorityCommands,
    isGroup: true,
  },
  {
    name: "webhook",
    about: "send the facts of a fleet to an address, signed, in order and at least once",

    load: async () => (await import("./commands/webhook.js")).addWebhookCommands,
    isGroup: true,
  },
  {
    name: "bench",
    about: "measure this machine: ratios against a floor taken in the same run (times alone mean little)",
    takes: "[name] [arguments...]",
    load: async () => (await import("./commands/bench.js")).defineBenchCommand,
    isGroup: false,
  },
  {
    name: "doctor",
    about:
      "check this machine and this home: Node, disk, fsync, SIMD, engine, ports, journal; show what to do",

    load: async () => (await import("./commands/doctor.js")).defineDoctorCommand,
    isGroup: false,
  },
  {
    name: "context",
    about: "servers by name, for work from another machine",

    load: async () => (await import("./commands/context.js")).addContextCommands,
    isGroup: true,
  },
  {
    name: "console",
    about: "a prompt for these commands, with completion and history; or commands from standard input",

    load: async () => (await import("./commands/console.js")).defineConsoleCommand,
    isGroup: false,
  },
  {
    name: "completion",
    about: "scripts by which bash, zsh and fish complete commands and options",

    load: async () => (await import("./commands/completion.js")).addCompletionCommands,
    isGroup: true,
  },
];

/** Whether a command below `stemma` only has others below it. Pure. */
export function isGroup(command: Command): boolean {
  return programCommands.some(({ name, isGroup }) => isGroup && name === command.name());
}

/** The modules that have the command of this name; all, where none has it (the help, or a misspelt name). */
function modulesOf(modules: readonly CommandModule[], name: string | undefined): readonly CommandModule[] {
  const named = modules.filter(({ names }) => name !== undefined && names.includes(name));
  return named.length > 0 ? named : modules;
}

/**
 * Adds all commands below `program` with their names and descriptions, and loads the one that the arguments name,
 * with those of its module.
 */
export async function addNamedCommands(program: Command, argv: readonly string[]): Promise<void> {
  if (argv[0] === "--version" || argv[0] === "-V") return;
  const [named, subname] = argv[0] === "help" ? argv.slice(1) : argv;
  for (const { name, about, takes, modules, load } of programCommands) {
    const command = program.command(name).description(about);
    if (name !== named) {
      if (takes !== undefined) command.arguments(takes);
      continue;
    }
    (await load?.())?.(command);
    for (const module of modulesOf(modules ?? [], subname)) (await module.load())(command);
  }
}
