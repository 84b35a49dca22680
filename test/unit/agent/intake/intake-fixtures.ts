/** What the tests of the intake share: samples of two numbers, and an intake of the line "cam" on given files. */
import { Intake } from "../../../../agent/intake/intake.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import type { Files } from "../../../../shared/ports.js";
import type { SampleForm } from "../../../../shared/train/datasets/sample-form.js";
import { testProfile } from "../../../helpers/agent-fixtures.js";
import { manualClock } from "../../../helpers/manual-clock.js";

export const folder = "/home/samples/cam";
export const clock = manualClock();
export const sample = (at: number, more: Record<string, unknown> = {}): Record<string, unknown> => ({
  label: at % 2,
  values: [at, at + 0.5],
  ...more,
});
export const many = (count: number, from = 0): unknown[] =>
  Array.from({ length: count }, (_, at) => sample(from + at));
export const coded =
  (code: ErrorCode) =>
  (error: unknown): boolean =>
    isStemmaError(error, code);

export function openIntake(
  files: Files,
  limits: Record<string, unknown> = {},
  {
    pins = [],
    form = {},
  }: { readonly pins?: readonly { from: number; to: number }[]; readonly form?: SampleForm } = {},
): Promise<Intake> {
  const changes = Object.fromEntries(
    Object.entries(limits).map(([name, value]) => [`samples.${name}`, value]),
  );
  return Intake.open({
    files,
    folder,
    line: "cam",
    limits: testProfile(changes).samples,
    clock,
    log: silentLog(),
    pins: () => pins,
    neededForm: () => Promise.resolve(form),
  });
}
