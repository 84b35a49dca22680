/**
 * Lets property tests take the seed of STEMMA_TEST_SEED where it is set, so that a run can be repeated. Imported for
 * this effect. fast-check prints the seed of a failure in any case.
 */
import fc from "fast-check";

const seed = process.env["STEMMA_TEST_SEED"];
if (seed !== undefined) fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(seed) });
