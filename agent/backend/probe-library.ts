/**
 * Runs the probe of a linked library in a process of its own with a memory limit, and turns each way in which it can
 * end into an error that says what to do.
 */
import { spawn } from "node:child_process";
import { join } from "node:path";
import type { StemmaError } from "../../shared/errors.js";
import { limitedPart } from "../../shared/train/limited-part.js";
import type { ProbeReport } from "../../shared/train/native/probe.js";
import { backendUnavailable } from "./backend-errors.js";

/** The end of a probe's process. */
export interface ProbeEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly memoryLimitMb: number;
  /** True if it was ended because it took too long: with far too little memory a process may wait for ever. */
  readonly isTimedOut: boolean;
}

const probeTimeoutMs = 300_000;
const maxCharacters = 256 * 1024;

/** A report, and what the library said of GPUs meanwhile. */
export interface Probed extends ProbeReport {
  readonly notes: readonly string[];
}

/** @throws BACKEND_UNAVAILABLE saying what to do */
export async function probeLibrary(folder: string, memoryLimitMb: number): Promise<Probed> {
  const { program, args, environment } = limitedPart(
    { script: join(folder, "engine.mjs"), args: ["--probe"] },
    memoryLimitMb,
  );
  const child = spawn(program, [...args], {
    cwd: folder,
    env: { ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let isTimedOut = false;
  const timer = setTimeout(() => {
    isTimedOut = true;
    child.kill("SIGKILL");
  }, probeTimeoutMs);
  const end = await new Promise<ProbeEnd>((resolve, reject) => {
    const texts = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const)
      child[name].setEncoding("utf8").on("data", (part: string) => {
        texts[name] = (texts[name] + part).slice(-maxCharacters);
      });
    child.once("error", reject).once("close", (code, signal) => {
      resolve({ code, signal, ...texts, memoryLimitMb, isTimedOut });
    });
  }).finally(() => {
    clearTimeout(timer);
  });
  return reportOf(end);
}

/** Pure. @throws BACKEND_UNAVAILABLE */
export function reportOf(end: ProbeEnd): Probed {
  for (const line of end.stdout.split("\n")) {
    const message = parsed(line);
    if (message?.type === "probe" && end.code === 0 && message.report !== undefined)
      return { ...message.report, notes: notesOf(end.stderr) };
    if (message?.type === "error") throw explained(end, String(message.message));
  }
  throw explained(end, end.stderr);
}

const maxNotes = 3;

/** The first lines about GPUs, without the time and place that TensorFlow puts before them. */
function notesOf(stderr: string): string[] {
  const lines = stderr.split("\n").filter((line) => /cuda|cudnn|nvidia|\bgpu/i.test(line));
  return lines.slice(0, maxNotes).map((line) => line.replace(/^.*?\.cc:\d+\]\s*/, "").slice(0, 300));
}

interface ProbeMessage {
  readonly type?: unknown;
  readonly report?: ProbeReport;
  readonly message?: unknown;
}

function parsed(line: string): ProbeMessage | undefined {
  try {
    return JSON.parse(line) as ProbeMessage;
  } catch {
    return undefined;
  }
}

/** Library, or version of one, that the loader did not find, and where it comes from. */
const origins: readonly (readonly [RegExp, string])[] = [
  [
    /^libcuda\.so/,
    "It comes with NVIDIA's driver: install the driver, and look whether nvidia-smi shows the GPU",
  ],
  [
    /^lib(cu|nv|nccl)/,
    "It comes with CUDA or cuDNN: install those that this TensorFlow was built for (pip's tensorflow[and-cuda], or JetPack)",
  ],
];

function explained({ signal, code, memoryLimitMb, isTimedOut }: ProbeEnd, text: string): StemmaError {
  const details = { signal, code };
  const refuse = (problem: string): StemmaError =>
    backendUnavailable(`The library cannot be used here: ${problem}.`, details);
  const missing = /(\S+\.so[.\d]*): cannot open shared object file/.exec(text)?.[1];
  if (missing !== undefined) {
    const origin = origins.find(([name]) => name.test(missing))?.[1];
    return refuse(`${missing} is missing. ${origin ?? "Install the package that has it"}, and link again`);
  }
  const version = /version [`']((?:GLIBC|GLIBCXX|CXXABI)_[\d.]+)' not found/.exec(text)?.[1];
  if (version !== undefined)
    return refuse(
      `it needs ${version}, which this system's C library or C++ library is too old for. Take an older release of TensorFlow, or a newer system`,
    );
  const symbol = /undefined symbol: (\w+)/.exec(text)?.[1];
  if (symbol !== undefined)
    return refuse(
      `library and binding do not fit (${symbol} is missing). Link without --binding, so that one is compiled for it`,
    );
  if (isTimedOut)
    return refuse(
      `the probe did not end within ${probeTimeoutMs / 60_000} minutes. Raise --memory-limit (${memoryLimitMb} MiB), and look whether the GPU answers (nvidia-smi)`,
    );
  // V8 ends a process without memory by an illegal instruction, too, or aborts without a word.
  const memory =
    /bad_alloc|out of memory|\bOOM\b|ENOMEM|Cannot allocate memory|failed to map segment|could not create a primitive|no memory|memory limit/i;
  const isWordless = signal === "SIGABRT" && text.trim() === "";
  if (signal === "SIGKILL" || isWordless || memory.test(text))
    return refuse(
      `the probe had too little memory (limit ${memoryLimitMb} MiB, --memory-limit; or the machine's own). Raise the limit, and training.memoryLimitMb of the profile, or free memory`,
    );
  if (signal === "SIGILL")
    return refuse(
      "it uses instructions that this processor lacks (TensorFlow's wheels need AVX on x64). Take a TensorFlow that was built for this processor, or train on wasm",
    );
  if (/CUDA|cuDNN|cuBLAS|DNN library/i.test(text))
    return refuse(
      `the GPU could not compute: ${tail(text)}. Look whether nvidia-smi shows it, and whether driver, CUDA and cuDNN are those that this TensorFlow was built for`,
    );
  return refuse(
    `the probe ended ${signal === null ? `with status ${code}` : `by ${signal}`}: ${tail(text) || "without a word"}. Take another release of TensorFlow, or train on wasm`,
  );
}

const tail = (text: string): string => text.trim().replaceAll(/\s+/g, " ").slice(-400);
