/**
 * Shares of a cost below which a difference is rounding and not a difference. There are three, because the
 * compared numbers come from different amounts of arithmetic.
 */

/** Sums of many costs: the same costs added in another order, or updated by many moves. */
export const sumRoundingShare = 1e-9;
/** The recreation cost that one move saves, computed from costs that moves update. */
export const moveRoundingShare = 1e-10;
/** Two costs that were each read or added along a path once. */
export const costRoundingShare = 1e-12;
