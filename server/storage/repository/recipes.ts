/**
 * A fleet's own recipes. A recipe is code, so a person approves it by its hash, and may revoke that; devices are given
 * those that their lines name, and never send one. What was trained by a revoked recipe stays, with its bundle, but
 * nothing runs it.
 */
import { StemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { bundleId } from "../../../shared/train/own-recipes/bundle.js";
import type { RepositoryContext } from "./context.js";
import type { KnownRecipe, RecipeSummary } from "./answers/code-answers.js";

/** The members of an approval beside the bundle. */
export interface RecipeApproval {
  readonly name: string;
  /** The recipe's own number. */
  readonly version: number;
  readonly because: string;
}

/** Stores a bundle and states that it may be run. Approving again what is approved changes nothing. */
export async function approveRecipe(
  context: RepositoryContext,
  bundle: Uint8Array,
  { name, version, because }: RecipeApproval,
): Promise<KnownRecipe> {
  const recipe = bundleId(bundle);
  const isApproved = (): boolean => {
    const known = context.state.recipes.get(recipe);
    return known !== undefined && known.revoked === undefined;
  };
  if (!isApproved() || !context.objects.has(recipe)) {
    const pack = await context.objects.begin();
    try {
      await pack.putStream("recipe", { chunks: () => onePiece(bundle) }, recipe);
      await pack.commit();
    } catch (error) {
      await pack.abort();
      throw error;
    }
    await context.queue.submit({
      requiredObjects: [recipe],
      decide: () =>
        isApproved()
          ? []
          : [{ type: "recipe-approved", atMs: context.clock.now(), recipe, name, version, because }],
    });
  }
  return requireRecipe(context, recipe);
}

// eslint-disable-next-line @typescript-eslint/require-await -- a stream of one piece
async function* onePiece(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

/** @throws RECIPE_NOT_APPROVED where it is not approved */
export async function revokeRecipe(context: RepositoryContext, recipe: Hash, because: string): Promise<void> {
  await context.queue.submit({
    requiredObjects: [],
    isExclusive: true,
    decide: () => {
      if (requireRecipe(context, recipe).revoked !== undefined)
        throw new StemmaError(
          "RECIPE_NOT_APPROVED",
          `The approval of the recipe ${recipe.slice(0, 12)} was revoked before. There is nothing to do.`,
          { recipe },
        );
      return [{ type: "recipe-revoked", atMs: context.clock.now(), recipe, because }];
    },
  });
}

/** Every recipe that was approved, in the order of the approvals; revoked ones too. Looks at no version. */
export function knownRecipes({
  state,
  objects,
}: Pick<RepositoryContext, "state" | "objects">): readonly KnownRecipe[] {
  return [...state.recipes.values()].map((recipe) => ({ ...recipe, isStored: objects.has(recipe.recipe) }));
}

/** Lists recipes as `knownRecipes`, with the versions and devices that have each. Looks at every version. */
export function recipeSummaries(context: RepositoryContext): readonly RecipeSummary[] {
  const { state, records } = context;
  if (state.recipes.size === 0) return [];
  const counts = new Map<Hash, number>();
  for (const { versionId, retired } of state.versions.values()) {
    const used = retired === undefined ? records.get(versionId)?.uses?.recipe : undefined;
    if (used !== undefined) counts.set(used, (counts.get(used) ?? 0) + 1);
  }
  return knownRecipes(context).map((recipe) => ({
    ...recipe,
    versions: counts.get(recipe.recipe) ?? 0,
    devices: [...state.devices.values()].filter(({ recipes }) => recipes.has(recipe.recipe)).length,
  }));
}

/** States that a device was sent a recipe. Does nothing where that is known. @throws RECIPE_NOT_APPROVED */
export async function giveRecipe(context: RepositoryContext, device: string, recipe: Hash): Promise<void> {
  const isKnown = (): boolean => wasGivenRecipe(context, device, recipe);
  if (isKnown()) return;
  await context.queue.submit({
    requiredObjects: [recipe],
    decide: () => {
      if (requireRecipe(context, recipe).revoked !== undefined) throw revokedMeanwhile(recipe);
      return isKnown() ? [] : [{ type: "recipe-given", atMs: context.clock.now(), device, recipe }];
    },
  });
}

function revokedMeanwhile(recipe: Hash): StemmaError {
  return new StemmaError(
    "RECIPE_NOT_APPROVED",
    `The approval of the recipe ${recipe.slice(0, 12)} was revoked meanwhile, so no device is given it.`,
    { recipe },
  );
}

export function wasGivenRecipe(
  { state }: Pick<RepositoryContext, "state">,
  device: string,
  recipe: Hash,
): boolean {
  return state.devices.get(device)?.recipes.has(recipe) === true;
}

/** The bytes of a recipe that may be run. @throws RECIPE_NOT_APPROVED */
export async function readApprovedRecipe(context: RepositoryContext, recipe: Hash): Promise<Uint8Array> {
  const { revoked, name } = requireRecipe(context, recipe);
  if (revoked !== undefined)
    throw new StemmaError(
      "RECIPE_NOT_APPROVED",
      `The approval of the recipe ${name} (${recipe.slice(0, 12)}) was revoked` +
        `${revoked.because === "" ? "" : `: ${revoked.because}`}. Nothing runs it until it is approved again.`,
      { recipe },
    );
  const chunks: Uint8Array[] = [];
  for await (const chunk of context.objects.openStream("recipe", recipe).chunks()) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function requireRecipe(context: RepositoryContext, recipe: Hash): KnownRecipe {
  const found = knownRecipes(context).find((each) => each.recipe === recipe);
  if (found !== undefined) return found;
  throw new StemmaError(
    "RECIPE_NOT_APPROVED",
    `The recipe ${recipe.slice(0, 12)} is not approved in the fleet ${context.fleet}, so nothing runs it. ` +
      "Approve it with `stemma recipe approve FILE`.",
    { recipe },
  );
}
