/** `stemma agent …`: the agent's own program, so that a device loads nothing of the server. */
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { Command, CommanderError } from "commander";
import { exitWithParent } from "../../shared/cli/exit-with-parent.js";
import { collect, parseAssignments, reportError } from "../../shared/cli/command-line.js";
import { formatBytes, Output, outputForms, type OutputForm } from "../../shared/cli/output.js";
import { exitStatus, StemmaError } from "../../shared/errors.js";
import { nodeFiles } from "../../shared/files/node-files.js";
import { readRunFile } from "../agent-home.js";
import { askAgent } from "../control/json-line-client.js";
import { runAgent } from "../main.js";
import type { AgentStatus, VersionStatus } from "../status.js";
import type { Trained } from "../trainer/trainer.js";

interface Common {
  readonly home: string;
  readonly output: OutputForm;
  readonly verbose: boolean;
}

const trainingTimeoutMs = 24 * 3600_000;

function commonOf(command: Command): Common {
  const options = command.optsWithGlobals<{ home?: string; output?: string; verbose?: boolean }>();
  const output = options.output ?? "table";
  if (!(outputForms as readonly string[]).includes(output))
    throw new StemmaError("USAGE", `-o ${output} is no output form. Use one of ${outputForms.join(", ")}.`);
  return {
    home: resolve(options.home ?? process.env["STEMMA_AGENT_HOME"] ?? join(homedir(), ".stemma-agent")),
    output: output as OutputForm,
    verbose: options.verbose ?? false,
  };
}

async function ask(
  home: string,
  door: "control" | "samples",
  request: { readonly do: string; readonly [field: string]: unknown },
  timeoutMs?: number,
): Promise<unknown> {
  const run = await readRunFile(nodeFiles(), home);
  return await askAgent(run[door], request, timeoutMs);
}

function buildProgram(onStatus: (status: number) => void): Command {
  const program = new Command("stemma agent").description(
    "the agent on a device: fine-tunes its models on what it sees, reports them, takes models from its server",
  );
  program
    .exitOverride()
    .configureHelp({ showGlobalOptions: true, sortSubcommands: false })
    .showHelpAfterError("(add --help to see how the command is used)");
  program.addHelpText(
    "after",
    "\nThe device's software hands samples in at <home>/run/samples.sock or as files in <home>/inbox/<line>/,\nand reads the model to use below <home>/current/<line> (see agent/current/read-current.ts).\n",
  );
  addRun(program, onStatus);
  addStatus(program);
  addTrain(program);
  addSamples(program);
  addActivate(program);
  for (const command of program.commands) {
    command
      .option("--home <dir>", "the agent's own folder (or STEMMA_AGENT_HOME; default ~/.stemma-agent)")
      .option("-o, --output <form>", `form of the answer: ${outputForms.join(", ")}`, "table")
      .option("--verbose", "say more on stderr", false);
    command.exitOverride();
  }
  return program;
}

function addRun(program: Command, onStatus: (status: number) => void): void {
  program
    .command("run")
    .description(
      "run the agent until it is stopped (Ctrl-C); it needs an enrolment made by `stemma device enroll`, and no connection",
    )
    .option("--enrolment <file>", "the enrolment file (default <home>/enrolment.json)")
    .option("--config <file>", "settings: lines, recipes, schedules (default <home>/agent.json)")
    .option(
      "--profile <name>",
      "device class: a name of firmware-profiles/, or a path (default: the settings', else the enrolment's)",
    )
    .option("--log <form>", "plain or json", "plain")
    .action(
      async (
        choices: { enrolment?: string; config?: string; profile?: string; log: string },
        command: Command,
      ) => {
        const { home, verbose } = commonOf(command);
        if (choices.log !== "plain" && choices.log !== "json")
          throw new StemmaError("USAGE", `--log ${choices.log} is neither plain nor json.`);
        exitWithParent();
        onStatus(
          await runAgent({
            home,
            verbose,
            logForm: choices.log,
            enrolment: choices.enrolment,
            config: choices.config === undefined ? undefined : resolve(choices.config),
            profile: choices.profile,
          }),
        );
      },
    );
}

function addStatus(program: Command): void {
  program
    .command("status")
    .description("what a running agent has, does and still has to report")
    .action(async (_: unknown, command: Command) => {
      const { home, output } = commonOf(command);
      const status = (await ask(home, "control", { do: "status" })) as AgentStatus;
      const rows = status.lines.flatMap(({ line, versions }) =>
        versions.map((version) => ({ line, ...version })),
      );
      new Output(output).print<{ readonly line: string } & VersionStatus>({
        data: status,
        names: rows.map((row) => row.versionId),
        text: [
          `${status.fleet}/${status.device}: ${status.link.phase === "open" ? `session ${status.link.session}` : `offline (${status.link.lastError || status.link.phase})`}, profile ${status.profile}, ${status.backend}`,
          `${status.unreleased} models to report, ${formatBytes(status.disk.usedBytes)} of ${formatBytes(status.disk.budgetBytes)} used${status.training === null ? "" : `, ${status.training.line} trains (${status.training.progress?.phase ?? "starting"})`}`,
          ...status.lines.map(
            ({ line, samples }) =>
              `${line}: ${samples === null ? "no samples" : `${samples.samples} samples, ${samples.heldOut} held out`}`,
          ),
        ].join("\n"),
        table: {
          rows,
          empty: "no models on this device yet",
          columns: [
            { title: "LINE", value: (row) => row.line },
            { title: "MODEL", value: (row) => row.name },
            { title: "VERSION", value: (row) => row.versionId.slice(0, 12) },
            {
              title: "STATE",
              value: (row) =>
                (row.origin === "adopted" ? "from server" : row.standing) +
                (row.refusal === undefined ? "" : " (refused)"),
            },
            { title: "RUNS", value: (row) => (row.active ? "yes" : "") },
            {
              title: "METRIC",
              value: (row) =>
                row.metric === null
                  ? ""
                  : `${row.metric.before.toFixed(2)} → ${row.metric.after.toFixed(2)} ${row.metric.unit}`,
            },
          ],
        },
      });
    });
}

function addTrain(program: Command): void {
  program
    .command("train")
    .argument("<line>")
    .description("fine-tune a line now, also outside its duty hours")
    .option("--recipe <name>", "another recipe than the one set for the line")
    .option("--set <key=value>", "a parameter of the recipe (repeatable)", collect, [])
    .option("--no-wait", "return when it is asked for, not when it is done")
    .action(
      async (line: string, choices: { recipe?: string; set: string[]; wait: boolean }, command: Command) => {
        const { home, output } = commonOf(command);
        const answer = await ask(
          home,
          "control",
          {
            do: "train",
            line,
            recipe: choices.recipe,
            parameters: parseAssignments(choices.set),
            wait: choices.wait,
          },
          trainingTimeoutMs,
        );
        const trained = answer as Partial<Trained>;
        new Output(output).print({
          data: answer,
          names: trained.versionId === undefined ? [] : [trained.versionId],
          text:
            trained.metric === undefined
              ? `${line} trains as soon as it can`
              : `${line}: model ${trained.sequence} (${trained.versionId?.slice(0, 12)}), ${trained.metric.name} ${trained.metric.before.toFixed(2)} → ${trained.metric.after.toFixed(2)} ${trained.metric.unit}`,
        });
      },
    );
}

function addSamples(program: Command): void {
  program
    .command("samples")
    .argument("<line>")
    .argument("[file]", "one JSON object a line; standard input when absent")
    .description(
      'hand samples in: {"label": 1, "shape": [28, 28, 1], "values": numbers or base64 of float32}; answered when they are on the disk',
    )
    .action(async (line: string, file: string | undefined, _: unknown, command: Command) => {
      const { home, output } = commonOf(command);
      const text =
        file === undefined
          ? await readStandardInput()
          : await readFile(file, "utf8").catch((cause: unknown) => {
              throw new StemmaError(
                "FILE_MISSING",
                `The file ${file} cannot be read: ${(cause as Error).message}. Check its path.`,
                { cause },
              );
            });
      const samples = text
        .split("\n")
        .filter((each) => each.trim() !== "")
        .map((each, at) => {
          try {
            return JSON.parse(each) as unknown;
          } catch (cause) {
            throw new StemmaError(
              "SAMPLE_INVALID",
              `Line ${at + 1} is not JSON: ${(cause as Error).message}. Nothing was handed in.`,
              { cause },
            );
          }
        });
      const answer = (await ask(home, "samples", { do: "samples", line, samples })) as {
        accepted: number;
        alreadyThere: number;
      };
      new Output(output).print({
        data: answer,
        text: `${answer.accepted} samples taken in for ${line}${answer.alreadyThere > 0 ? `, ${answer.alreadyThere} were there already` : ""}`,
      });
    });
}

function addActivate(program: Command): void {
  program
    .command("activate")
    .argument("<line>")
    .argument("<version>", "a version id of `stemma agent status -o json`, or its first digits")
    .description("run another version that is on this device")
    .action(async (line: string, version: string, _: unknown, command: Command) => {
      const { home, output } = commonOf(command);
      const status = (await ask(home, "control", { do: "status" })) as AgentStatus;
      const found = status.lines
        .filter((each) => each.line === line)
        .flatMap(({ versions }) => versions)
        .filter(({ versionId }) => version.length >= 8 && versionId.startsWith(version));
      const [only] = found;
      if (only === undefined || found.length > 1)
        throw new StemmaError(
          only === undefined ? "MODEL_NOT_FOUND" : "MODEL_AMBIGUOUS",
          `${found.length} versions of ${line} on this device begin with "${version}" (8 digits or more). See \`stemma agent status\`.`,
        );
      const answer = await ask(home, "control", { do: "activate", line, versionId: only.versionId }, 600_000);
      new Output(output).print({
        data: answer,
        names: [only.versionId],
        text: `${line} now runs ${only.name} (${only.versionId.slice(0, 12)})`,
      });
    });
}

async function readStandardInput(): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of process.stdin) parts.push(part as Buffer);
  return Buffer.concat(parts).toString("utf8");
}

export async function runAgentProgram(argv: readonly string[]): Promise<number> {
  let status: number = exitStatus.done;
  try {
    await buildProgram((ended) => {
      status = ended;
    }).parseAsync([...argv], { from: "user" });
    return status;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitStatus.done : exitStatus.usage;
    const form = argv.includes("json") ? "json" : undefined;
    return reportError(error, form, argv.includes("--verbose"));
  }
}

process.exitCode = await runAgentProgram(process.argv.slice(2));
// The broker's client and the training's child are closed by now; a timer of a library must not keep the
// program.
process.exit();
