/** Reads what a native training depends on from the machine: instructions, GPU, driver, CUDA, cuDNN. */
import type { Files } from "../../shared/ports.js";

/** The instructions by which TensorFlow and oneDNN choose their code, on x64 and arm64. */
const deciding = /^(sse4_[12]|avx\w*|fma|f16c|amx_\w+|asimd\w*|neon|fphp|sve\w*|bf16|i8mm|sme\d*)$/;

/** The deciding instructions of /proc/cpuinfo's first processor, sorted. Pure. */
export function instructionSetOf(cpuinfo: string): string {
  const line = /^(?:flags|Features)\s*:\s*(.*)$/m.exec(cpuinfo)?.[1] ?? "";
  const names = line.split(/\s+/).filter((name) => deciding.test(name));
  return [...new Set(names)].sort().join(" ").slice(0, 1000) || "unknown";
}

export async function instructionSet(files: Files): Promise<string> {
  return instructionSetOf(await textOf(files, "/proc/cpuinfo"));
}

export interface GpuFacts {
  readonly gpu: string;
  readonly driver: string;
  readonly cuda: string;
  readonly cudnn: string;
}

/** @param loadOrder the libraries that the probe's process loaded */
export async function gpuFacts(files: Files, loadOrder: readonly string[]): Promise<GpuFacts> {
  const cards = await Promise.all(
    (await files.list("/proc/driver/nvidia/gpus")).map((name) =>
      textOf(files, `/proc/driver/nvidia/gpus/${name}/information`),
    ),
  );
  const models = cards.flatMap((text) => /^Model:\s*(.+)$/m.exec(text)?.[1]?.trim() ?? []);
  const board = (await textOf(files, "/proc/device-tree/model")).replaceAll("\0", "").trim();
  const driver = /Kernel Module(?: for \S+)?\s+(\S+)/.exec(
    await textOf(files, "/proc/driver/nvidia/version"),
  );
  const library = (name: string): string =>
    loadOrder.filter((each) => each.startsWith(name)).join(" ") || "unknown";
  return {
    gpu: (models.join(", ") || board || "unknown").slice(0, 200),
    driver: driver?.[1] ?? "unknown",
    cuda: library("libcudart.so"),
    cudnn: library("libcudnn.so"),
  };
}

/** A file of /proc, whose size is not known before it is read; empty where there is none. */
async function textOf(files: Files, path: string): Promise<string> {
  try {
    return new TextDecoder().decode(await files.read(path));
  } catch {
    return "";
  }
}
