/** `stemma journal checkpoint|cosign`: the journal's head for public witnesses, and what they answered. */
import { maxNoteBytes } from "../../../../shared/trust/signed-note.js";
import { plain } from "../../plain-command.js";
import { readTextFile } from "../../text-file.js";
import { counted } from "../../../../shared/printable.js";

const checkpoint = plain("journalCheckpoint", {
  name: "checkpoint",
  about: "the head of the journal as a checkpoint, which public witnesses can cosign",
  options: {
    from: "<count> print the request to a witness that cosigned so many facts last; 0: none",
    key: { text: "print the key that a witness is given, and nothing else", default: undefined },
  },
  help: `
Witnesses and devices know the journal by the name in its first line. Give a witness the
key first; then bring what it answered:

  stemma journal checkpoint --fleet cars --key
  stemma journal checkpoint --fleet cars > checkpoint
  stemma journal checkpoint --fleet cars --from 0 > request
  curl --data-binary @request https://witness.example/add-checkpoint > answer
  cat checkpoint answer | stemma journal cosign - --fleet cars
`,
  run: async ({ from }, { call }) => await call("journalCheckpoint", from === undefined ? {} : { from }),
  print: ({ origin, verifierKey, text, request }, { key }) => ({
    names: [origin],
    text: key ? verifierKey : (request ?? text).replace(/\n$/, ""),
    isVerbatim: true,
  }),
});

const cosign = plain("cosignJournal", {
  name: "cosign",
  about: "bring a checkpoint with the lines that witnesses answered",
  takes: { file: "<file> the checkpoint with these lines below it; - is standard input" },
  help: `
Devices whose agent.json names \`witnesses\` install a model of the server only where
enough of them have cosigned the journal that it is in. The server keeps the lines of
the last few checkpoints; whether they are valid is checked by who has the witnesses' keys.
`,
  run: async ({ file }, { call }) => {
    const text = await readTextFile(file, maxNoteBytes);
    return await call("cosignJournal", { checkpoint: text });
  },
  print: ({ length, cosigners }) => ({
    names: cosigners,
    text: `the journal of ${counted(length, "fact")} has cosignatures of: ${cosigners.join(", ")}`,
  }),
});

export const commands = [checkpoint, cosign];
