/** Reads from a command line where data are. */
import { isUrl } from "../../shared/data/data-url.js";
import { pathOf } from "./plain-command.js";

/** A URL as it is, or the whole path of what is on the machine of the command line. */
export function locationOf(text: string): string {
  return isUrl(text) ? text : pathOf(text);
}
