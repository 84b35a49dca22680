/**
 * The commands that a device runs when a line switches to another model. They are written in agent.json alone, and
 * nothing of the server reaches their command lines. (docs/hooks.md)
 */
import * as z from "zod";
import { execSchema } from "../../shared/programs/command-settings.js";

const hooks = z
  .array(
    z.strictObject({
      exec: execSchema,
      /** Seconds after which it is ended, and has failed. */
      timeoutSeconds: z.number().int().min(1).max(3600).default(60),
    }),
  )
  .max(8)
  .default([]);

export const hooksSchema = z
  .strictObject({
    /** Run in order, with the model installed and the line on what it ran. */
    beforeSwitch: hooks,
    /** Run in order after the line has switched. */
    afterSwitch: hooks,
  })
  .default({ beforeSwitch: [], afterSwitch: [] });

type Hooks = z.infer<typeof hooksSchema>;
export type HookMoment = keyof Hooks;
export type Hook = Hooks[HookMoment][number];

/** Each with its place in the settings. */
export function hooksOf(hooks: Hooks): readonly { readonly name: string; readonly hook: Hook }[] {
  return (["beforeSwitch", "afterSwitch"] as const).flatMap((moment) =>
    hooks[moment].map((hook, index) => ({ name: `${moment}.${index}`, hook })),
  );
}
