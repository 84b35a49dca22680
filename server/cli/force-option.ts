/** The option that takes what is probably a mistake and stays in the journal. */
export const forceText =
  "also what is probably a mistake: a misspelt line or fleet, a model of another shape than its line's, another network's base";
