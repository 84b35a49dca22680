/** `stemma.device` as the contract suite runs it: python/tests/contract_device.py, asked by lines of JSON. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { isErrorCode, StemmaError } from "../../../../shared/errors.js";
import { runProgram } from "../../../integration/suites/outside-suite.js";
import type { DeviceKind } from "./device-port.js";

const installed = process.env["STEMMA_TEST_PYTHON"];
const python = installed ?? "python3";
const folder = resolve(fileURLToPath(import.meta.url), "../../../../../../python");
const wanted = ["numpy", "safetensors", "paho.mqtt", "cryptography"];

/** Words that say why the device cannot be run here; false where it can. */
export async function missingForPython(): Promise<string | false> {
  const found = await runProgram(python, ["-c", `import ${wanted.join(", ")}`]);
  return found.status === 0 ? false : `needs ${python} with ${wanted.join(", ")}`;
}

interface Answer {
  readonly result?: unknown;
  readonly code?: string;
  readonly message?: string;
}

interface Program {
  readonly ask: (request: Readonly<Record<string, unknown>>) => Promise<unknown>;
  readonly end: (signal: NodeJS.Signals) => Promise<void>;
}

function run(home: string): Program {
  const child = spawn(python, [join(folder, "tests", "contract_device.py"), home], {
    env: {
      ...process.env,
      PYTHONDONTWRITEBYTECODE: "1",
      ...(installed === undefined ? { PYTHONPATH: join(folder, "src") } : {}),
    },
  });
  let errors = "";
  child.stderr.on("data", (part: Buffer) => {
    errors += part.toString();
  });
  const waiting: ((answer: Answer) => void)[] = [];
  const ended = once(child, "close").then(() => {
    for (const answer of waiting.splice(0)) answer({ code: "INTERNAL", message: `it ended: ${errors}` });
  });
  createInterface({ input: child.stdout }).on("line", (line) => {
    waiting.shift()?.(JSON.parse(line) as Answer);
  });
  return {
    async ask(request) {
      const answer = await new Promise<Answer>((answered) => {
        waiting.push(answered);
        child.stdin.write(`${JSON.stringify(request)}\n`);
      });
      const { code, message = "" } = answer;
      if (code === undefined) return answer.result;
      throw new StemmaError(isErrorCode(code) ? code : "INTERNAL", `${message} [${code}]`);
    },
    async end(signal) {
      child.kill(signal);
      await ended;
    },
  };
}

export const pythonDevice: DeviceKind = {
  async enrol(home, invitation, owned) {
    const program = run(home);
    try {
      const certificate = owned && [owned.file, owned.key];
      await program.ask({ do: "enrol", invitation, certificate });
    } finally {
      await program.end("SIGTERM");
    }
  },

  async replaceCertificate(home, { issue, issuedAtMs, hasHttps }) {
    const path = join(home, "enrolment.json");
    const {
      http,
      connectionKey,
      notAfterMs: _,
      ...rest
    } = JSON.parse(await readFile(path, "utf8")) as {
      readonly [name: string]: unknown;
      readonly connectionKey: string;
    };
    const changed = { ...rest, connectionKey, certificate: await issue(connectionKey), issuedAtMs };
    await writeFile(path, JSON.stringify(hasHttps ? { ...changed, http } : changed));
  },

  async start(home) {
    const { ask, end } = run(home);
    await ask({ do: "start" });
    return {
      save: async (line, file) => (await ask({ do: "save", line, file })) as string,
      standing: async (versionId) =>
        ((await ask({ do: "standing", versionId })) as string | null) ?? undefined,
      versions: async (line) => (await ask({ do: "versions", line })) as readonly string[],
      problems: async () => (await ask({ do: "problems" })) as readonly string[],
      stop: () => end("SIGTERM"),
      kill: () => end("SIGKILL"),
    };
  },
};
