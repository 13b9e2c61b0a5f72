#!/usr/bin/env python3
"""Compiles sources that must not compile, and compares the first error of each case.

A case begins with a comment and ends with the next one:
  // error: TEXT   the first error begins with TEXT, which may go on in further lines
  // also: TEXT    behind it: a later one has TEXT
  // compiles      there is none
One run of the compiler has the errors of all cases of a source: each belongs to the line of the
source that it was required from. --headers names folders of headers: every static_assert there that
has a text must be the first error of a case.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys

MARKER = re.compile(r"^// (error|also|compiles)(?:: (.*))?$")
PLACE = re.compile(r"^(?:In file included |\s*)?(?:from )?(\S*?):(\d+)[:,]")
MESSAGE = re.compile(r"^(\S*?):(\d+):(?:\d+:)? (fatal error|error|note): (.*)$")
FIRST_OF_CONTEXT = re.compile(r"^\S.*: (?:In|At) ")
ASSERTION = "static assertion failed: "


class Case:
    def __init__(self, line, kind, text):
        self.line, self.kind, self.text, self.also = line, kind, text, []
        self.errors = []


def cases_in(text):
    cases, goes_on = [], False
    for number, line in enumerate(text.splitlines(), 1):
        found = MARKER.match(line)
        if found:
            kind, wanted = found.groups()
            if kind == "also":
                cases[-1].also.append(wanted)
            else:
                cases.append(Case(number, kind, wanted))
            goes_on = kind == "error"
        elif goes_on and line.startswith("// "):
            cases[-1].text += line[len("//"):]
        else:
            goes_on = False
    return cases


def errors_in(output, name):
    """Errors as (line of the source or None, text), in the compiler's order."""
    errors, context = [], None
    for line in output.splitlines():
        found = MESSAGE.match(line)
        if found:
            file, number, kind, text = found.groups()
            inside = os.path.basename(file) == name
            if kind != "note":
                if text.startswith(ASSERTION):
                    text = text[len(ASSERTION):]
                errors.append([int(number) if inside else context, text])
            elif inside and errors and text.startswith("in expansion of macro"):
                errors[-1][0] = int(number)
            continue
        if FIRST_OF_CONTEXT.match(line):
            context = None
        found = PLACE.match(line)
        if found and os.path.basename(found.group(1)) == name:
            context = int(found.group(2))
    return errors


def complaints(source, text, output):
    """What is wrong with one source, and the first errors of its cases."""
    cases, wrong, others = cases_in(text), [], []
    for line, error in errors_in(output, os.path.basename(source)):
        owners = [case for case in cases if line is not None and case.line < line]
        if owners:
            owners[-1].errors.append(error)
        else:
            others.append((line, error))
    # What virtual functions instantiate belongs to no line of the source; a case has the same error.
    for line, error in others:
        if not any(error in case.errors for case in cases if case.kind == "error"):
            wrong.append(f"{source}:{line or 0}: an error of no case: {error}")
    for case in cases:
        place = f"{source}:{case.line}"
        first = case.errors[0] if case.errors else "(none)"
        if case.kind == "compiles":
            if case.errors:
                wrong.append(f"{place}: compiles no more\n  error:  {first}")
        elif not first.startswith(case.text):
            wrong.append(f"{place}: another first error\n  wanted: {case.text}\n  error:  {first}")
        for text in case.also:
            if not any(text in error for error in case.errors[1:]):
                wrong.append(f"{place}: no later error has: {text}\n  errors: {case.errors}")
    if not cases:
        wrong.append(f"{source}: has no case")
    return wrong, [case.errors[0] for case in cases if case.errors]


def command_for(source, commands, compiler):
    for entry in commands:
        path = os.path.join(entry["directory"], entry["file"])
        if os.path.exists(path) and os.path.samefile(path, source):  # some sources are yet to be generated
            break
    else:
        sys.exit(f"{source} is not in compile_commands.json")
    given = entry.get("arguments") or shlex.split(entry["command"])
    if compiler in given:  # what launches the compiler stands before it
        given = given[given.index(compiler):]
    command, skip = [], False
    for word in given:
        if skip or word == "-c":
            skip = False
        elif word == "-o":
            skip = True
        else:
            command.append(word)
    return command + ["-fsyntax-only", "-w", "-fdiagnostics-plain-output"], entry["directory"]


def compile_one(source, commands, compiler):
    command, folder = command_for(source, commands, compiler)
    result = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, errors="replace", env={**os.environ, "LC_ALL": "C"},
                            check=False)
    with open(source, encoding="utf-8") as file:
        return complaints(source, file.read(), result.stdout)


def texts_of_assertions(text):
    """The texts of static_asserts, and how many have none."""
    out = []
    for start in re.finditer(r"static_assert\(", text):
        depth, end, quoted = 1, start.end(), False
        while depth and end < len(text):
            here = text[end]
            if quoted:
                end += here == "\\"
                quoted = here != '"'
            elif here == '"':
                quoted = True
            else:
                depth += (here == "(") - (here == ")")
            end += 1
        inside = text[start.end():end - 1].replace("\\\n", "\n")
        found = re.search(r',\s*((?:"(?:[^"\\]|\\.)*"\s*)+)$', inside)
        if found:
            parts = re.findall(r'"((?:[^"\\]|\\.)*)"', found.group(1))
            out.append("".join(parts).replace('\\"', '"'))
    return out


def headers_below(folders):
    for folder in folders:
        for path, _, names in os.walk(folder):
            for name in sorted(names):
                if name.endswith(".hpp"):
                    yield os.path.join(path, name)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commands", required=True)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--headers", nargs="*", default=[])
    parser.add_argument("sources", nargs="+")
    args = parser.parse_args()
    with open(args.commands, encoding="utf-8") as file:
        commands = json.load(file)
    wrong, seen = [], []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(compile_one, os.path.abspath(source), commands, args.compiler)
                for source in args.sources]
        for job in jobs:
            complaint, first = job.result()
            wrong += complaint
            seen += first
    for header in headers_below(args.headers):
        with open(header, encoding="utf-8") as file:
            for text in texts_of_assertions(file.read()):
                if text not in seen:
                    wrong.append(f"{header}: no case shows the static_assert: {text}")
    print("\n".join(wrong) or f"{len(seen)} first errors are as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
