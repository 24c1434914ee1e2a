"""A program that matches patterns and schemas apart from its worker, which can kill it.

It imports nothing of ours: it must be there in a moment. Questions come as lines of JSON on
standard input, answers leave so: whether the text passes, and why not.
"""

import json
import re
import signal
import sys
from typing import Any

MOST_ERRORS = 5


def main() -> None:
    """Answers until there are no more questions."""
    sys.path[:] = json.loads(sys.argv[1])
    say("ready")
    for line in sys.stdin.buffer:
        kind, value, output, limit_sec = json.loads(line)
        # The kernel ends it when its time is up, should the worker be gone by then.
        signal.setitimer(signal.ITIMER_REAL, limit_sec)
        answer = (matches if kind == "regex" else conforms)(value, output)
        signal.setitimer(signal.ITIMER_REAL, 0)
        say(answer)


def say(word: object) -> None:
    """One line to the worker."""
    sys.stdout.write(json.dumps(word) + "\n")
    sys.stdout.flush()


def matches(pattern: str, output: Any) -> str:
    """Why the whole text does not match; an output that is no text is looked at as JSON."""
    compact = json.dumps(output, ensure_ascii=False, separators=(",", ":"))
    text = output if isinstance(output, str) else compact
    return "" if re.fullmatch(pattern, text) else f"the result does not match {pattern!r}"


def conforms(schema: Any, output: Any) -> str:
    """Why an output is not as its schema says. Nothing is fetched from anywhere."""
    import jsonschema_rs  # noqa: PLC0415  # patterns need no package

    try:
        validator = jsonschema_rs.validator_for(schema, retriever=refuse)
    except ValueError as error:
        return f"the schema is none: {first_line(error)}"
    found = []
    for wrong in validator.iter_errors(output):
        place = "".join(f"[{step!r}]" for step in wrong.instance_path)
        found.append(f"result{place}: {wrong.message}")
        if len(found) == MOST_ERRORS:
            break
    return "\n".join(found)


def refuse(uri: str) -> Any:
    """What a schema refers to must stand in it."""
    raise ValueError(f"{uri} is not fetched")


def first_line(error: Exception) -> str:
    """What an error says, without the schema that it repeats."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


if __name__ == "__main__":
    main()
