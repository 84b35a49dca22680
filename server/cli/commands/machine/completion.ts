/** `stemma completion bash|zsh|fish`: a script by which a shell completes commands and options. */
import type { Command } from "commander";
import { suggestionLines, suggestions } from "../../../../shared/cli/completion.js";
import type { BuildProgram } from "../../context.js";

const help = `
  bash   echo 'eval "$(stemma completion bash)"' >> ~/.bashrc
  zsh    echo 'eval "$(stemma completion zsh)"' >> ~/.zshrc      (after compinit)
  fish   stemma completion fish > ~/.config/fish/completions/stemma.fish

The command must be found under the name \`stemma\`. Names of models and devices are not
completed: that would ask the server at every key.
`;

/** `agent` is a program of its own, which completes its commands itself. */
const scripts = {
  bash: `_stemma_complete() {
  local words=("\${COMP_WORDS[@]:1:COMP_CWORD}") IFS=$'\\n'
  if [ "\${words[0]}" = agent ] && [ "$COMP_CWORD" -gt 1 ]; then
    COMPREPLY=($("\${COMP_WORDS[0]}" agent suggest -- "\${words[@]:1}" 2>/dev/null | cut -f 1))
  else
    COMPREPLY=($("\${COMP_WORDS[0]}" completion suggest -- "\${words[@]}" 2>/dev/null | cut -f 1))
  fi
}
complete -o default -F _stemma_complete stemma
`,
  zsh: `_stemma_complete() {
  local -a lines described
  if (( CURRENT > 2 )) && [[ "\${words[2]}" == agent ]]; then
    lines=("\${(@f)$("\${words[1]}" agent suggest -- "\${(@)words[3,CURRENT]}" 2>/dev/null)}")
  else
    lines=("\${(@f)$("\${words[1]}" completion suggest -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  fi
  local line
  for line in "\${lines[@]}"; do
    [[ -n "$line" ]] && described+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done
  if (( \${#described} )); then _describe 'stemma' described; else _files; fi
}
compdef _stemma_complete stemma
`,
  fish: `function __stemma_complete
  set -l words (commandline -opc)[2..-1] (commandline -ct)
  set -l found
  if test (count $words) -gt 1; and test "$words[1]" = agent
    set found (stemma agent suggest -- $words[2..-1] 2>/dev/null)
  else
    set found (stemma completion suggest -- $words 2>/dev/null)
  end
  if test (count $found) -gt 0
    printf '%s\\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c stemma -f -a '(__stemma_complete)'
`,
} as const;

export function define(completion: Command, buildProgram: BuildProgram): void {
  completion.addHelpText("after", help);
  for (const shell of ["bash", "zsh", "fish"] as const)
    completion
      .command(shell)
      .description(`print the script for ${shell}`)
      .action(() => {
        process.stdout.write(scripts[shell]);
      });
  completion
    .command("suggest")
    .argument("[words...]", "the words after `stemma`, of which the last is being typed; after --")
    .description("print what can come next, as the scripts ask it")
    .action(async (words: readonly string[]) => {
      process.stdout.write(suggestionLines(suggestions(await buildProgram(words), words)));
    });
}
