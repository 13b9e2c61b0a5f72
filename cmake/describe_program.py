#!/usr/bin/env python3
"""Writes a program's man page and bash completion from what it prints for --help.

  describe_program.py --name NAME --version V [--man FILE] [--completion FILE] PROGRAM
Reads CLI11's help: a sentence, "Usage:", "Options:", "Subcommands:" and a text behind them. A subcommand is asked
for its own help. NAME is what the program is called where it is installed.
"""
import argparse
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass, field


@dataclass
class Option:
    names: list  # as they are typed: -n, --nproc
    value: str  # what follows, as in N; empty: nothing does
    default: str
    text: str


@dataclass
class Help:
    summary: str = ""
    usage: str = ""  # behind the program's name
    options: list = field(default_factory=list)
    commands: list = field(default_factory=list)  # (name, text)
    footer: list = field(default_factory=list)  # paragraphs, each a list of lines


class HelpError(Exception):
    """The help is not as CLI11 writes it."""


ENTRY = re.compile(r"^  (?! )(.+?)(?:\s{2,}(\S.*))?$")
CHOICES = re.compile(r":\s+((?:[\w.-]+, )*[\w.-]+) or ([\w.-]+)$")


def read_entries(lines):
    """(head, text) of the lines `  head   text`; text that goes on is indented further."""
    entries = []
    for line in lines:
        if found := ENTRY.match(line):
            entries.append([found[1], found[2] or ""])
        elif entries and line.strip():
            entries[-1][1] = (entries[-1][1] + " " + line.strip()).strip()
    return entries


def read_option(head, text):
    names, _, value = head.partition(" ")
    value, _, default = value.removesuffix(" ...").partition("=")  # CLI11 marks a list so
    return Option(names.split(","), value.split(" ")[0], default, text)


def read_help(text):
    """The parts of a help. Throws HelpError where there is no usage or no option."""
    out, section, entries, last = Help(), None, {"Options": [], "Subcommands": []}, None
    for line in text.rstrip().splitlines():
        if section is None and line.startswith("Usage:"):
            section = "usage"
            out.usage = " ".join(line.split()[2:])
        elif section is None:
            out.summary = (out.summary + " " + line.strip()).strip()
        elif line.rstrip(":") in entries and line.endswith(":"):
            section = last = line.rstrip(":")
        elif section in entries and (line.startswith("  ") or not line.strip()):
            entries[section].append(line)
        elif line.strip():
            if section != "footer" or not out.footer:
                out.footer.append([])
            section = "footer"
            out.footer[-1].append(line.rstrip())
        elif section == "footer":
            out.footer.append([])
    out.footer = [paragraph for paragraph in out.footer if paragraph]
    if section is None or last is None:
        raise HelpError("the help has no usage or no options")
    out.options = [read_option(*entry) for entry in read_entries(entries["Options"])]
    out.commands = read_entries(entries["Subcommands"])
    return out


def escaped(text):
    """`text` as roff shows it unchanged."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def man_options(options):
    out = []
    for option in options:
        names = ", ".join(f"\\fB{escaped(name)}\\fR" for name in option.names)
        out += [".TP", names + (f" \\fI{escaped(option.value)}\\fR" if option.value else "")]
        text = escaped(option.text) or "\\&"
        out.append(text + (f" (default: {escaped(option.default)})" if option.default else ""))
    return out


def man_footer(paragraphs):
    """Examples and exit codes have sections of their own; the rest are notes."""
    sections = {"NOTES": [], "EXIT STATUS": [], "EXAMPLES": []}
    for lines in paragraphs:
        if lines[0].startswith("Exit codes:"):
            text = " ".join(lines).removeprefix("Exit codes:").strip()
            sections["EXIT STATUS"] += [".PP", escaped(text)]
        elif lines[0] == "Examples:":
            for line in lines[1:]:
                sections["EXAMPLES"] += [".PP", ".nf", "    " + escaped(line.strip()), ".fi"]
        else:
            sections["NOTES"] += [".PP", *map(escaped, lines)]
    out = []
    for name, lines in sections.items():
        if lines:
            out += [f".SH {name}", *lines]
    return out


def man_page(name, version, text, of_commands):
    """The page in roff; `of_commands` has the Help of each subcommand."""
    out = [f'.TH {name.upper()} 1 "" "Troupe {version}" "User Commands"', ".SH NAME",
           f"{escaped(name)} \\- {escaped(text.summary[:1].lower() + text.summary[1:].rstrip('.'))}",
           ".SH SYNOPSIS", f".B {escaped(name)}", escaped(text.usage),
           ".SH DESCRIPTION", escaped(text.summary), ".SH OPTIONS", *man_options(text.options)]
    if text.commands:
        out.append(".SH COMMANDS")
    for command, sentence in text.commands:
        out += [f".SS {escaped(command)}", escaped(sentence), *man_options(of_commands[command].options)]
    return "\n".join(out + man_footer(text.footer)) + "\n"


def choices_of(option):
    """The words that may follow, where the text ends with `: one, two or three`."""
    found = CHOICES.search(option.text) if option.value else None
    return [*found[1].split(", "), found[2]] if found else []


def takes_file(option):
    return bool(option.value) and (option.value in ("FILE", "FOLDER", "PATH") or
                                   re.search(r"\b(file|folder)\b", option.text, re.I) is not None)


COMPLETION = """# bash completion for {name}, made from its --help
{function}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} command="" i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${{COMP_WORDS[i]}} in
      {with_value}) ((++i)) ;;
      -*) ;;
      *) command=${{COMP_WORDS[i]}}; break ;;
    esac
  done
{program}  case $before in
{values}  esac
  case $command in
{commands}  esac
}}
complete -F {function} {name}
"""
# Behind a program's own options comes another program with its arguments.
PROGRAM = """  if [[ -n $command ]]; then
    if declare -F _command_offset >/dev/null; then _command_offset "$i"; else compopt -o default; fi
    return
  fi
"""


def reply_of(what):
    return f'mapfile -t COMPREPLY < <(compgen {what} -- "$word")'


def words_reply(words):
    return reply_of(f'-W "{" ".join(words)}"')


def value_reply(option):
    """What completes an option's value; empty: nothing does."""
    if choices := choices_of(option):
        return words_reply(choices) + "; "
    return "compopt -o filenames; " + reply_of("-f") + "; " if takes_file(option) else ""


def completion(name, text, of_commands):
    """A script for bash; it needs no other, and uses bash-completion where it is loaded."""
    valued = {}  # option: how its value is completed; subcommands may have the same options
    for help_of in [text, *of_commands.values()]:
        for option in help_of.options:
            if option.value:
                for option_name in option.names:
                    valued.setdefault(option_name, value_reply(option))
    values = ""
    for reply in dict.fromkeys(valued.values()):
        values += f"    {'|'.join(n for n, r in valued.items() if r == reply)}) {reply}return ;;\n"
    program = text.usage.split(" ")[1:2] == ["PROGRAM"]
    names = [n for option in text.options for n in option.names]
    first = names + [command for command, _ in text.commands]
    extra = ""
    if program:
        extra = f'      [[ $word == -* ]] || {{ compopt -o filenames; {reply_of("-fc")}; }}\n'
    here = '""' if program or text.commands else "*"
    commands = f"    {here})\n      {words_reply(first)}\n{extra}      ;;\n"
    for command, help_of in of_commands.items():
        commands += f"    {command}) {words_reply([n for option in help_of.options for n in option.names])} ;;\n"
    return COMPLETION.format(name=name, function="_" + re.sub(r"\W", "_", name),
                             with_value="|".join(valued) or "''",
                             values=values or "    '') ;;\n", program=PROGRAM if program else "", commands=commands)


def as_installed(text):
    """The build's programs under the names that they have where they are installed."""
    def name(found):
        return found[1] if found[1].startswith("troupe") else "troupe-" + found[1].replace("_", "-")
    return re.sub(r"\bbuild/(?:release/)?apps/([\w-]+)", name, text)


def ask(program, *words):
    ended = subprocess.run([program, *words, "--help"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                           timeout=100, check=False)
    if ended.returncode != 0:
        raise HelpError(f"{' '.join([program, *words])} --help ended with {ended.returncode}")
    return read_help(as_installed(ended.stdout))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--man", type=pathlib.Path)
    parser.add_argument("--completion", type=pathlib.Path)
    parser.add_argument("program")
    args = parser.parse_args()
    try:
        text = ask(args.program)
        of_commands = {command: ask(args.program, command) for command, _ in text.commands}
    except HelpError as error:
        sys.exit(f"{args.name}: {error}")
    for path, content in ((args.man, man_page(args.name, args.version, text, of_commands)),
                          (args.completion, completion(args.name, text, of_commands))):
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
