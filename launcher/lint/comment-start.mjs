// A lint rule: the comment of a declaration or member names the thing first, so that it can be understood from
// where it stands.

/** First words with which a comment is only the rest of a sentence, and how to begin instead. */
const advice = {
  question:
    'Name the thing: "The reason …", "The number of …", "The path of …", "Returns the version that …".',
  condition: 'For a boolean begin with "True if …".',
  relation: 'Name the thing, then its relation: "The size of each object that …", "The versions by id".',
  absence: 'Name the thing, then say when it is missing: "The path of …; undefined where …".',
  reference: "Name the thing that the comment is about instead of pointing at it.",
};
const kinds = {
  question: ["What", "How", "Which", "Where", "When", "Who", "Whom", "Whose", "Why"],
  condition: ["Whether"],
  relation: [
    ...[
      "Of",
      "As",
      "By",
      "For",
      "From",
      "In",
      "At",
      "On",
      "To",
      "Until",
      "With",
      "Without",
      "After",
      "Before",
    ],
    ...["While", "Since", "Between", "Per", "Over", "About", "Through", "Up"],
  ],
  absence: ["Undefined", "Absent", "Else"],
  reference: [
    "It",
    "Its",
    "They",
    "Their",
    "These",
    "Those",
    "That",
    "This",
    "Such",
    "So",
    "Also",
    "Only",
    "Not",
  ],
};

const kindOf = new Map(Object.entries(kinds).flatMap(([kind, words]) => words.map((word) => [word, kind])));

/** Members and module-level declarations, whose line comments are judged as well as their doc comments. */
const commented = [
  "TSPropertySignature",
  "TSMethodSignature",
  "TSEnumMember",
  "PropertyDefinition",
  "MethodDefinition",
  "Program > :matches(VariableDeclaration, FunctionDeclaration, ClassDeclaration, ExportNamedDeclaration)",
  "Program > :matches(TSInterfaceDeclaration, TSTypeAliasDeclaration, TSEnumDeclaration)",
].join(", ");

/** Returns the first word of a comment's text; undefined where it begins with something else, such as a tag. */
export function firstWord(text) {
  return /^[\s*]*([A-Za-z]+)(?![\w'’-])/.exec(text)?.[1];
}

export const commentStart = {
  meta: {
    type: "suggestion",
    docs: { description: "a comment names its thing first" },
    schema: [],
    messages: {
      start: 'A comment that begins with "{{word}}" cannot be understood from where it stands. {{advice}}',
    },
  },
  create(context) {
    const { sourceCode } = context;
    const judged = new Set();
    const judge = (comment) => {
      if (judged.has(comment)) return;
      judged.add(comment);
      const word = firstWord(comment.value);
      const kind = kindOf.get(word);
      if (kind === undefined) return;
      context.report({ loc: comment.loc, messageId: "start", data: { word, advice: advice[kind] } });
    };
    return {
      Program() {
        for (const comment of sourceCode.getAllComments())
          if (comment.type === "Block" && comment.value.startsWith("*")) judge(comment);
      },
      [commented](node) {
        for (const comment of firstLines(sourceCode.getCommentsBefore(node))) judge(comment);
      },
    };
  },
};

/** Yields comments that begin a text: a line comment right below another one continues it. */
function* firstLines(comments) {
  for (const [index, comment] of comments.entries()) {
    const before = comments[index - 1];
    const continues =
      comment.type === "Line" &&
      before?.type === "Line" &&
      before.loc.end.line === comment.loc.start.line - 1;
    if (!continues) yield comment;
  }
}

export default { meta: { name: "stemma" }, rules: { "comment-start": commentStart } };
