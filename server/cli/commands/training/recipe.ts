/** `stemma recipe list|show`: the registered training procedures; and the commands of own ones. */
import { StemmaError } from "../../../../shared/errors.js";
import { listed, plain, type Printed } from "../../plain-command.js";
import { commands as ownCommands, describeOwn } from "./recipe-own.js";

const list = plain("recipes", {
  name: "list",
  about: "names, versions and what they train",
  options: { own: "those that were approved in this fleet, instead of the built-in ones" },
  run: async ({ own }, { call }): Promise<Printed> => {
    if (own) return describeOwn(await call("recipes"));
    const { listRecipes } = await import("../../../../shared/train/recipes/registry.js");
    return listed(listRecipes(), {
      nameOf: (row) => row.name,
      columns: [
        { title: "RECIPE", value: (row) => row.name },
        { title: "VERSION", value: (row) => row.version },
        { title: "TRAINS", value: (row) => row.description },
      ],
    });
  },
});

const show = plain(null, {
  name: "show",
  about: "parameters of a recipe: defaults and meanings",
  takes: { name: "" },
  run: async ({ name }) => {
    const { listRecipes } = await import("../../../../shared/train/recipes/registry.js");
    const found = listRecipes().find((row) => row.name === name);
    if (found !== undefined) return found;
    throw new StemmaError(
      "RECIPE_UNKNOWN",
      `${name} is not the name of a recipe. List them with: stemma recipe list`,
    );
  },
  print: (found, { name }) => ({
    ...listed(Object.keys(found.help), {
      nameOf: () => name,
      columns: [
        { title: "PARAMETER", value: (parameter) => parameter },
        { title: "BASE TRAINING", value: (parameter) => defaultText(found.base[parameter]) },
        { title: "FINE-TUNING", value: (parameter) => defaultText(found.parameters[parameter]) },
        { title: "MEANING", value: (parameter) => found.help[parameter] },
      ],
    }),
    data: found,
    names: [name],
  }),
});

/** A default of one kind of training; a parameter that this kind does not have is shown as "-". */
function defaultText(value: string | number | boolean | undefined): string {
  return value === undefined ? "-" : String(value);
}

export const commands = [list, show, ...ownCommands];
