/** `stemma agent backend`: links a TensorFlow of the device as a backend for trainings, checks and removes it. */
import { resolve } from "node:path";
import type { Command } from "commander";
import { programVersion } from "../../../shared/adapters/program-version.js";
import { Output } from "../../../shared/cli/output.js";
import { StemmaError } from "../../../shared/errors.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { checkBackend, linkBackend, unlinkBackend, type BackendPorts } from "../../backend/link-backend.js";
import { describeLink, type Link } from "../../backend/link-file.js";
import { commonOptionsOf } from "../common-options.js";

const memoryOption = ["--memory-limit <mib>", "memory that the probe may take, in MiB", "4096"] as const;

export function addBackend(program: Command): void {
  const backend = program
    .command("backend")
    .description("train on a TensorFlow that the device has (for its GPU), where the profile names native");
  backend
    .command("link")
    .description("check, probe and link the libraries of an installed TensorFlow; downloads nothing")
    .requiredOption("--libtensorflow <dir>", "folder of the TensorFlow: of a Python wheel, or JetPack's")
    .option("--binding <file>", "a binding made on another machine; default: one is compiled (CXX, else c++)")
    .option("--threads <n>", "largest number of threads on the CPU; bits depend on it", "4")
    .option(...memoryOption)
    .action(link);
  backend
    .command("check")
    .description("check that what is linked is unchanged and gives the same bits")
    .option(...memoryOption)
    .action(check);
  backend.command("unlink").description("remove what is linked; trainings use wasm").action(unlink);
}

interface MemoryChoice {
  readonly memoryLimit: string;
}

interface LinkChoices extends MemoryChoice {
  readonly libtensorflow: string;
  readonly binding?: string;
  readonly threads: string;
}

async function link(choices: LinkChoices, command: Command): Promise<void> {
  const ports = portsOf(choices, command);
  const linked = await linkBackend(ports, {
    libtensorflow: resolve(choices.libtensorflow),
    ...(choices.binding === undefined ? {} : { binding: resolve(choices.binding) }),
    compiler: process.env["CXX"] ?? "c++",
    threads: wholeNumber("--threads", choices.threads, 1),
    stemma: programVersion(),
    nowMs: Date.now(),
  });
  const slow =
    linked.class.gpu === undefined
      ? "\nOn a CPU it trains slower than wasm and takes more memory; its use is a GPU."
      : "";
  print(command, linked, `linked: ${describeLink(linked)}${slow}`);
}

async function check(choices: MemoryChoice, command: Command): Promise<void> {
  const linked = await checkBackend(portsOf(choices, command));
  print(command, linked, `unchanged: ${describeLink(linked)}`);
}

async function unlink(_: unknown, command: Command): Promise<void> {
  const { home, output } = commonOptionsOf(command);
  const wasLinked = await unlinkBackend({ files: nodeFiles(), home });
  new Output(output).print({
    data: { unlinked: wasLinked },
    text: wasLinked ? "unlinked; trainings use wasm" : "nothing was linked",
  });
}

function print(command: Command, linked: Link, summary: string): void {
  const { runner, class: exactness, probe } = linked;
  const { worst, compared, peakBytes, notes } = probe;
  const { output } = commonOptionsOf(command);
  new Output(output).print({
    data: linked,
    names: [runner],
    text: [
      summary,
      `class ${runner.slice(0, 12)}: library ${exactness.library.slice(0, 12)}, ${exactness.arch}, ${exactness.threads} threads, oneDNN ${exactness.oneDnn}, reference training ${exactness.referenceTraining.slice(0, 22)}`,
      ...(exactness.gpu === undefined
        ? []
        : [`GPU ${exactness.gpu}, driver ${exactness.driver}, ${exactness.cuda}, ${exactness.cudnn}`]),
      ...(exactness.gpu === undefined && notes.length > 0
        ? [
            `It has GPU support and uses none: ${notes.join("; ")}. Look whether nvidia-smi shows the GPU, and link again.`,
          ]
        : []),
      `${compared} operations and gradients compared with TensorFlow.js; the largest difference is ${worst.error.toExponential(1)} (${worst.operation}); ${Math.round(peakBytes / 2 ** 20)} MiB at most`,
    ].join("\n"),
  });
}

function portsOf({ memoryLimit }: MemoryChoice, command: Command): BackendPorts {
  return {
    files: nodeFiles(),
    home: commonOptionsOf(command).home,
    memoryLimitMb: wholeNumber("--memory-limit", memoryLimit, 64),
    onStep: (text) => {
      process.stderr.write(`${text}\n`);
    },
  };
}

function wholeNumber(option: string, text: string, min: number): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= min) return value;
  throw new StemmaError("USAGE", `${option} ${text} is not a whole number from ${min} on.`);
}
