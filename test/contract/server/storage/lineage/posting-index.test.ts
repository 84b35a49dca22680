/** The index in memory fulfils the contract of indexes of prefixes. */
import { PostingIndex } from "../../../../../server/storage/lineage/posting-index.js";
import { prefixIndexContract } from "./prefix-index-contract.js";

prefixIndexContract("PostingIndex", () => new PostingIndex());
prefixIndexContract(
  "PostingIndex in which identities are soon common",
  () => new PostingIndex({ maxListed: 3 }),
);
