/**
 * Which module has which command. Only the modules of the command that is run are loaded: all of them take
 * several times as long as Node itself takes to start.
 */
import type { Command } from "commander";

interface CommandModule {
  /** The commands that the module adds. */
  readonly names: readonly string[];
  /** Loads the module; returns the function that adds its commands below `parent`. */
  readonly load: () => Promise<(parent: Command) => void>;
}

/** Commands below `stemma`, in the order of the help. */
const programModules: readonly CommandModule[] = [
  { names: ["demo"], load: async () => (await import("./commands/demo.js")).addDemoCommand },
  { names: ["server"], load: async () => (await import("./commands/server.js")).addServerCommand },
  { names: ["agent"], load: async () => (await import("./commands/agent.js")).addAgentCommands },
  { names: ["device"], load: async () => (await import("./commands/device.js")).addDeviceCommands },
  { names: ["model"], load: () => Promise.resolve(addModelCommand) },
  { names: ["data"], load: async () => (await import("./commands/data.js")).addDataCommands },
  { names: ["recipe"], load: async () => (await import("./commands/recipe.js")).addRecipeCommands },
  { names: ["replay"], load: async () => (await import("./commands/replay.js")).addReplayCommands },
  { names: ["journal"], load: async () => (await import("./commands/journal.js")).addJournalCommands },
  { names: ["storage"], load: async () => (await import("./commands/storage.js")).addStorageCommands },
  { names: ["token"], load: async () => (await import("./commands/token.js")).addTokenCommands },
  { names: ["bench"], load: async () => (await import("./commands/bench.js")).addBenchCommand },
  { names: ["doctor"], load: async () => (await import("./commands/doctor.js")).addDoctorCommand },
];

/** Commands below `stemma model`, in the order of the help. */
const modelModules: readonly CommandModule[] = [
  { names: ["list"], load: async () => (await import("./commands/model-list.js")).addModelListCommand },
  {
    names: ["show", "log", "diff"],
    load: async () => (await import("./commands/model-show.js")).addModelShowCommands,
  },
  {
    names: ["recover", "export"],
    load: async () => (await import("./commands/model-recover.js")).addModelRecoverCommands,
  },
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
  { names: ["reduce"], load: async () => (await import("./commands/model-reduce.js")).addModelReduceCommand },
];

/** The modules that have the command of this name; all, where none has it (the help, or a misspelt name). */
function modulesOf(modules: readonly CommandModule[], name: string | undefined): readonly CommandModule[] {
  const named = modules.filter(({ names }) => name !== undefined && names.includes(name));
  return named.length > 0 ? named : modules;
}

/** Adds the command that the arguments name, with those of its module; all commands where they name none. */
export async function addNamedCommands(program: Command, argv: readonly string[]): Promise<void> {
  if (argv[0] === "--version" || argv[0] === "-V") return;
  const [name, subname] = argv[0] === "help" ? argv.slice(1) : argv;
  const modelName = name === "model" ? subname : undefined;
  for (const { names, load } of modulesOf(programModules, name)) {
    (await load())(program);
    const model = program.commands.find((command) => command.name() === "model");
    if (!names.includes("model") || model === undefined) continue;
    for (const module of modulesOf(modelModules, modelName)) (await module.load())(model);
  }
}

function addModelCommand(program: Command): void {
  program.command("model").description("save, look at, compare and recover models");
}
